//! The devices that collective operations name. A program that names more than it is compiled for makes a compiler throw, or
//! exchanges nothing and returns wrong numbers.

use crate::program::{Format, Program};
use memchr::memmem;
use pjrt_base::error::{Error, Kind, Result};
use pjrt_ir::module::{Attribute, Operation};

/// The names of collective operations, without a dialect.
const NAMES: [&[u8]; 6] =
    [b"all_gather", b"all_reduce", b"all_to_all", b"collective_broadcast", b"collective_permute", b"reduce_scatter"];

/// The attributes of these with numbers of devices.
const GROUPS: [&str; 2] = ["replica_groups", "source_target_pairs"];

/// Checks a program for so many replicas and partitions.
///
/// # Errors
/// `InvalidInput`, with the number of devices that the program's collective operations need.
pub fn check(program: &Program, replicas: i64, partitions: i64) -> Result<()> {
    let devices = replicas.saturating_mul(partitions);
    let needed = highest(program).map_or(0, |highest| highest.saturating_add(1));
    if needed <= devices {
        return Ok(());
    }
    if needed == i64::MAX {
        bail!(InvalidInput, "The program's collective operations have groups of devices that cannot be.");
    }
    let message = format!(
        "The program's collective operations need {needed} devices, but it is compiled for {devices}: `num_replicas` is \
         {replicas}, and `num_partitions` is {partitions}."
    );
    let hint = format!("Set `num_replicas` or `num_partitions` in the compile options, to {needed} in all.");
    Err(Error::new(Kind::InvalidInput, message).hint(hint))
}

/// The highest number of a device; `None` without any.
fn highest(program: &Program) -> Option<i64> {
    // Most programs have none, and are not read.
    let is_named = || NAMES.iter().any(|name| memmem::find(program.code(), name).is_some());
    if program.format() == Format::Mlir && !is_named() {
        return None;
    }
    of_operation(&program.module().ok()?.root)
}

fn of_operation(operation: &Operation) -> Option<i64> {
    let attributes = operation.all().flat_map(|operation| GROUPS.iter().filter_map(|name| operation.attribute(name)));
    attributes.filter_map(numbers).flatten().max()
}

/// The numbers in an attribute's value, which may be text, as `dense<[[0, 1]]>` or `dense<"0x0000…">`.
fn numbers(value: &Attribute) -> Option<Vec<i64>> {
    let Attribute::Other(text) = value else { return value.as_numbers() };
    let content = text.strip_prefix("dense<")?.strip_suffix('>')?;
    Some(match content.strip_prefix("\"0x") {
        Some(digits) => digits.strip_suffix('"')?.as_bytes().chunks_exact(16).filter_map(number).collect(),
        None => content.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect(),
    })
}

/// A number of eight bytes, the lowest first, in hexadecimal digits.
fn number(digits: &[u8]) -> Option<i64> {
    let number = u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    Some(number.swap_bytes() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pjrt_ir::hlo::{HloComputationProto, HloInstructionProto, HloModuleProto, IotaReplicaGroupList, ReplicaGroup};
    use pjrt_ir::text;
    use prost::Message;

    #[test]
    fn the_highest_device_is_found_in_text() {
        let of = |attributes: &str| {
            let text = format!("func.func @main() {{ \"stablehlo.all_reduce\"() {attributes}\n}}");
            of_operation(&text::module(text.as_bytes()).root)
        };
        assert_eq!(of("{replica_groups = dense<[[0, 1], [2, 7]]> : tensor<2x2xi64>}"), Some(7));
        assert_eq!(of("{source_target_pairs=dense<[[0, 3]]>, replica_groups = dense<2>}"), Some(3));
        assert_eq!(of("<{replica_groups = dense<\"0x00000000000000000300000000000000\"> : tensor<1x2xi64>}>"), Some(3));
        assert_eq!(of("{replica_groups = dense<> : tensor<0x0xi64>}"), None);
        assert_eq!(of("// replica_groups = dense<9>\n{a = \"replica_groups = dense<9>\"}"), None);
        for text in
            ["{replica_groups}", "{replica_groups =", "{replica_groups = dense<", "{replica_groups = dense<\"0x1\">}"]
        {
            assert_eq!(of(text), None, "{text}");
        }
    }

    #[test]
    fn programs_need_as_many_devices_as_they_name() {
        let text = "func.func @main(%x: tensor<f32>) -> tensor<f32> {
  %0 = \"stablehlo.collective_permute\"(%x) {source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>} : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}";
        let program = Program::new(text.into(), Format::Mlir).unwrap();
        let error = check(&program, 1, 1).unwrap_err();
        assert_eq!(error.kind(), Kind::InvalidInput);
        assert!(error.message().contains("need 2 devices") && error.message().contains("`num_replicas` is 1"));
        assert!(check(&program, 2, 1).is_ok() && check(&program, 1, 2).is_ok());
    }

    #[test]
    fn modules_need_as_many_devices_as_they_name() {
        let group = ReplicaGroup { replica_ids: vec![0, 1] };
        let instruction =
            HloInstructionProto { opcode: "all-reduce".into(), replica_groups: vec![group], ..Default::default() };
        let computation = HloComputationProto { instructions: vec![instruction], ..Default::default() };
        let module = HloModuleProto { computations: vec![computation], ..Default::default() };
        assert_eq!(of_operation(&module.to_module().root), Some(1));
        assert_eq!(of_operation(&HloModuleProto::default().to_module().root), None);
        // More devices than are listed, and groups that contradict their range.
        for (dims, message) in
            [(vec![2, 1 << 20], "need 2097152 devices"), (vec![3], "groups of devices that cannot be")]
        {
            let mut module = module.clone();
            module.computations[0].instructions[0].iota_collective_device_list = Some(IotaReplicaGroupList {
                num_replica_groups: 2,
                num_devices_per_group: 1 << 20,
                iota_reshape_dims: dims,
                ..Default::default()
            });
            let program = Program::new(module.encode_to_vec(), Format::Hlo).unwrap();
            let error = check(&program, 2, 1).unwrap_err();
            assert!(error.message().contains(message), "{error}");
        }
    }
}
