//! Programs on types narrower than a byte that crash XLA's CPU compiler, or that it compiles wrongly. They are refused
//! before compilation, in any form, if the source shows the problem.
//!
//! Of 1,850 tested programs, these rules refuse all 264 that crashed, and one in ten of those that compile. A copy that
//! changes the order in memory throws a C++ exception unless it is fused with another operation. Such copies occur if
//! one of several results, or a value of a loop or a branch, has another order than the default; and any operation that
//! moves dimensions may cause that.

use crate::hlo::{HloModuleProto, ShapeProto};
use crate::program::{Format, Program};
use crate::{bytecode, mlir};
use pjrt_base::error::{Error, Kind, Result};
use pjrt_data::dtype::DType;
use prost::Message;

/// Operations that move dimensions.
const MOVES: [&str; 6] = ["transpose", "gather", "dynamic_gather", "scatter", "convolution", "dynamic_conv"];

/// The findings in a program. Types are names; "matrices" have at least two dimensions above 1.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Findings {
    /// The type of a matrix among several results.
    pub result: Option<String>,
    /// An operation that moves dimensions.
    pub moves: Option<String>,
    /// The type of a matrix of a narrow type that such an operation returns.
    pub moves_narrow: Option<(String, String)>,
    /// A loop, or a branch.
    pub has_regions: bool,
    /// The type of a matrix among the arguments and results, if some of these have their own order in memory.
    pub ordered: Option<String>,
    /// Operations that break on types of two bits, and the type.
    pub breaks: Option<(String, String)>,
}

/// Checks a program for XLA's CPU compiler.
///
/// # Errors
/// `UnsupportedDtype`.
pub fn check(program: &Program) -> Result<()> {
    match (program.format(), program.bytecode()) {
        (Format::Hlo, _) => {
            HloModuleProto::decode(program.code()).map_or(Ok(()), |module| of_module(&module).verdict())
        }
        (Format::Mlir, Some(code)) => bytecode::narrow_findings(code)?.verdict(),
        (Format::Mlir, None) => mlir::narrow_findings(program.code()).verdict(),
    }
}

impl Findings {
    /// Records an operation, by its name in StableHLO without the dialect, and the type of its result, or of one of
    /// several.
    pub fn note(&mut self, name: &str, result: Option<&Array>) {
        // The portable form has versions: "transpose_v1".
        let name = name.rsplit_once("_v").filter(|(_, end)| end.parse::<u32>().is_ok()).map_or(name, |(name, _)| name);
        let type_name = || result.map(|array| array.dtype.to_string());
        if MOVES.contains(&name) {
            self.moves.get_or_insert_with(|| name.to_owned());
            if result.is_some_and(|array| array.is_matrix) {
                self.moves_narrow.get_or_insert_with(|| (name.to_owned(), type_name().unwrap_or_default()));
            }
        }
        if matches!(name, "concatenate" | "sort")
            && result.is_some_and(|array| matches!(array.dtype, DType::I2 | DType::U2))
        {
            self.breaks.get_or_insert_with(|| (name.to_owned(), type_name().unwrap_or_default()));
        }
        self.has_regions |= matches!(name, "while" | "if" | "case" | "conditional");
    }

    fn verdict(self) -> Result<()> {
        let error = |message: String, hint: &str| {
            Err(Error::new(Kind::UnsupportedDtype, message).hint(hint).on_platform("cpu"))
        };
        if let Some((name, dtype)) = self.breaks {
            return error(
                format!("XLA's CPU compiler cannot {name} arrays of {dtype}."),
                &format!("Convert to i8, {name}, and convert back."),
            );
        }
        if let (Some(dtype), Some(name)) = (self.result, self.moves) {
            return error(
                format!(
                    "XLA's CPU compiler cannot return {dtype} as one of several results of a program with `{name}`."
                ),
                "Convert that result to i8 (f4e2m1fn: to f32) in the program, or return it from a separate program.",
            );
        }
        if let (Some((name, dtype)), true) = (self.moves_narrow, self.has_regions) {
            return error(
                format!("XLA's CPU compiler cannot {name} arrays of {dtype} in a program with loops or branches."),
                &format!(
                    "Convert to i8 (f4e2m1fn: to f32), {name}, apply stablehlo.optimization_barrier, and convert back."
                ),
            );
        }
        if let Some(dtype) = self.ordered {
            return error(
                format!("XLA's CPU compiler does not support `mhlo.layout_mode` for {dtype}."),
                "Leave the attribute out, or use i8.",
            );
        }
        Ok(())
    }
}

/// An array of a type narrower than a byte.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Array {
    pub dtype: DType,
    /// Whether it has several dimensions above 1, so that their order matters.
    pub is_matrix: bool,
}

impl Array {
    /// None for other types.
    pub fn new(dtype: DType, dims: impl IntoIterator<Item = i64>) -> Option<Array> {
        let is_matrix = dims.into_iter().filter(|&dim| dim != 1).count() > 1;
        dtype.is_packed().then_some(Array { dtype, is_matrix })
    }
}

fn of_module(module: &HloModuleProto) -> Findings {
    let mut found = Findings::default();
    let array = |shape: &ShapeProto| {
        let spec = shape.spec()?;
        Array::new(spec.dtype, spec.dims.iter().copied())
    };
    for instruction in module.computations.iter().flat_map(|computation| &computation.instructions) {
        let shape = instruction.shape.iter();
        let parts = shape.flat_map(|shape| std::iter::once(shape).chain(&shape.tuple_shapes)).filter_map(array);
        let narrow = parts.max_by_key(|array| (array.dtype.info().bits == 2, array.is_matrix));
        let opcode = instruction.opcode.as_str();
        let name = match opcode {
            "broadcast" | "transpose" if !instruction.dimensions.is_sorted() => "transpose",
            "transpose" => "copy",
            other => other,
        };
        found.note(name, narrow.as_ref());
    }
    let Some(program) = &module.host_program_shape else { return found };
    let results = program.result.iter().flat_map(|result| &result.tuple_shapes);
    let name_of =
        |shape: &ShapeProto| array(shape).filter(|array| array.is_matrix).map(|array| array.dtype.to_string());
    if results.clone().count() > 1 {
        found.result = results.clone().find_map(name_of);
    }
    let is_ordered = |shape: &&ShapeProto| shape.spec().is_some_and(|spec| spec.minor_to_major.is_some());
    let all = program.parameters.iter().chain(&program.result).chain(results);
    found.ordered = all.filter(is_ordered).find_map(name_of);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hlo::{HloComputationProto, HloInstructionProto, ProgramShapeProto, TUPLE};

    fn shape(dtype: DType, dimensions: &[i64]) -> ShapeProto {
        ShapeProto { element_type: dtype.info().xla_code, dimensions: dimensions.into(), ..Default::default() }
    }

    /// A module of one operation that returns such arrays.
    fn module(opcode: &str, dimensions: &[i64], made: ShapeProto, results: Vec<ShapeProto>) -> HloModuleProto {
        let instruction = HloInstructionProto {
            opcode: opcode.into(),
            shape: Some(made),
            dimensions: dimensions.into(),
            ..Default::default()
        };
        let computation = HloComputationProto { instructions: vec![instruction], ..Default::default() };
        let result = ShapeProto { element_type: TUPLE, tuple_shapes: results, ..Default::default() };
        let program = ProgramShapeProto { result: Some(result), ..Default::default() };
        HloModuleProto { computations: vec![computation], host_program_shape: Some(program), ..Default::default() }
    }

    #[test]
    fn modules_are_checked_by_their_shapes() {
        let narrow = || shape(DType::I4, &[5, 3]);
        let scalar = || shape(DType::F32, &[]);
        let is_refused = |opcode, dimensions: &[i64], made, results| {
            of_module(&module(opcode, dimensions, made, results)).verdict().is_err_and(|error| {
                assert_eq!(error.kind(), Kind::UnsupportedDtype);
                true
            })
        };
        assert!(is_refused("transpose", &[1, 0], narrow(), vec![narrow(), scalar()]));
        assert!(is_refused("transpose", &[1, 0], shape(DType::F32, &[5, 3]), vec![narrow(), scalar()]));
        assert!(is_refused("broadcast", &[1, 0], narrow(), vec![narrow(), scalar()]));
        assert!(!is_refused("broadcast", &[0, 1], narrow(), vec![narrow(), scalar()]));
        assert!(!is_refused("transpose", &[0, 1], narrow(), vec![narrow(), scalar()]));
        assert!(!is_refused("transpose", &[1, 0], narrow(), vec![narrow()]));
        assert!(!is_refused("transpose", &[1, 0], narrow(), vec![shape(DType::I8, &[5, 3]), scalar()]));
        assert!(!is_refused("add", &[], narrow(), vec![narrow(), scalar()]));
        let two_bits = || shape(DType::U2, &[5]);
        assert!(is_refused("concatenate", &[0], two_bits(), vec![two_bits()]));
        assert!(!is_refused("concatenate", &[0], shape(DType::U4, &[5]), vec![two_bits()]));
        let sorted = ShapeProto { element_type: TUPLE, tuple_shapes: vec![narrow(), two_bits()], ..Default::default() };
        assert!(is_refused("sort", &[0], sorted, vec![scalar()]));
    }

    #[test]
    fn loops_that_move_narrow_arrays_are_refused() {
        let verdict = |names: &[&str], bits: DType| {
            let mut found = Findings::default();
            names.iter().for_each(|name| found.note(name, Array::new(bits, [2, 3]).as_ref()));
            found.verdict()
        };
        assert!(verdict(&["while", "transpose_v1"], DType::I4).is_err());
        assert!(verdict(&["transpose", "conditional"], DType::F4E2M1FN).is_err());
        assert!(verdict(&["while", "transpose"], DType::F32).is_ok());
        assert!(verdict(&["while_v1", "reverse"], DType::I4).is_ok());
        assert_eq!(Array::new(DType::I4, [2, 1, 1]).map(|array| array.is_matrix), Some(false));
        assert_eq!(Array::new(DType::Pred, [2, 3]), None);
    }
}
