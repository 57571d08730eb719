//! The devices that collective operations name. A program that names more than it is compiled for makes a compiler throw, or
//! exchanges nothing and returns wrong numbers.

use crate::hlo::{HloInstructionProto, HloModuleProto};
use crate::mlir;
use crate::program::{Format, Program};
use memchr::memmem;
use pjrt_base::error::{Error, Kind, Result};
use prost::Message;

/// The names of collective operations, without a dialect.
const NAMES: [&[u8]; 6] =
    [b"all_gather", b"all_reduce", b"all_to_all", b"collective_broadcast", b"collective_permute", b"reduce_scatter"];

/// The attributes of these with numbers of devices.
const GROUPS: [&[u8]; 2] = [b"replica_groups", b"source_target_pairs"];

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
    Err(Error::new(
        Kind::InvalidInput,
        format!(
            "The program's collective operations need {needed} devices, but it is compiled for {devices}: \
             `num_replicas` is {replicas}, and `num_partitions` is {partitions}."
        ),
    )
    .hint(format!("Set `num_replicas` or `num_partitions` in the compile options, to {needed} in all.")))
}

/// The highest number of a device; `None` without any.
fn highest(program: &Program) -> Option<i64> {
    if program.format() == Format::Hlo {
        return of_module(&HloModuleProto::decode(program.code()).ok()?);
    }
    // Most programs have none, and are not read.
    NAMES.iter().find(|name| memmem::find(program.code(), name).is_some())?;
    of_text(program.whole_text().ok()?.as_bytes())
}

fn of_text(text: &[u8]) -> Option<i64> {
    let code = mlir::blank_strings_and_comments(text);
    let finds = GROUPS.iter().flat_map(|name| memmem::find_iter(&code, name).map(|at| at + name.len()));
    finds.filter_map(|at| of_attribute(&code[at..], &text[at..])).max()
}

/// The highest number in an attribute's value, as in ` = dense<[[0, 1]]>` or ` = dense<"0x0000…">`.
fn of_attribute(code: &[u8], text: &[u8]) -> Option<i64> {
    let spaces = |bytes: &[u8]| bytes.len() - bytes.trim_ascii_start().len();
    let mut at = spaces(code);
    at += usize::from(code.get(at) == Some(&b'='));
    at += spaces(&code[at..]);
    let start = at + b"dense<".len();
    if !code[at..].starts_with(b"dense<") {
        return None;
    }
    let end = start + memchr::memchr(b'>', &code[start..])?;
    match text[start..end].strip_prefix(b"\"0x") {
        Some(digits) => digits.strip_suffix(b"\"")?.chunks_exact(16).filter_map(number).max(),
        None => {
            let numbers = text[start..end].split(|byte| !byte.is_ascii_digit());
            numbers.filter_map(|number| std::str::from_utf8(number).ok()?.parse().ok()).max()
        }
    }
}

/// A number of eight bytes, the lowest first, in hexadecimal digits.
fn number(digits: &[u8]) -> Option<i64> {
    let number = u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    Some(number.swap_bytes() as i64)
}

fn of_module(module: &HloModuleProto) -> Option<i64> {
    module.computations.iter().flat_map(|computation| &computation.instructions).filter_map(of_instruction).max()
}

fn of_instruction(instruction: &HloInstructionProto) -> Option<i64> {
    let devices = instruction.collective_device_list.as_ref();
    let listed = devices.map_or(&instruction.replica_groups, |devices| &devices.replica_groups);
    let iota = instruction.iota_collective_device_list.as_ref().or(devices.and_then(|devices| devices.iota.as_ref()));
    let of_iota = iota.map(|iota| iota.num_replica_groups.saturating_mul(iota.num_devices_per_group) - 1);
    let of_pairs = instruction.source_target_pairs.iter().flat_map(|pair| [pair.source, pair.target]);
    listed.iter().flat_map(|group| group.replica_ids.iter().copied()).chain(of_pairs).chain(of_iota).max()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hlo::{HloComputationProto, ReplicaGroup};

    #[test]
    fn the_highest_device_is_found_in_text() {
        let of = |text: &str| of_text(text.as_bytes());
        assert_eq!(of("{replica_groups = dense<[[0, 1], [2, 7]]> : tensor<2x2xi64>}"), Some(7));
        assert_eq!(of("source_target_pairs=dense<[[0, 3]]>, replica_groups = dense<2>"), Some(3));
        assert_eq!(of("replica_groups = dense<\"0x00000000000000000300000000000000\"> : tensor<1x2xi64>"), Some(3));
        assert_eq!(of("replica_groups = dense<> : tensor<0x0xi64>"), None);
        assert_eq!(of("// replica_groups = dense<9>\n\"replica_groups = dense<9>\""), None);
        for text in ["replica_groups", "replica_groups =", "replica_groups = dense<", "replica_groups = dense<\"0x1\">"]
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
        assert_eq!(of_module(&module), Some(1));
        assert_eq!(of_module(&HloModuleProto::default()), None);
    }
}
