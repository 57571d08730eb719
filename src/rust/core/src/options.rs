//! Compile options, as a value of ours and in the protocol buffer that plugins take.

use crate::client::Client;
use crate::defaults::FLAGS;
use crate::device::Device;
use crate::error::{Error, Kind, Result};
use crate::execute::Dispatch;
use prost::{Message, Oneof};
use std::collections::BTreeMap;

/// How to compile a program. Immutable: a compile reads it and never writes to it.
#[derive(Debug, Clone, PartialEq)]
pub struct CompileOptions {
    pub num_replicas: i64,
    pub num_partitions: i64,
    /// Ids of the devices to run on, all partitions of the first replica first.
    pub device_assignment: Option<Vec<i32>>,
    /// Whether the compiler cuts the program into partitions; unless told, when there are several.
    pub use_spmd_partitioning: Option<bool>,
    /// Whether Shardy does that; unless told, when the program is written for it.
    pub use_shardy_partitioner: Option<bool>,
    /// The device is chosen at each execution.
    pub compile_portable_executable: bool,
    /// From 0, quick to compile, to 3, quick to run.
    pub optimization_level: Option<i64>,
    /// XLA's own options, by their names.
    pub debug_options: BTreeMap<String, OptionValue>,
    /// Where launches call the plugin from; no matter to the compiler.
    pub dispatch: Dispatch,
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

/// XLA's name for the optimization level.
const LEVEL: &str = "xla_backend_optimization_level";

/// Where XLA looks for the CUDA toolkit.
const TOOLKIT: &str = "xla_gpu_cuda_data_dir";

impl Default for CompileOptions {
    fn default() -> Self {
        CompileOptions {
            num_replicas: 1,
            num_partitions: 1,
            device_assignment: None,
            use_spmd_partitioning: None,
            use_shardy_partitioner: None,
            compile_portable_executable: false,
            optimization_level: None,
            debug_options: BTreeMap::new(),
            dispatch: Dispatch::Auto,
        }
    }
}

impl CompileOptions {
    /// Checks what would make a plugin abort, and what makes no sense together.
    ///
    /// # Errors
    /// `InvalidInput`, with the name of the option.
    pub fn check(&self) -> Result<()> {
        const MAX: i64 = 1 << 20;
        for (name, value) in [("num_replicas", self.num_replicas), ("num_partitions", self.num_partitions)] {
            if !(1..=MAX).contains(&value) {
                fail!(InvalidInput, "`{name}` must be a whole number from 1 to {MAX}, not {value}.");
            }
        }
        if self.num_partitions > 1 && self.use_spmd_partitioning == Some(false) {
            fail!(
                InvalidInput,
                "`use_spmd_partitioning` must be TRUE: nothing else makes {} partitions of a program.",
                self.num_partitions
            );
        }
        if self.compile_portable_executable && (self.num_devices() > 1 || self.device_assignment.is_some()) {
            return Err(Error::new(
                Kind::InvalidInput,
                "A portable executable runs on one device, which is chosen at its execution.",
            )
            .hint("Leave `num_replicas` and `num_partitions` at 1, and `device_assignment` out."));
        }
        if let Some(ids) = &self.device_assignment {
            self.check_count(ids.len())?;
            check_distinct(ids)?;
        }
        self.check_debug_options()
    }

    fn check_debug_options(&self) -> Result<()> {
        if let Some(level) = self.optimization_level {
            if !(0..=3).contains(&level) {
                fail!(InvalidInput, "`optimization_level` must be 0, 1, 2 or 3, not {level}.");
            }
            if self.debug_options.contains_key(LEVEL) {
                fail!(InvalidInput, "`optimization_level` and the debug option `{LEVEL}` are one: give only one.");
            }
        }
        for name in self.debug_options.keys() {
            if !name.starts_with("xla_") {
                fail!(InvalidInput, "Debug options have names that start with \"xla_\"; `{name}` has not.");
            }
            if self.debug_options.get(name).is_some_and(|value| ends_process(name, value)) {
                fail!(InvalidInput, "The debug option `{name}` with this value would end the process.");
            }
        }
        Ok(())
    }

    /// How many devices a program runs on.
    pub fn num_devices(&self) -> usize {
        (self.num_replicas * self.num_partitions) as usize
    }

    /// The devices of a client to compile for when nobody names them: those of the assignment, or the first ones.
    ///
    /// # Errors
    /// `InvalidInput` when the client has no such devices, or too few.
    pub fn assigned_devices(&self, client: &Client) -> Result<Vec<Device>> {
        self.check()?;
        let count = client.devices().count();
        match &self.device_assignment {
            Some(ids) => ids.iter().map(|&id| device_of_id(client, id)).collect(),
            None if self.num_devices() <= count => Ok(client.devices().take(self.num_devices()).collect()),
            None => Err(Error::new(
                Kind::InvalidInput,
                format!("{} needs {} devices, but the client has {count}.", self.describe(), self.num_devices()),
            )
            .hint("A CPU is divided into more when its client is made: pjrt_client(\"cpu\", cpu_device_count = 4L).")),
        }
    }

    /// Checks that there is a device for each part of the program, and none twice.
    pub(crate) fn check_devices(&self, devices: &[Device]) -> Result<()> {
        self.check_count(devices.len())?;
        let Some(first) = devices.first() else {
            fail!(InvalidInput, "There is no device to compile for.");
        };
        if let Some(other) = devices.iter().find(|d| !d.client().same(first.client())) {
            fail!(
                DeviceMismatch,
                "The devices must be of one client; '{}' and '{}' are not.",
                first.label(),
                other.label()
            );
        }
        check_distinct(&devices.iter().map(Device::id).collect::<Vec<_>>())
    }

    fn check_count(&self, devices: usize) -> Result<()> {
        if devices != self.num_devices() {
            fail!(InvalidInput, "{} needs {} device(s), not {devices}.", self.describe(), self.num_devices());
        }
        Ok(())
    }

    fn describe(&self) -> String {
        format!("A program of {} replica(s) and {} partition(s)", self.num_replicas, self.num_partitions)
    }

    /// The serialized `CompileOptionsProto` for these devices, all partitions of the first replica first, for a compiler
    /// that knows all flags. `for_shardy`: whether the program is written for that.
    pub(crate) fn serialize(&self, devices: &[Device], for_shardy: bool) -> Vec<u8> {
        self.serialize_with(&FLAGS, devices, for_shardy)
    }

    /// The same for a compiler that knows these flags. Those that the environment sets are as it says.
    pub(crate) fn serialize_with(&self, flags: &[(&str, bool)], devices: &[Device], for_shardy: bool) -> Vec<u8> {
        let ids: Vec<_> = devices.iter().map(|device| i64::from(device.id())).collect();
        let ordinal = devices.first().map_or(-1, |device| i64::from(device.local_hardware_id()));
        let client = devices.first().map(Device::client);
        let is_free = |name: &str| client.is_none_or(|client| !client.settings().mentions(name));
        let flags = flags.iter().filter(|(name, _)| is_free(name));
        let flags = flags.map(|&(name, value)| (name.to_owned(), OptionValue::Bool(value)));
        let toolkit = client.and_then(|client| client.cuda_data_dir());
        let toolkit = toolkit.map(|folder| (TOOLKIT.to_owned(), OptionValue::String(folder.to_owned())));
        self.encode(&ids, ordinal, for_shardy, flags.chain(toolkit).collect())
    }

    fn encode(
        &self,
        device_ids: &[i64],
        device_ordinal: i64,
        for_shardy: bool,
        defaults: BTreeMap<String, OptionValue>,
    ) -> Vec<u8> {
        let level = self.optimization_level.map(|level| (LEVEL.to_owned(), OptionValue::Int(level)));
        // The last of a name counts, and that is the caller's.
        let overrides = defaults.into_iter().chain(self.debug_options.clone()).chain(level);
        let portable = self.compile_portable_executable;
        CompileOptionsProto {
            executable_build_options: Some(ExecutableBuildOptionsProto {
                device_ordinal: if portable { -1 } else { device_ordinal },
                num_replicas: self.num_replicas,
                num_partitions: self.num_partitions,
                use_spmd_partitioning: self.use_spmd_partitioning.unwrap_or(self.num_partitions > 1),
                device_assignment: (!portable).then(|| assignment(device_ids, self.num_replicas, self.num_partitions)),
                use_shardy_partitioner: self.use_shardy_partitioner.unwrap_or(for_shardy),
            }),
            compile_portable_executable: portable,
            env_option_overrides: overrides
                .map(|(name, value)| (name, OptionOverrideProto { value: Some(value) }))
                .collect(),
        }
        .encode_to_vec()
    }
}

/// Serialized options of a program that has been compiled.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct UsedOptions {
    proto: CompileOptionsProto,
}

impl UsedOptions {
    /// Reads what [`CompileOptions::serialize`] has written; `None` if it has not.
    pub fn decode(bytes: &[u8]) -> Option<UsedOptions> {
        let proto = CompileOptionsProto::decode(bytes).ok()?;
        let build = proto.executable_build_options.as_ref()?;
        let counts = CompileOptions {
            num_replicas: build.num_replicas,
            num_partitions: build.num_partitions,
            ..Default::default()
        };
        let used = UsedOptions { proto };
        let is_whole =
            counts.check().is_ok() && (used.is_portable() || used.device_ids().len() == counts.num_devices());
        is_whole.then_some(used)
    }

    fn build(&self) -> &ExecutableBuildOptionsProto {
        static NONE: ExecutableBuildOptionsProto = ExecutableBuildOptionsProto {
            device_ordinal: -1,
            num_replicas: 1,
            num_partitions: 1,
            use_spmd_partitioning: false,
            device_assignment: None,
            use_shardy_partitioner: false,
        };
        self.proto.executable_build_options.as_ref().unwrap_or(&NONE)
    }

    pub fn is_portable(&self) -> bool {
        self.proto.compile_portable_executable
    }

    pub fn is_for_shardy(&self) -> bool {
        self.build().use_shardy_partitioner
    }

    /// Numbers of replicas and of partitions.
    pub fn counts(&self) -> (i64, i64) {
        (self.build().num_replicas, self.build().num_partitions)
    }

    /// The ids of the devices that it was compiled for, all partitions of the first replica first; none of a portable one.
    pub fn device_ids(&self) -> Vec<i64> {
        let partitions = self.build().device_assignment.iter().flat_map(|a| &a.computation_devices);
        let partitions: Vec<_> = partitions.map(|partition| partition.replica_device_ids.as_slice()).collect();
        let replicas = partitions.iter().map(|ids| ids.len()).max().unwrap_or(0);
        (0..replicas).flat_map(|r| partitions.iter().filter_map(move |ids| ids.get(r).copied())).collect()
    }

    /// The same options for other devices, as many as these, serialized.
    pub fn moved_to(&self, devices: &[Device]) -> Vec<u8> {
        let mut proto = self.proto.clone();
        if let Some(build) = proto.executable_build_options.as_mut().filter(|build| build.device_assignment.is_some()) {
            let ids = devices.iter().map(|device| i64::from(device.id())).collect::<Vec<_>>();
            build.device_ordinal = devices.first().map_or(-1, |device| i64::from(device.local_hardware_id()));
            build.device_assignment = Some(assignment(&ids, build.num_replicas, build.num_partitions));
        }
        proto.encode_to_vec()
    }
}

/// Which devices run what; `ids` are in order of replicas, all partitions of the first one first.
fn assignment(ids: &[i64], replicas: i64, partitions: i64) -> DeviceAssignmentProto {
    let of_partition = |p: i64| ids.iter().skip(p as usize).step_by(partitions as usize).copied().collect();
    DeviceAssignmentProto {
        replica_count: replicas as i32,
        computation_count: partitions as i32,
        computation_devices: (0..partitions)
            .map(|p| ComputationDevice { replica_device_ids: of_partition(p) })
            .collect(),
    }
}

/// The options at which XLA's CPU compiler aborts, or takes all memory, instead of complaining. It does complain about
/// unknown names and wrong types.
fn ends_process(name: &str, value: &OptionValue) -> bool {
    match name {
        "xla_unsupported_crash_on_hlo_pass_noop_change" => *value != OptionValue::Bool(false),
        "xla_cpu_parallel_codegen_split_count" => !matches!(value, OptionValue::Int(1..=1024)),
        _ => false,
    }
}

fn device_of_id(client: &Client, id: i32) -> Result<Device> {
    match client.devices().find(|device| device.id() == id) {
        Some(device) => Ok(device),
        None => {
            let ids: Vec<_> = client.devices().map(|device| device.id().to_string()).collect();
            fail!(InvalidInput, "`device_assignment`: no device has the id {id}; there are {}.", ids.join(", "))
        }
    }
}

fn check_distinct(ids: &[i32]) -> Result<()> {
    for (i, id) in ids.iter().enumerate() {
        if ids[..i].contains(id) {
            fail!(InvalidInput, "Each part of a program needs a device of its own, but device {id} comes twice.");
        }
    }
    Ok(())
}

#[derive(Clone, PartialEq, Message)]
struct CompileOptionsProto {
    #[prost(message, optional, tag = "3")]
    executable_build_options: Option<ExecutableBuildOptionsProto>,
    #[prost(bool, tag = "4")]
    compile_portable_executable: bool,
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
    #[prost(bool, tag = "19")]
    use_shardy_partitioner: bool,
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
pub(crate) mod tests {
    use super::*;

    /// The serialized options for devices of these ids.
    pub(crate) fn encoded(options: &CompileOptions, ids: &[i64]) -> Vec<u8> {
        options.encode(ids, 7, false, BTreeMap::new())
    }

    fn decoded(options: &CompileOptions, ids: &[i64], for_shardy: bool) -> CompileOptionsProto {
        CompileOptionsProto::decode(options.encode(ids, 7, for_shardy, BTreeMap::new()).as_slice()).unwrap()
    }

    fn build(options: &CompileOptions, ids: &[i64], for_shardy: bool) -> ExecutableBuildOptionsProto {
        decoded(options, ids, for_shardy).executable_build_options.unwrap()
    }

    fn counts(num_replicas: i64, num_partitions: i64) -> CompileOptions {
        CompileOptions { num_replicas, num_partitions, ..Default::default() }
    }

    #[test]
    fn counts_below_one_are_refused() {
        for bad in [0, -1, i64::MAX] {
            assert!(counts(bad, 1).check().is_err());
            assert!(counts(1, bad).check().is_err());
        }
        assert!(CompileOptions::default().check().is_ok());
    }

    #[test]
    fn devices_are_assigned_by_partition_and_replica() {
        let assignment = build(&counts(2, 2), &[10, 11, 20, 21], false).device_assignment.unwrap();
        assert_eq!((assignment.replica_count, assignment.computation_count), (2, 2));
        let ids: Vec<_> = assignment.computation_devices.iter().map(|c| c.replica_device_ids.clone()).collect();
        assert_eq!(ids, [[10, 20], [11, 21]]);
    }

    #[test]
    fn an_assignment_must_fit() {
        let with = |ids: &[i32]| CompileOptions { device_assignment: Some(ids.into()), ..counts(1, 2) };
        assert!(with(&[0, 1]).check().is_ok());
        for bad in [&[0, 0][..], &[0], &[], &[0, 1, 2]] {
            assert_eq!(with(bad).check().unwrap_err().kind(), Kind::InvalidInput, "{bad:?}");
        }
    }

    #[test]
    fn partitioners_are_chosen_unless_told() {
        let partitioners = |options: &CompileOptions, for_shardy| {
            let build = build(options, &[0, 1], for_shardy);
            (build.use_spmd_partitioning, build.use_shardy_partitioner)
        };
        assert_eq!(partitioners(&counts(2, 1), false), (false, false));
        assert_eq!(partitioners(&counts(1, 2), false), (true, false));
        assert_eq!(partitioners(&counts(1, 2), true), (true, true));
        let told = CompileOptions {
            use_spmd_partitioning: Some(true),
            use_shardy_partitioner: Some(false),
            ..Default::default()
        };
        assert_eq!(partitioners(&told, true), (true, false));
        let refused = CompileOptions { use_spmd_partitioning: Some(false), ..counts(1, 2) };
        assert!(refused.check().is_err());
    }

    #[test]
    fn used_options_tell_their_devices_in_order() {
        let used = |options: &CompileOptions, ids: &[i64]| UsedOptions::decode(&encoded(options, ids)).unwrap();
        let parts = used(&counts(2, 3), &[10, 11, 12, 20, 21, 22]);
        assert_eq!((parts.counts(), parts.is_portable()), ((2, 3), false));
        assert_eq!(parts.device_ids(), [10, 11, 12, 20, 21, 22]);
        let portable = CompileOptions { compile_portable_executable: true, ..Default::default() };
        assert!(used(&portable, &[0]).is_portable());
        assert!(used(&portable, &[0]).device_ids().is_empty());
        assert_eq!(UsedOptions::decode(b"\xff"), None);
        assert_eq!(UsedOptions::decode(&encoded(&counts(2, 1), &[0])), None, "a device is missing");
    }

    #[test]
    fn portable_executables_have_no_devices() {
        let portable = CompileOptions { compile_portable_executable: true, ..Default::default() };
        assert!(portable.check().is_ok());
        let proto = decoded(&portable, &[0], false);
        assert!(proto.compile_portable_executable);
        assert_eq!(proto.executable_build_options.unwrap().device_assignment, None);
        assert!(CompileOptions { num_replicas: 2, ..portable.clone() }.check().is_err());
        assert!(CompileOptions { device_assignment: Some(vec![0]), ..portable }.check().is_err());
    }

    #[test]
    fn debug_options_go_by_name_with_their_type() {
        let values = [
            ("xla_b", OptionValue::Bool(true)),
            ("xla_d", OptionValue::Float(0.5)),
            ("xla_i", OptionValue::Int(-3)),
            ("xla_s", OptionValue::String("x".into())),
        ];
        let options = CompileOptions {
            debug_options: values.clone().map(|(name, value)| (name.to_owned(), value)).into(),
            optimization_level: Some(1),
            ..Default::default()
        };
        assert!(options.check().is_ok());
        let overrides = decoded(&options, &[0], false).env_option_overrides;
        assert_eq!(overrides.len(), 5);
        for (name, value) in values {
            assert_eq!(overrides[name].value, Some(value));
        }
        assert_eq!(overrides[LEVEL].value, Some(OptionValue::Int(1)));
    }

    #[test]
    fn the_callers_options_win_over_defaults() {
        let text = |folder: &str| OptionValue::String(folder.to_owned());
        let named = |options: &CompileOptions| {
            let bytes = options.encode(&[0], 7, false, [(TOOLKIT.to_owned(), text("/toolkit"))].into());
            CompileOptionsProto::decode(bytes.as_slice()).unwrap().env_option_overrides[TOOLKIT].value.clone()
        };
        assert_eq!(named(&CompileOptions::default()), Some(text("/toolkit")));
        let own = [(TOOLKIT.to_owned(), text("/own"))].into();
        assert_eq!(named(&CompileOptions { debug_options: own, ..Default::default() }), Some(text("/own")));
    }

    #[test]
    fn debug_options_are_checked() {
        let with = |name: &str| CompileOptions {
            debug_options: [(name.to_owned(), OptionValue::Int(1))].into(),
            ..Default::default()
        };
        assert!(with("dump_to").check().is_err());
        assert!(with("").check().is_err());
        assert!(with(LEVEL).check().is_ok());
        assert!(CompileOptions { optimization_level: Some(1), ..with(LEVEL) }.check().is_err());
        assert!(with("xla_cpu_parallel_codegen_split_count").check().is_ok());
        assert!(with("xla_unsupported_crash_on_hlo_pass_noop_change").check().is_err());
        for level in [-1, 4] {
            assert!(CompileOptions { optimization_level: Some(level), ..Default::default() }.check().is_err());
        }
    }
}
