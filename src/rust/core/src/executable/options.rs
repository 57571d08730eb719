//! Compile options, and their protocol buffer for plugins.

mod proto;

use crate::apart::Place;
use crate::client::device::Device;
use crate::client::settings::Settings;
use crate::client::topology::Topology;
use crate::client::Client;
use crate::executable::execute::Dispatch;
use pjrt_base::counted::counted;
use pjrt_base::error::{Error, Kind, Result};
use pjrt_base::reason::Reason;
use pjrt_ir::module::annotations::{Annotations, Array, PARTITIONS, REPLICAS};
use pjrt_program::names;
use prost::{Message, Oneof};
use proto::*;
use std::collections::BTreeMap;

/// How to compile a program. Immutable.
///
/// ```
/// # use pjrt_core::executable::options::CompileOptions;
/// # use pjrt_core::{Client, Executable, Plugin};
/// # use pjrt_program::program::{Format, Program};
/// # let path = std::env::var("PJRT_PLUGIN_PATH_CPU").expect("PJRT_PLUGIN_PATH_CPU names the CPU plugin's library");
/// # let client = Client::create(Plugin::load(path.as_ref())?, &[])?;
/// # let text = "func.func @main(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }";
/// # let program = Program::new(text.into(), Format::Mlir)?;
/// # let device = client.devices().next().unwrap();
/// let portable = CompileOptions { compile_portable_executable: true, ..CompileOptions::default() };
/// let two = CompileOptions { num_replicas: Some(2), ..CompileOptions::default() };
/// assert!(Executable::compile(&[device.clone()], &program, &portable)?.assigned().is_empty());
/// let error = Executable::compile(&[device], &program, &two).unwrap_err();
/// assert!(error.message().contains("2 devices"), "{error}");
/// # Ok::<(), pjrt_base::error::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CompileOptions {
    /// The numbers of replicas and partitions; by default the program's own, or one.
    pub num_replicas: Option<i64>,
    pub num_partitions: Option<i64>,
    /// Ids of the devices to run on, all partitions of the first replica first.
    pub device_assignment: Option<Vec<i32>>,
    /// Whether the compiler partitions the program; by default, if there are several partitions.
    pub use_spmd_partitioning: Option<bool>,
    /// Whether Shardy partitions it; by default, if the program is written for it.
    pub use_shardy_partitioner: Option<bool>,
    /// Whether the compiler may choose the shardings of inputs and outputs.
    pub propagation_to_parameters: Propagation,
    pub propagation_to_output: Propagation,
    /// The device is chosen at each execution.
    pub compile_portable_executable: bool,
    /// From 0, fast to compile, to 3, fast to run.
    pub optimization_level: Option<i64>,
    /// XLA's own options, by their names.
    pub debug_options: BTreeMap<String, OptionValue>,
    /// The thread that calls the plugin for launches; does not affect the compiler.
    pub dispatch: Dispatch,
    /// The process that compiles; does not affect the executable.
    pub place: Place,
}

/// The arrays of a partitioned program whose shardings the compiler may choose.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Propagation {
    /// Those without a sharding in the program, as in JAX.
    #[default]
    Unsaid,
    /// All, or none.
    All(bool),
    /// A flag for each array.
    Each(Vec<bool>),
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

impl CompileOptions {
    /// Checks for options that would make a plugin abort, or contradict each other.
    ///
    /// # Errors
    /// `InvalidInput`, with the name of the option.
    pub fn check(&self) -> Result<()> {
        const MAX: i64 = 1 << 20;
        for (name, value) in [("num_replicas", self.num_replicas), ("num_partitions", self.num_partitions)] {
            if let Some(value) = value.filter(|value| !(1..=MAX).contains(value)) {
                bail!(InvalidInput, "`{name}` must be a whole number from 1 to {MAX}, not {value}.");
            }
        }
        let partitions = self.partitions();
        if partitions > 1 && self.use_spmd_partitioning == Some(false) {
            bail!(InvalidInput, "`use_spmd_partitioning` must be TRUE for a program with {partitions} partitions.");
        }
        if self.compile_portable_executable && (self.num_devices() > 1 || self.device_assignment.is_some()) {
            let message = "A portable executable runs on one device, which is chosen at its execution.";
            return Err(Error::new(Kind::InvalidInput, message)
                .hint("It needs a program for one replica and one partition, and no `device_assignment`."));
        }
        if let Some(ids) = &self.device_assignment {
            self.check_assigned(ids.len())?;
            check_distinct(ids)?;
        }
        self.check_debug_options()
    }

    /// Checks that an assignment has the necessary number of devices, if this number is known.
    fn check_assigned(&self, devices: usize) -> Result<()> {
        match (self.num_replicas, self.num_partitions) {
            (Some(count), None) | (None, Some(count)) if devices == 0 || devices as i64 % count != 0 => {
                let devices = counted(devices, "device");
                bail!(InvalidInput, "{devices} cannot be assigned to {count} replicas or partitions.");
            }
            (Some(_), Some(_)) => self.check_count(devices),
            _ => Ok(()),
        }
    }

    /// The options for a program, which supplies the values that they leave open.
    ///
    /// # Errors
    /// `InvalidInput` for numbers of replicas and partitions other than the program's; as [`CompileOptions::check`].
    pub fn for_program(&self, program: &Annotations) -> Result<CompileOptions> {
        let (replicas, partitions) = (program.num_replicas, program.num_partitions);
        let mut options = self.clone();
        options.num_replicas = Some(agreed("num_replicas", self.num_replicas, REPLICAS, replicas)?);
        options.num_partitions = Some(agreed("num_partitions", self.num_partitions, PARTITIONS, partitions)?);
        options.check()?;
        if options.partitions() > 1 {
            options.propagation_to_parameters =
                self.propagation_to_parameters.to_each(&program.inputs, "parameters")?;
            options.propagation_to_output = self.propagation_to_output.to_each(&program.outputs, "output")?;
        }
        Ok(options)
    }

    pub fn replicas(&self) -> i64 {
        self.num_replicas.unwrap_or(1)
    }

    pub fn partitions(&self) -> i64 {
        self.num_partitions.unwrap_or(1)
    }

    fn check_debug_options(&self) -> Result<()> {
        if let Some(level) = self.optimization_level {
            ensure!((0..=3).contains(&level), InvalidInput, "`optimization_level` must be 0, 1, 2 or 3, not {level}.");
            if self.debug_options.contains_key(LEVEL) {
                bail!(
                    InvalidInput,
                    "`optimization_level` and the debug option `{LEVEL}` are the same setting: pass only one of them."
                );
            }
        }
        for (name, value) in &self.debug_options {
            if !name.starts_with("xla_") {
                bail!(InvalidInput, "Names of debug options must start with \"xla_\": got `{name}`.");
            }
            if ends_process(name, value) {
                bail!(InvalidInput, "The debug option `{name}` with this value would end the process.");
            }
        }
        Ok(())
    }

    /// The number of devices that a program runs on.
    pub fn num_devices(&self) -> usize {
        (self.replicas() * self.partitions()) as usize
    }

    /// The default devices of a client: the assignment's, or the first ones of this process; of all processes if this
    /// process has too few.
    ///
    /// # Errors
    /// `InvalidInput` if the client does not have these devices, or too few.
    pub fn assigned_devices(&self, client: &Client) -> Result<Vec<Device>> {
        self.check()?;
        let (needed, own, count) = (self.num_devices(), client.addressable_devices(), client.all_devices().count());
        match &self.device_assignment {
            Some(ids) => ids.iter().map(|&id| device_of_id(client, id)).collect(),
            None if needed <= own => Ok(client.devices().take(needed).collect()),
            None if needed <= count => Ok(client.all_devices().take(needed).collect()),
            None => {
                let message = format!("{} needs {needed} devices, but the client has {count}.", self.describe());
                Err(Error::new(Kind::InvalidInput, message).hint(Reason::DevicesMissing { count: needed }))
            }
        }
    }

    /// Checks that there is one distinct device for each part of the program.
    pub(crate) fn check_devices(&self, devices: &[Device]) -> Result<()> {
        self.check_count(devices.len())?;
        let Some(first) = devices.first() else {
            bail!(InvalidInput, "There is no device to compile for.");
        };
        if let Some(other) = devices.iter().find(|d| !d.client().same(first.client())) {
            let (first, other) = (first.label(), other.label());
            bail!(DeviceMismatch, "The devices must belong to one client: '{first}' and '{other}' do not.");
        }
        check_distinct(&devices.iter().map(Device::id).collect::<Vec<_>>())
    }

    fn check_count(&self, devices: usize) -> Result<()> {
        if devices != self.num_devices() {
            let needed = counted(self.num_devices(), "device");
            let message = format!("{} needs {needed}, not {devices}.", self.describe());
            return Err(Error::new(Kind::InvalidInput, message)
                .hint("`devices` must have one for each; the default is the first devices of the client."));
        }
        Ok(())
    }

    /// "1 replica and 2 partitions".
    pub(crate) fn parts(&self) -> String {
        let [replicas, partitions] = [self.replicas(), self.partitions()].map(|number| number as usize);
        format!("{} and {}", counted(replicas, "replica"), counted(partitions, "partition"))
    }

    fn describe(&self) -> String {
        format!("A program of {}", self.parts())
    }

    /// The serialized `CompileOptionsProto` for these devices, all partitions of the first replica first, for a compiler that
    /// knows these flags. Flags that the environment sets stay as they are. `for_shardy`: whether the program is written for
    /// Shardy.
    pub(crate) fn serialize_with(&self, flags: &[(&str, bool)], devices: &[Device], for_shardy: bool) -> Vec<u8> {
        let ids: Vec<_> = devices.iter().map(|device| i64::from(device.id())).collect();
        self.encode(&ids, ordinal(devices), for_shardy, defaults(flags, devices[0].client().settings()))
    }

    /// The ids of the devices of a topology to compile for: the assignment's, or the first ones.
    ///
    /// # Errors
    /// `InvalidInput` if the topology does not have these devices, or too few.
    pub(crate) fn ids_in(&self, topology: &Topology) -> Result<Vec<i64>> {
        self.check()?;
        let known = topology.devices.iter().map(|device| device.id);
        let (needed, there) = (self.num_devices(), topology.devices.len());
        match &self.device_assignment {
            Some(ids) => match ids.iter().find(|&&id| known.clone().all(|other| other != id)) {
                Some(id) => bail!(
                    InvalidInput,
                    "`device_assignment` has the id {id}, which no device of the topology has. Device ids: {}.",
                    names::first_of(&known.map(|id| id.to_string()).collect::<Vec<_>>(), 10)
                ),
                None => Ok(ids.iter().map(|&id| id.into()).collect()),
            },
            None if needed <= there => Ok(known.take(needed).map(i64::from).collect()),
            None => bail!(InvalidInput, "{} needs {needed} devices, but the topology has {there}.", self.describe()),
        }
    }

    /// The same for the ids of devices, which may belong to other machines, where the number on this machine is -1.
    pub(crate) fn encode(
        &self,
        device_ids: &[i64],
        device_ordinal: i64,
        for_shardy: bool,
        defaults: BTreeMap<String, OptionValue>,
    ) -> Vec<u8> {
        let level = self.optimization_level.map(|level| (LEVEL.to_owned(), OptionValue::Int(level)));
        // The last value of a name counts, and that is the caller's.
        let overrides = defaults.into_iter().chain(self.debug_options.clone()).chain(level);
        let portable = self.compile_portable_executable;
        let is_divided = self.partitions() > 1;
        let propagation = |to: &Propagation| if is_divided { to.flags() } else { Vec::new() };
        CompileOptionsProto {
            executable_build_options: Some(ExecutableBuildOptionsProto {
                device_ordinal: if portable { -1 } else { device_ordinal },
                num_replicas: self.replicas(),
                num_partitions: self.partitions(),
                use_spmd_partitioning: self.use_spmd_partitioning.unwrap_or(is_divided),
                device_assignment: (!portable).then(|| assignment(device_ids, self.replicas(), self.partitions())),
                allow_spmd_sharding_propagation_to_output: propagation(&self.propagation_to_output),
                allow_spmd_sharding_propagation_to_parameters: propagation(&self.propagation_to_parameters),
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

impl Propagation {
    /// The same with a flag for each of these arrays. XLA ends the process if the number of flags differs from the
    /// number of inputs.
    fn to_each(&self, arrays: &Option<Vec<Array>>, what: &str) -> Result<Propagation> {
        let Some(arrays) = arrays else {
            return match self {
                Propagation::Each(_) => bail!(
                    InvalidInput,
                    "`allow_spmd_sharding_propagation_to_{what}` must be TRUE, FALSE or NULL: the number of this program's {what} is not known."
                ),
                other => Ok(other.clone()),
            };
        };
        Ok(match self {
            Propagation::Unsaid => Propagation::Each(arrays.iter().map(|array| !array.has_sharding).collect()),
            Propagation::All(may) => Propagation::Each(vec![*may; arrays.len()]),
            Propagation::Each(flags) if flags.len() == arrays.len() => self.clone(),
            Propagation::Each(flags) => bail!(
                InvalidInput,
                "`allow_spmd_sharding_propagation_to_{what}` has {} values, but the program has {}.",
                flags.len(),
                arrays.len()
            ),
        })
    }

    /// The flags as XLA expects them: one flag applies to all arrays, none means no propagation.
    fn flags(&self) -> Vec<bool> {
        match self {
            Propagation::Unsaid => Vec::new(),
            Propagation::All(may) => vec![*may],
            Propagation::Each(flags) => flags.clone(),
        }
    }
}

/// A number on which options and program agree.
fn agreed(name: &str, given: Option<i64>, attribute: &str, said: Option<i64>) -> Result<i64> {
    match (given, said) {
        (Some(given), Some(said)) if given != said => Err(Error::new(
            Kind::InvalidInput,
            format!("`{name}` is {given}, but the program is for {said}: it has `{attribute} = {said}`."),
        )
        .hint(format!("Omit `{name}`: the default is the program's own number."))),
        (given, said) => Ok(given.or(said).unwrap_or(1)),
    }
}

/// Serialized options of a program that has been compiled.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct UsedOptions {
    proto: CompileOptionsProto,
    /// The part of it for the build.
    build: ExecutableBuildOptionsProto,
}

impl UsedOptions {
    /// Reads the bytes of [`CompileOptions::serialize_with`]; `None` for other bytes.
    pub fn decode(bytes: &[u8]) -> Option<UsedOptions> {
        let proto = CompileOptionsProto::decode(bytes).ok()?;
        let build = proto.executable_build_options.clone()?;
        let counts = CompileOptions {
            num_replicas: Some(build.num_replicas),
            num_partitions: Some(build.num_partitions),
            ..Default::default()
        };
        let used = UsedOptions { proto, build };
        let is_whole =
            counts.check().is_ok() && (used.is_portable() || used.device_ids().len() == counts.num_devices());
        is_whole.then_some(used)
    }

    pub fn is_portable(&self) -> bool {
        self.proto.compile_portable_executable
    }

    pub fn is_for_shardy(&self) -> bool {
        self.build.use_shardy_partitioner
    }

    /// The numbers of replicas and partitions.
    pub fn counts(&self) -> (i64, i64) {
        (self.build.num_replicas, self.build.num_partitions)
    }

    /// The ids of the devices that it was compiled for, all partitions of the first replica first; none for a portable
    /// executable.
    pub fn device_ids(&self) -> Vec<i64> {
        let partitions = self.build.device_assignment.iter().flat_map(|a| &a.computation_devices);
        let partitions: Vec<_> = partitions.map(|partition| partition.replica_device_ids.as_slice()).collect();
        let replicas = partitions.iter().map(|ids| ids.len()).max().unwrap_or(0);
        (0..replicas).flat_map(|r| partitions.iter().filter_map(move |ids| ids.get(r).copied())).collect()
    }

    /// The same options for the same number of other devices, serialized.
    pub fn moved_to(&self, devices: &[Device]) -> Vec<u8> {
        let mut proto = self.proto.clone();
        if let Some(build) = proto.executable_build_options.as_mut().filter(|build| build.device_assignment.is_some()) {
            let ids = devices.iter().map(|device| i64::from(device.id())).collect::<Vec<_>>();
            build.device_ordinal = ordinal(devices);
            build.device_assignment = Some(assignment(&ids, build.num_replicas, build.num_partitions));
        }
        proto.encode_to_vec()
    }
}

/// XLA's options that this package sets: these flags, unless the environment sets them, and the CUDA toolkit.
pub(crate) fn defaults(flags: &[(&str, bool)], settings: &Settings) -> BTreeMap<String, OptionValue> {
    let flags = flags.iter().filter(|(name, _)| !settings.mentions(name));
    let flags = flags.map(|&(name, value)| (name.to_owned(), OptionValue::Bool(value)));
    let toolkit = settings.toolkit.iter().map(|folder| (TOOLKIT.to_owned(), OptionValue::String(folder.clone())));
    flags.chain(toolkit).collect()
}

/// The number on this machine of the first device that this process can use; -1 if there is none.
fn ordinal(devices: &[Device]) -> i64 {
    devices.iter().find(|device| device.is_addressable()).map_or(-1, |device| i64::from(device.local_hardware_id()))
}

/// The assignment of devices; `ids` are in order of replicas, all partitions of the first one first.
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

/// The options at which XLA's CPU compiler aborts, or takes all memory, instead of raising an error. It does raise
/// errors for unknown names and wrong types.
fn ends_process(name: &str, value: &OptionValue) -> bool {
    match name {
        "xla_unsupported_crash_on_hlo_pass_noop_change" => *value != OptionValue::Bool(false),
        "xla_cpu_parallel_codegen_split_count" => !matches!(value, OptionValue::Int(1..=1024)),
        _ => false,
    }
}

fn device_of_id(client: &Client, id: i32) -> Result<Device> {
    client.all_devices().find(|device| device.id() == id).ok_or_else(|| {
        let ids = client.all_devices().map(|device| device.id().to_string()).collect::<Vec<_>>().join(", ");
        let message = format!("`device_assignment` has the id {id}, which no device has. Device ids: {ids}.");
        Error::new(Kind::InvalidInput, message)
    })
}

fn check_distinct(ids: &[i32]) -> Result<()> {
    for (i, id) in ids.iter().enumerate() {
        if ids[..i].contains(id) {
            bail!(InvalidInput, "Each part of a program needs a separate device, but device {id} is listed twice.");
        }
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests;
