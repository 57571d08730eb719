//! Compile options, as a value of ours and in the protocol buffer that plugins take.

use crate::error::Result;
use prost::{Message, Oneof};
use std::collections::BTreeMap;

/// How to compile a program. Immutable: a compile reads it and never writes to it.
#[derive(Debug, Clone, PartialEq)]
pub struct CompileOptions {
    pub num_replicas: i64,
    pub num_partitions: i64,
    /// XLA's own options, by their names.
    pub debug_options: BTreeMap<String, OptionValue>,
}

/// The value of one of XLA's own options.
#[derive(Clone, PartialEq, Oneof)]
pub enum OptionValue {
    #[prost(string, tag = "1")]
    String(String),
    #[prost(bool, tag = "2")]
    Bool(bool),
    #[prost(int64, tag = "3")]
    Int(i64),
    #[prost(double, tag = "4")]
    Float(f64),
}

impl Default for CompileOptions {
    fn default() -> Self {
        CompileOptions { num_replicas: 1, num_partitions: 1, debug_options: BTreeMap::new() }
    }
}

impl CompileOptions {
    /// Checks what would make a plugin abort.
    ///
    /// # Errors
    /// `InvalidInput` for counts below one or so large that no machine has them.
    pub fn check(&self) -> Result<()> {
        const MAX: i64 = 1 << 20;
        for (name, value) in [("num_replicas", self.num_replicas), ("num_partitions", self.num_partitions)] {
            if !(1..=MAX).contains(&value) {
                fail!(InvalidInput, "`{name}` must be a whole number from 1 to {MAX}, not {value}.");
            }
        }
        Ok(())
    }

    /// The serialized `CompileOptionsProto` for these devices: global ids, one row of partitions after the other for each
    /// replica. `device_ordinal` is the number of the first on this machine, -1 when unknown.
    pub fn serialize(&self, device_ids: &[i32], device_ordinal: i32) -> Vec<u8> {
        let partitions = self.num_partitions as usize;
        let computation_devices = (0..partitions)
            .map(|p| ComputationDevice {
                replica_device_ids: device_ids.iter().skip(p).step_by(partitions).map(|&id| i64::from(id)).collect(),
            })
            .collect();
        CompileOptionsProto {
            executable_build_options: Some(ExecutableBuildOptionsProto {
                device_ordinal: device_ordinal.into(),
                num_replicas: self.num_replicas,
                num_partitions: self.num_partitions,
                use_spmd_partitioning: self.num_partitions > 1,
                device_assignment: Some(DeviceAssignmentProto {
                    replica_count: self.num_replicas as i32,
                    computation_count: self.num_partitions as i32,
                    computation_devices,
                }),
            }),
            env_option_overrides: self
                .debug_options
                .iter()
                .map(|(name, value)| (name.clone(), OptionOverrideProto { value: Some(value.clone()) }))
                .collect(),
        }
        .encode_to_vec()
    }
}

#[derive(Clone, PartialEq, Message)]
struct CompileOptionsProto {
    #[prost(message, optional, tag = "3")]
    executable_build_options: Option<ExecutableBuildOptionsProto>,
    #[prost(btree_map = "string, message", tag = "7")]
    env_option_overrides: BTreeMap<String, OptionOverrideProto>,
}

#[derive(Clone, PartialEq, Message)]
struct OptionOverrideProto {
    #[prost(oneof = "OptionValue", tags = "1, 2, 3, 4")]
    value: Option<OptionValue>,
}

#[derive(Clone, PartialEq, Message)]
struct ExecutableBuildOptionsProto {
    #[prost(int64, tag = "1")]
    device_ordinal: i64,
    #[prost(int64, tag = "4")]
    num_replicas: i64,
    #[prost(int64, tag = "5")]
    num_partitions: i64,
    #[prost(bool, tag = "6")]
    use_spmd_partitioning: bool,
    #[prost(message, optional, tag = "9")]
    device_assignment: Option<DeviceAssignmentProto>,
}

#[derive(Clone, PartialEq, Message)]
struct DeviceAssignmentProto {
    #[prost(int32, tag = "1")]
    replica_count: i32,
    #[prost(int32, tag = "2")]
    computation_count: i32,
    #[prost(message, repeated, tag = "3")]
    computation_devices: Vec<ComputationDevice>,
}

#[derive(Clone, PartialEq, Message)]
struct ComputationDevice {
    #[prost(int64, repeated, tag = "1")]
    replica_device_ids: Vec<i64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_below_one_are_refused() {
        for bad in [0, -1, i64::MAX] {
            assert!(CompileOptions { num_replicas: bad, ..Default::default() }.check().is_err());
            assert!(CompileOptions { num_partitions: bad, ..Default::default() }.check().is_err());
        }
        assert!(CompileOptions::default().check().is_ok());
    }

    #[test]
    fn devices_are_assigned_by_partition_and_replica() {
        let options = CompileOptions { num_replicas: 2, num_partitions: 2, ..Default::default() };
        let bytes = options.serialize(&[10, 11, 20, 21], 0);
        let decoded = CompileOptionsProto::decode(bytes.as_slice()).unwrap();
        let assignment = decoded.executable_build_options.unwrap().device_assignment.unwrap();
        let ids: Vec<_> = assignment.computation_devices.iter().map(|c| c.replica_device_ids.clone()).collect();
        assert_eq!(ids, [[10, 20], [11, 21]]);
    }

    #[test]
    fn options_of_the_compiler_go_with_their_types() {
        let value = |value| OptionOverrideProto { value: Some(value) };
        let given = [
            ("xla_a".to_owned(), OptionValue::String("x".into())),
            ("xla_b".to_owned(), OptionValue::Bool(false)),
            ("xla_c".to_owned(), OptionValue::Int(-1)),
            ("xla_d".to_owned(), OptionValue::Float(0.5)),
        ];
        let options = CompileOptions { debug_options: given.clone().into(), ..Default::default() };
        let decoded = CompileOptionsProto::decode(options.serialize(&[0], 0).as_slice()).unwrap();
        assert_eq!(decoded.env_option_overrides, given.map(|(name, v)| (name, value(v))).into());
    }
}
