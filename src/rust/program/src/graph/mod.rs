//! Programs as graphs of operations: read from StableHLO text, bytecode and HLO, and folded until a reader can follow.

mod fold;
mod read;
mod view;

pub use view::{Node, Role};

use crate::program::Program;
use pjrt_base::error::Result;
use pjrt_ir::hlo::HloModuleProto;

/// The operations of a program, in functions and regions.
#[derive(Debug, Clone, Default)]
pub struct Graph {
    pub(crate) bodies: Vec<Body>,
    /// The body of the main function.
    entry: usize,
}

/// The operations of a function or a region, in the program's order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Body {
    pub name: String,
    pub ops: Vec<Op>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Op {
    /// What is shown of it. Its inputs are operations of the same body, and inside are regions and the functions that it calls.
    pub node: Node,
    /// The value of a constant with equal elements.
    pub value: Option<String>,
    /// Whether it passes its operands on, as tuples and their elements do.
    pub is_passing: bool,
}

impl Graph {
    /// Reads a program.
    ///
    /// # Errors
    /// `UnsupportedProgram` for bytecode that cannot be decoded.
    pub fn of_program(program: &Program) -> Result<Graph> {
        Ok(read::read(&program.module()?))
    }

    /// Reads an HLO module.
    pub fn of_hlo(module: &HloModuleProto) -> Graph {
        read::read(&module.to_module())
    }
}

/// A number of a constant, shortened; `None` if it is too long for a label.
fn short_number(text: &str) -> Option<String> {
    const LONGEST: usize = 12;
    let text = text.trim();
    if text.is_empty() {
        return None;
    }
    let number = match (text.strip_prefix("0x"), text.parse::<f64>()) {
        (Some(digits), _) if digits.len() == 8 => f64::from(f32::from_bits(u32::from_str_radix(digits, 16).ok()?)),
        (Some(digits), _) if digits.len() == 16 => f64::from_bits(u64::from_str_radix(digits, 16).ok()?),
        (None, Ok(number)) => number,
        _ => return (text.len() <= LONGEST && !text.contains(['[', '"', '{'])).then(|| text.to_owned()),
    };
    let plain = format!("{number}").replace("inf", "Inf");
    if plain.len() <= LONGEST {
        return Some(plain);
    }
    let size = number.abs();
    Some(if (1e-3..1e6).contains(&size) { format!("{number:.4}") } else { format!("{number:.3e}") })
}

#[cfg(test)]
mod tests;
