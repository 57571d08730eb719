//! Compiled programs that must not run: they would wait for ever, or their results would be misread.

use pjrt_base::error::{Error, Kind, Result};
use pjrt_ir::hlo::{HloModuleProto, ShapeProto};

/// Operations that exchange data with the host by queues that PJRT does not have. A program waits for them for ever.
const QUEUES: [&str; 8] =
    ["infeed", "outfeed", "send", "recv", "send-done", "recv-done", "infeed-done", "outfeed-done"];

/// Checks a compiled program.
///
/// # Errors
/// `UnsupportedProgram` for operations that never end, `DynamicShape` for results of bounded size.
pub(super) fn check(module: &HloModuleProto) -> Result<()> {
    if let Some(name) = QUEUES.iter().find(|name| module.has_opcode(name)) {
        let name = name.trim_end_matches("-done");
        let message = format!("The program has an operation `{name}`, which would wait for the host for ever.");
        return Err(Error::new(Kind::UnsupportedProgram, message)
            .hint("Pass arrays as inputs and outputs, or call a function of the host with a custom call."));
    }
    let results = module.host_program_shape.iter().filter_map(|shape| shape.result.as_ref());
    if results.into_iter().any(is_dynamic) {
        let message = "A result of the program has a size that is known only after each run (`stablehlo.bounds`).";
        return Err(Error::new(Kind::DynamicShape, message)
            .hint("Return the whole array and its size, as from `stablehlo.get_dimension_size`, as two results."));
    }
    Ok(())
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
