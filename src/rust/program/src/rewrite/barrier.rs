//! Barriers behind constants that a compiler would misread.

use super::folding::misread_constants;
use super::{changed, replace_each};
use crate::program::{Format, Program};
use pjrt_base::error::Result;
use pjrt_ir::hlo;
use pjrt_ir::module::{shown, Module, Operation, Value};
use pjrt_ir::text;
use std::collections::HashSet;

impl Program {
    /// The program for XLA's CPU compiler, with barriers behind the constants from which it would compute wrong numbers. `None`
    /// if there are none.
    ///
    /// # Errors
    /// As for [`Program::new`].
    pub fn with_barriers(&self) -> Result<Option<Program>> {
        let constants = self.module().map(|module| misread_constants(&module)).unwrap_or_default();
        if constants.is_empty() {
            return Ok(None);
        }
        let code = match (self.format(), self.bytecode()) {
            (Format::Hlo, _) => {
                Some(hlo::barrier::with_barriers(self.code(), &self.hlo().unwrap_or_default(), &constants)?)
            }
            (Format::Mlir, None) => in_text(self.code(), &constants),
            (Format::Mlir, Some(_)) => Module::decode(self.code()).and_then(in_module).ok().map(String::into_bytes),
        };
        code.map(|code| Program::new(code, self.format())).transpose()
    }
}

fn in_text(code: &[u8], constants: &HashSet<Value>) -> Option<Vec<u8>> {
    let places = text::constants(code);
    let places = places.iter().filter(|place| constants.contains(&place.value));
    let changes = places.flat_map(|place| {
        let name = String::from_utf8_lossy(&code[place.name.clone()]);
        let kind = shown(&place.kind);
        let barrier = format!("\n%{name} = stablehlo.optimization_barrier %pjrt_{name} : {kind}");
        [(place.name.start..place.name.start, "pjrt_".into()), (place.end..place.end, barrier)]
    });
    changed(code, changes.collect())
}

/// The text of a module with barriers. Its values have other numbers than in the lenient reading.
fn in_module(mut module: Module) -> Result<String> {
    let constants = misread_constants(&module);
    let Module { root, types } = &mut module;
    replace_each(root, &mut |mut operation, out| {
        let barrier = match operation.results[..] {
            [value] if constants.contains(&value) => {
                types.push(types[value.0 as usize].clone());
                let hidden = Value(types.len() as u32 - 1);
                operation.results = vec![hidden];
                Some(Operation::new("stablehlo.optimization_barrier", vec![hidden], vec![value]))
            }
            _ => None,
        };
        out.push(operation);
        out.extend(barrier);
    });
    root.without_regions_of_composites();
    module.text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_of_text_get_a_barrier() {
        let text = "func.func @main() -> tensor<2xf32> {
  %0 = stablehlo.constant dense<1.0> : tensor<2xf32> loc(\"a\")
  %cst = \"stablehlo.constant\"() <{value = dense<2.0> : tensor<2xf32>}> : () -> tensor<2xf32>
  %1 = stablehlo.maximum %0, %cst : tensor<2xf32>
  return %1 : tensor<2xf32>
}";
        let program = Program::new(text.into(), Format::Mlir).unwrap();
        let found = program.with_barriers().unwrap().unwrap().text();
        assert!(found.contains("%pjrt_0 = stablehlo.constant dense<1.0> : tensor<2xf32>\n%0 = "), "{found}");
        assert!(
            found.contains("-> tensor<2xf32>\n%cst = stablehlo.optimization_barrier %pjrt_cst : tensor<2xf32>\n"),
            "{found}"
        );
        assert!(Program::new(found.into(), Format::Mlir).unwrap().with_barriers().unwrap().is_none());
        let named = "#one = dense<1.0> : tensor<2xf32>\n!t = tensor<2xf32>\n".to_owned()
            + &text.replace("dense<1.0> : tensor<2xf32>", "#one").replace("-> tensor<2xf32>\n", "-> !t\n");
        let found = Program::new(named.into(), Format::Mlir).unwrap().with_barriers().unwrap().unwrap().text();
        for barrier in [
            "%pjrt_0 = stablehlo.constant #one\n%0 = stablehlo.optimization_barrier %pjrt_0 : tensor<2xf32> loc",
            "-> !t\n%cst = stablehlo.optimization_barrier %pjrt_cst : tensor<2xf32>\n",
        ] {
            assert!(found.contains(barrier), "{found}");
        }
        let plain = text.replace("maximum", "add");
        assert!(Program::new(plain.into(), Format::Mlir).unwrap().with_barriers().unwrap().is_none());
    }
}
