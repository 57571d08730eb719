//! A stable order for sorts by a comparison that also holds for equal elements, such as `<=`: the unstable sort of XLA's CPU
//! plugin then reads and writes beyond the array.

use crate::program::{Format, Program};
use memchr::memmem;
use pjrt_base::error::Result;
use pjrt_ir::hlo;
use pjrt_ir::module::{are_both_elements, Attribute, Operation};

impl Program {
    /// The program for XLA's CPU compiler, with a stable order in each sort whose comparison is not known to be strict. `None` if
    /// all are, or if it has operations that are not known here.
    ///
    /// # Errors
    /// As for [`Program::new`].
    pub fn with_stable_sorts(&self) -> Result<Option<Program>> {
        // Most programs do not sort, and are not read.
        if memmem::find(self.code(), b"sort").is_none() {
            return Ok(None);
        }
        let code = match self.format() {
            Format::Hlo => hlo::sorting::with_stable_order(self.code(), &self.hlo().unwrap_or_default())?,
            Format::Mlir => self.stable_text(),
        };
        code.map(|code| Program::new(code, self.format())).transpose()
    }

    fn stable_text(&self) -> Option<Vec<u8>> {
        let mut module = self.whole_module("").ok()?;
        if !make_stable(&mut module.root) {
            return None;
        }
        module.root.without_regions_of_composites();
        module.text().ok().map(String::into_bytes)
    }
}

/// Makes the sorts in an operation stable. Whether any was not.
fn make_stable(operation: &mut Operation) -> bool {
    let mut is_made = false;
    operation.inner_mut().for_each(|inner| is_made |= make_stable(inner));
    let is_stable = operation.attribute(STABLE) == Some(&Attribute::Bool(true));
    if &*operation.stable_base() == "sort" && !is_stable && !compares_strictly(operation) {
        operation.set(STABLE, Attribute::Bool(true));
        is_made = true;
    }
    is_made
}

const STABLE: &str = "is_stable";

/// Whether a sort's region is one comparison of both elements of an operand, by `<` or `>`.
fn compares_strictly(sort: &Operation) -> bool {
    let Some(block) = sort.block(0) else { return false };
    let [compare, _] = &block.operations[..] else { return false };
    let direction = compare.attribute("comparison_direction");
    let is_strict = matches!(direction, Some(Attribute::Choice(_, "LT" | "GT"))) && compare.kind() == "compare";
    let place = |operand| block.arguments.iter().position(|argument| argument == operand);
    let [a, b] = &compare.operands[..] else { return false };
    is_strict && place(a).zip(place(b)).is_some_and(|(a, b)| are_both_elements([a, b]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::stablehlo::{Version, Versions};

    fn sorting(direction: &str, operands: &str, attributes: &str) -> Program {
        let text = format!(
            "func.func @main(%x: tensor<9xf32>, %i: tensor<9xi32>) -> tensor<9xf32> {{
  %y:2 = \"stablehlo.sort\"(%x, %i) <{{dimension = 0 : i64{attributes}}}> ({{
  ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>):
    %r = stablehlo.compare {direction}, {operands} : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %r : tensor<i1>
  }}) : (tensor<9xf32>, tensor<9xi32>) -> (tensor<9xf32>, tensor<9xi32>)
  return %y#0 : tensor<9xf32>
}}"
        );
        Program::new(text.into_bytes(), Format::Mlir).unwrap()
    }

    #[test]
    fn sorts_by_what_holds_for_equal_elements_become_stable() {
        for (direction, operands) in [("LE", "%a, %b"), ("GE", "%b, %a"), ("NE", "%a, %b"), ("LT", "%a, %a")] {
            for attributes in ["", ", is_stable = false"] {
                let program = sorting(direction, operands, attributes).with_stable_sorts().unwrap().unwrap();
                assert!(program.text().contains("is_stable = true"), "{}", program.text());
                assert!(program.with_stable_sorts().unwrap().is_none());
            }
        }
        let nested =
            sorting("LE", "%a, %b", "").text().replace("func.func @main", "func.func private @f").replace("  ", " ");
        let whole = format!("module {{\nfunc.func @main(%x: tensor<9xf32>) -> tensor<9xf32> {{ return %x : tensor<9xf32> }}\n{nested}\n}}");
        let program = Program::new(whole.into_bytes(), Format::Mlir).unwrap().with_stable_sorts().unwrap().unwrap();
        assert!(program.text().contains("is_stable = true"));
        let versions = Versions { minimum: Version([0, 9, 0]), current: Version([1, 13, 3]) };
        let artifact = sorting("LE", "%a, %b", "").to_portable(Some(versions)).unwrap().unwrap();
        assert!(artifact.bytecode().is_some());
        let text = artifact.with_stable_sorts().unwrap().unwrap().text();
        assert!(text.contains("is_stable = true"), "{text}");
    }

    #[test]
    fn others_stay() {
        for program in [
            sorting("LT", "%a, %b", ""),
            sorting("GT", "%b, %a, TOTALORDER", ", is_stable = false"),
            sorting("LE", "%a, %b", ", is_stable = true"),
        ] {
            assert!(program.with_stable_sorts().unwrap().is_none(), "{}", program.text());
        }
    }
}
