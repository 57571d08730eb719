//! Integers narrower than a byte become bytes before floats: XLA's CPU compiler gets elements wrong that it converts at
//! once, in some matrices.

use super::replace_each;
use crate::program::{Format, Program};
use pjrt_base::error::{Error, Kind, Result};
use pjrt_data::dtype::DType;
use pjrt_ir::module::{Element, Module, Operation, Type, Value};
use pjrt_ir::{bytecode, text};

impl Program {
    /// The program for XLA's CPU compiler. `None` if it converts no such matrices, or has operations that are not known here.
    ///
    /// # Errors
    /// `UnsupportedDtype` if it would compute wrong numbers and cannot be written again, and the errors of reading it.
    pub fn with_bytes_before_floats(&self) -> Result<Option<Program>> {
        let Some(module) = self.narrow_module()? else { return Ok(None) };
        let mut found = module.root.all().filter_map(|operation| conversion(operation, &module.types)).peekable();
        if found.peek().is_none() {
            return Ok(None);
        }
        if self.format() == Format::Mlir {
            if let Ok(mut module) = self.whole_module("") {
                put_bytes(&mut module);
                return Program::new(module.text()?.into_bytes(), Format::Mlir).map(Some);
            }
        }
        // Those that were seen to be wrong.
        let wrong = found.find(|&(narrow, float)| narrow.info().bits == 2 || float == DType::F64);
        wrong.map_or(Ok(None), |(narrow, float)| {
            let message = format!("XLA's CPU compiler converts some matrices of {narrow} wrongly to {float}.");
            let hint = format!("Convert to {} first.", narrow.in_bytes());
            Err(Error::new(Kind::UnsupportedDtype, message).hint(hint).on_platform("cpu"))
        })
    }

    /// The program if it may have arrays of types narrower than a byte.
    ///
    /// # Errors
    /// `InvalidFile` for damaged bytecode.
    pub(crate) fn narrow_module(&self) -> Result<Option<Module>> {
        // Most programs have no such types, and are not read.
        let has_any = match (self.format(), self.bytecode()) {
            (Format::Mlir, None) => text::has_narrow_arrays(self.code()),
            (Format::Mlir, Some(code)) => bytecode::has_narrow_arrays(code)?,
            (Format::Hlo, _) => true,
        };
        Ok(has_any.then(|| self.module().ok()).flatten())
    }
}

/// The types between which an operation converts a matrix of narrow integers to floats.
fn conversion(operation: &Operation, types: &[Type]) -> Option<(DType, DType)> {
    if &*operation.stable_base() != "convert" {
        return None;
    }
    let tensor = |value: &Value| types.get(value.0 as usize)?.as_tensor();
    let (from, to) = (tensor(operation.operands.first()?)?, tensor(operation.results.first()?)?);
    let (narrow, float) = (from.element.dtype()?, to.element.dtype()?);
    (from.is_matrix() && narrow.in_bytes() != narrow && float.is_float()).then_some((narrow, float))
}

fn put_bytes(module: &mut Module) {
    let Module { root, types } = module;
    replace_each(root, &mut |mut operation, out| {
        if let (Some((narrow, _)), [from]) = (conversion(&operation, types), &operation.operands[..]) {
            let dims = types[from.0 as usize].dims().unwrap_or_default().to_vec();
            types.push(Type::tensor(dims, Element::Number(narrow.in_bytes())));
            let bytes = Value(types.len() as u32 - 1);
            out.push(Operation::new("stablehlo.convert", vec![*from], vec![bytes]));
            operation.operands = vec![bytes];
        }
        out.push(operation);
    });
    root.without_regions_of_composites();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn converting(narrow: &str, dims: &str, float: &str) -> Program {
        let (from, to) = (format!("tensor<{dims}{narrow}>"), format!("tensor<{dims}{float}>"));
        let text = format!(
            "func.func @main(%x: {from}) -> {to} {{\n%0 = stablehlo.convert %x : ({from}) -> {to}\nreturn %0 : {to}\n}}"
        );
        Program::new(text.into_bytes(), Format::Mlir).unwrap()
    }

    #[test]
    fn matrices_become_bytes_first() {
        for (narrow, byte) in [("i4", "i8"), ("ui2", "ui8")] {
            let program = converting(narrow, "4x4x", "f64").with_bytes_before_floats().unwrap().unwrap();
            let text = program.text();
            assert!(text.contains(&format!("(tensor<4x4x{narrow}>) -> tensor<4x4x{byte}>")), "{text}");
            assert!(text.contains(&format!("(tensor<4x4x{byte}>) -> tensor<4x4xf64>")), "{text}");
            assert!(program.with_bytes_before_floats().unwrap().is_none());
        }
        let named = converting("!e", "4x4x", "f64").text().replace("(%x: tensor<4x4x!e>)", "(%x: !t)");
        let named = format!("!e = i4\n!t = tensor<4x4x!e>\n{named}");
        let program = Program::new(named.into_bytes(), Format::Mlir).unwrap();
        assert!(program.with_bytes_before_floats().unwrap().is_some_and(|program| program.text().contains("4x4xi8")));
        for (narrow, dims, float) in [("i4", "16x", "f64"), ("i4", "4x4x", "i8"), ("i8", "4x4x", "f64")] {
            assert!(converting(narrow, dims, float).with_bytes_before_floats().unwrap().is_none());
        }
    }

    #[test]
    fn what_cannot_be_written_again_is_refused_if_it_was_seen_to_be_wrong() {
        let unknown = |float| {
            let text = converting("i4", "4x4x", float).text().replace("return %0", "odd.call() : () -> ()\nreturn %0");
            Program::new(text.into_bytes(), Format::Mlir).unwrap().with_bytes_before_floats()
        };
        assert!(unknown("f32").unwrap().is_none());
        let error = unknown("f64").unwrap_err();
        assert_eq!(error.kind(), Kind::UnsupportedDtype);
        assert!(error.to_string().contains("matrices of i4 wrongly to f64.\nConvert to i8 first."), "{error}");
    }
}
