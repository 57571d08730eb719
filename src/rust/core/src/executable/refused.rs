//! Compiled programs that must not run: they would wait for ever or leave their arrays, or their results would be misread.

use pjrt_base::error::{Error, Kind, Result};
use pjrt_data::array::Spec;
use pjrt_data::dtype::DType;
use pjrt_ir::hlo::{HloModuleProto, ShapeProto};

/// Operations that exchange data with the host by queues that PJRT does not have. A program waits for them for ever.
const QUEUES: [&str; 8] =
    ["infeed", "outfeed", "send", "recv", "send-done", "recv-done", "infeed-done", "outfeed-done"];

/// XLA's function for the largest elements of rows. It does not compare the sizes of its arrays.
const LARGEST: &str = "TopK";

/// Checks a compiled program.
///
/// # Errors
/// `UnsupportedProgram` for operations that never end, and for a function that would leave its arrays; `DynamicShape` for
/// results of bounded size.
pub(super) fn check(module: &HloModuleProto) -> Result<()> {
    if let Some(name) = QUEUES.iter().find(|name| module.has_opcode(name)) {
        let name = name.trim_end_matches("-done");
        let message = format!("The program has an operation `{name}`, which would wait for the host for ever.");
        return Err(Error::new(Kind::UnsupportedProgram, message)
            .hint("Pass arrays as inputs and outputs, or call a function of the host with a custom call."));
    }
    let leaves = |(name, arrays): (&str, Option<Vec<Spec>>)| name == LARGEST && arrays.is_some_and(|all| !fit(&all));
    if module.custom_calls().any(leaves) {
        let message = format!("The program calls '{LARGEST}' with arrays that do not fit each other.");
        return Err(
            Error::new(Kind::UnsupportedProgram, message).hint("Use `chlo.top_k` instead of the `custom_call`.")
        );
    }
    let results = module.host_program_shape.iter().filter_map(|shape| shape.result.as_ref());
    if results.into_iter().any(is_dynamic) {
        let message = "A result of the program has a size that is known only after each run (`stablehlo.bounds`).";
        return Err(Error::new(Kind::DynamicShape, message)
            .hint("Return the whole array and its size, as from `stablehlo.get_dimension_size`, as two results."));
    }
    Ok(())
}

/// Whether the results have the largest elements of each row, and their places.
fn fit(arrays: &[Spec]) -> bool {
    let [x, values, places] = arrays else { return false };
    let Some((&length, rows)) = x.dims.split_last() else { return false };
    let is_part = values.dims.split_last().is_some_and(|(&count, own)| own == rows && count <= length);
    is_part && rows.len() <= 1 && places.dims == values.dims && values.dtype == x.dtype && places.dtype == DType::I32
}

fn is_dynamic(shape: &ShapeProto) -> bool {
    shape.is_dynamic_dimension.contains(&true) || shape.tuple_shapes.iter().any(is_dynamic)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pjrt_ir::hlo::{HloComputationProto, HloInstructionProto, ProgramShapeProto};

    #[test]
    fn programs_that_exchange_data_with_the_host_are_refused() {
        let kind = |opcode: &str| {
            let instruction = HloInstructionProto { opcode: opcode.into(), ..Default::default() };
            let computation = HloComputationProto { instructions: vec![instruction], ..Default::default() };
            let module = HloModuleProto { computations: vec![computation], ..Default::default() };
            check(&module).map_err(|error| error.kind())
        };
        for opcode in QUEUES {
            assert_eq!(kind(opcode), Err(Kind::UnsupportedProgram), "{opcode}");
        }
        assert_eq!(kind("add"), Ok(()));
    }

    #[test]
    fn the_largest_elements_are_elements_of_the_row() {
        let spec = |dtype: DType, dims: &[i64]| Spec::new(dtype, dims).unwrap();
        let fits = |x: &[i64], values: &[i64], places: &[i64]| {
            fit(&[spec(DType::F32, x), spec(DType::F32, values), spec(DType::I32, places)])
        };
        assert!(fits(&[5], &[5], &[5]) && fits(&[3, 5], &[3, 2], &[3, 2]) && fits(&[0, 5], &[0, 0], &[0, 0]));
        assert!(!fits(&[5], &[6], &[6]) && !fits(&[3, 5], &[4, 2], &[4, 2]) && !fits(&[5], &[2], &[3]));
        assert!(!fits(&[], &[], &[]) && !fits(&[1, 2, 2], &[1, 2, 2], &[1, 2, 2]) && !fits(&[2, 2], &[2], &[2]));
        let two = spec(DType::F32, &[2]);
        assert!(!fit(&[two.clone(), two.clone(), spec(DType::I8, &[2])]) && !fit(&[two.clone(), two]));
    }

    #[test]
    fn results_of_bounded_size_are_refused() {
        let kind = |is_dynamic_dimension: Vec<bool>| {
            let array = ShapeProto { is_dynamic_dimension, ..Default::default() };
            let result = ShapeProto { tuple_shapes: vec![array], ..Default::default() };
            let program = ProgramShapeProto { result: Some(result), ..Default::default() };
            let module = HloModuleProto { host_program_shape: Some(program), ..Default::default() };
            check(&module).map_err(|error| error.kind())
        };
        assert_eq!(kind(vec![false, true]), Err(Kind::DynamicShape));
        assert_eq!(kind(vec![false, false]), Ok(()));
    }
}
