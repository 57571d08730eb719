//! Programs for which XLA's older code for CPUs is faster: those that find places of minima or maxima and compute little else.
//!
//! A reduction of several arrays at once, as `argmin` is, takes two to five times as long with the code that XLA has used since
//! 2025, which branches at each element. Functions such as exponentials, and windows, take up to twice as long with the older.

use crate::program::Program;
use memchr::memmem;
use pjrt_ir::hlo::is_transcendental;
use pjrt_ir::module::Operation;

/// Other operations that the older code computes slowly.
const SLOW: [&str; 3] = ["map", "reduce-window", "select-and-scatter"];

/// Functions that it computes as fast.
const FAST: [&str; 2] = ["rsqrt", "sqrt"];

/// Names that show in any form that there is such an operation: programs with these are not read.
const SHOWN: [&[u8]; 4] = [b".exponential", b".tanh", b".logistic", b"exponential_v1"];

/// Whether XLA's older code is faster for a program.
pub fn prefer_older_code(program: &Program) -> bool {
    let has = |name: &[u8]| memmem::find(program.code(), name).is_some();
    if !has(b"reduce") || SHOWN.iter().any(|name| has(name)) {
        return false;
    }
    // Each array has an initial value.
    let selects = |operation: &Operation| operation.base() == "reduce" && operation.operands.len() > 2;
    program.module().is_ok_and(|module| module.root.all().all(is_fast) && module.root.all().any(selects))
}

/// Whether an operation is not such a function.
fn is_fast(operation: &Operation) -> bool {
    // As in HLO.
    let name = operation.base().replace('_', "-");
    let is_function = is_transcendental(&name) && !FAST.contains(&&*name);
    !is_function && !SLOW.contains(&&*name) && !operation.name.starts_with("chlo.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Format;

    const REDUCER: &str = "reducer(%a: tensor<f32>, %b: tensor<f32>) (%i: tensor<i32>, %j: tensor<i32>) {
      %l = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %v = stablehlo.select %l, %a, %b : tensor<i1>, tensor<f32>
      %w = stablehlo.select %l, %i, %j : tensor<i1>, tensor<i32>
      stablehlo.return %v, %w : tensor<f32>, tensor<i32>
    }";

    fn program(first: &str) -> Program {
        let text = format!(
            "func.func @main(%x: tensor<9x5xf32>, %c: tensor<f32>, %z: tensor<i32>) -> tensor<9xi32> {{
  %n = stablehlo.iota dim = 1 : tensor<9x5xi32>
  %y = stablehlo.{first} : tensor<9x5xf32>
  %r:2 = stablehlo.reduce(%y init: %c), (%n init: %z) across dimensions = [1] : (tensor<9x5xf32>, tensor<9x5xi32>, tensor<f32>, tensor<i32>) -> (tensor<9xf32>, tensor<9xi32>)
    {REDUCER}
  return %r#1 : tensor<9xi32>
}}"
        );
        Program::new(text.into(), Format::Mlir).unwrap()
    }

    #[test]
    fn programs_of_selections_and_arithmetic_prefer_it() {
        for first in ["add %x, %x", "sqrt %x", "negate %x"] {
            assert!(prefer_older_code(&program(first)), "{first}");
        }
        for first in ["exponential %x", "log %x", "cosine %x", "tanh %x", "power %x, %x"] {
            assert!(!prefer_older_code(&program(first)), "{first}");
        }
    }

    #[test]
    fn programs_without_selections_do_not() {
        let text = "func.func @main(%x: tensor<9xf32>, %c: tensor<f32>) -> tensor<f32> {
  %r = stablehlo.reduce(%x init: %c) applies stablehlo.add across dimensions = [0] : (tensor<9xf32>, tensor<f32>) -> tensor<f32>
  return %r : tensor<f32>
}";
        assert!(!prefer_older_code(&Program::new(text.into(), Format::Mlir).unwrap()));
    }
}
