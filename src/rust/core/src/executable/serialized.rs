//! Serialized executables: a plugin's bytes in a container that names the environment that they belong to, and detects
//! damage. A plugin trusts any bytes, and may end the process, so everything is checked first. The container's header is a
//! protocol buffer, its content the payload: the plugin's own bytes.

use crate::client::device::{self, Device};
use crate::client::target::Target;
use crate::client::Client;
use crate::executable::description::Description;
use crate::executable::execute::Dispatch;
use crate::executable::hint::DispatchHint;
use crate::executable::options::{CompileOptions, UsedOptions};
use crate::executable::placement::Places;
use crate::executable::{Executable, Loaded, Origin, Provenance, Signature};
use pjrt_base::container::{Container, Problem};
use pjrt_base::error::{Error, Kind, Result};
use pjrt_base::foreign;
use pjrt_base::reason::Reason;
use pjrt_base::room;
use pjrt_base::trusted_fs;
use pjrt_ir::hlo::sharding::Wholes;
use pjrt_ir::hlo::HloModuleProto;
use prost::Message;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

const CONTAINER: Container = Container { magic: b"\x93PJRTEXE", format: 1 };

/// A container's description of its executable.
#[derive(Clone, PartialEq, Message)]
pub struct ExecutableHeader {
    #[prost(message, required, tag = "1")]
    pub target: Target,
    /// The serialized compile options, with the devices that it was made for.
    #[prost(bytes = "vec", tag = "2")]
    options: Vec<u8>,
    #[prost(string, tag = "3")]
    pub name: String,
    #[prost(string, repeated, tag = "4")]
    input_names: Vec<String>,
    /// The part of the compiled module with the program's inputs, outputs and aliases, a serialized `HloModuleProto`.
    #[prost(bytes = "vec", tag = "5")]
    interface: Vec<u8>,
    #[prost(bool, tag = "6")]
    runs_on_caller: bool,
    #[prost(bool, tag = "7")]
    is_long: bool,
    #[prost(double, tag = "8")]
    pub compile_seconds: f64,
    /// Seconds since 1970.
    #[prost(int64, tag = "9")]
    pub created: i64,
    /// The program that it was compiled from, as the cache knows it; empty for one that the user saved.
    #[prost(bytes = "vec", tag = "10")]
    pub(crate) key: Vec<u8>,
    /// The whole arrays of a partitioned program.
    #[prost(message, optional, tag = "11")]
    wholes: Option<Wholes>,
    #[prost(bool, tag = "12")]
    is_predictable: bool,
    /// The functions that it calls by name and that do not come with the plugin.
    #[prost(string, repeated, tag = "13")]
    functions: Vec<String>,
    /// The names of all outputs; empty for none.
    #[prost(string, repeated, tag = "14")]
    output_names: Vec<String>,
    /// The functions among them that it calls with an array that is not row-major.
    #[prost(string, repeated, tag = "15")]
    functions_in_other_layouts: Vec<String>,
}

/// A container that has passed the check for damage.
///
/// ```
/// # use pjrt_core::executable::execute::Dispatch; use pjrt_core::executable::options::CompileOptions;
/// # use pjrt_core::executable::serialized::{Destination, Serialized};
/// # use pjrt_core::{Client, Executable, Plugin};
/// # use pjrt_program::program::{Format, Program};
/// # let path = std::env::var("PJRT_PLUGIN_PATH_CPU").expect("PJRT_PLUGIN_PATH_CPU names the CPU plugin's library");
/// # let client = Client::create(Plugin::load(path.as_ref())?, &[])?;
/// # let text = "func.func @main(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }";
/// # let program = Program::new(text.into(), Format::Mlir)?;
/// # let device = client.devices().next().unwrap();
/// let saved = Executable::compile(&[device], &program, &CompileOptions::default())?.serialize(None)?;
/// let to = Destination { client: &client, devices: &[], options: None, dispatch: Dispatch::default() };
/// let loaded = Serialized::read(&saved)?.load(&to, None)?;
/// assert_eq!(loaded.signature().inputs[0].name, "%x");
/// assert!(Serialized::read(&saved[1..]).is_err());
/// # Ok::<(), pjrt_base::error::Error>(())
/// ```
#[derive(Debug)]
pub struct Serialized<'a> {
    pub header: ExecutableHeader,
    interface: HloModuleProto,
    used: UsedOptions,
    payload: &'a [u8],
}

/// Where to load a serialized executable.
#[derive(Debug)]
pub struct Destination<'a> {
    pub client: &'a Client,
    /// A device for each part of the program; empty for those that it was compiled for.
    pub devices: &'a [Device],
    /// Options to use instead of those that it was compiled with.
    pub options: Option<&'a CompileOptions>,
    pub dispatch: Dispatch,
}

impl Executable {
    /// The executable as bytes, from which [`Serialized::read`] and [`Serialized::load`] create it again in another
    /// process. `kept` is the folder that keeps the hashes of plugins' files.
    ///
    /// # Errors
    /// Code 12 (unimplemented) or `UnsupportedCall` if the plugin cannot serialize; `Io` if the plugin's file cannot be
    /// read; `Forked`, `ClientClosed`.
    pub fn serialize(&self, kept: Option<&Path>) -> Result<Vec<u8>> {
        self.serialize_as(&[], kept)
    }

    /// The same, with a key of the cache.
    pub(crate) fn serialize_as(&self, key: &[u8], kept: Option<&Path>) -> Result<Vec<u8>> {
        self.client().handle()?;
        // A device that it runs on, or can run on.
        let first = self.placement().fixed().first().copied().unwrap_or(0);
        let Some(device) = self.client().devices().nth(first) else {
            bail!(Internal, "The executable has no device.");
        };
        let header =
            ExecutableHeader::new(Target::of(&device, kept)?, self.signature(), self.hint(), self.provenance(), key);
        self.with_payload(|payload| header.contain(payload))?
    }

    /// Calls `read` with the plugin's serialized form of the executable.
    fn with_payload<T>(&self, read: impl FnOnce(&[u8]) -> T) -> Result<T> {
        if let Some(payload) = &self.provenance().payload {
            return Ok(read(payload));
        }
        self.ask("Saving an executable is", |described| described.with_payload(read))
    }
}

/// Writes a container to a file, completely or not at all.
///
/// # Errors
/// `Io`.
pub fn write(path: &Path, container: &[u8]) -> Result<()> {
    trusted_fs::save(path, container)
        .map_err(|error| Error::new(Kind::Io, format!("Cannot write '{}': {error}.", path.display())))
}

#[cold]
fn unreadable(problem: Problem) -> Error {
    match problem {
        Problem::Other => Error::new(Kind::SerializedInvalid, "The data are not a serialized executable.")
            .hint(Reason::NotAnExecutable),
        Problem::Format(format) => {
            let own = CONTAINER.format;
            let message =
                format!("The executable was saved in format {format}; this version of pjrt reads format {own}.");
            Error::new(Kind::SerializedMismatch, message).hint(AGAIN)
        }
        Problem::Damaged => {
            Error::new(Kind::SerializedInvalid, "The serialized executable is damaged or incomplete.").hint(AGAIN)
        }
    }
}

const AGAIN: &str = "Compile the program here and save it again.";

/// A container's description of itself from its first bytes, unchecked, for lists. `None` if it is incomplete.
pub(crate) fn peek(start: &[u8]) -> Option<ExecutableHeader> {
    ExecutableHeader::read(CONTAINER.peek(start).ok()?)
}

impl ExecutableHeader {
    /// The description of an executable for a target, with a key of the cache if it has one.
    pub(crate) fn new(
        target: Target,
        signature: &Signature,
        hint: DispatchHint,
        provenance: &Provenance,
        key: &[u8],
    ) -> ExecutableHeader {
        ExecutableHeader {
            target,
            options: provenance.options.clone(),
            name: signature.name.clone(),
            input_names: signature.inputs.iter().map(|input| input.name.clone()).collect(),
            interface: provenance.interface.to_bytes(),
            runs_on_caller: hint.runs_on_caller,
            is_long: hint.is_long,
            compile_seconds: provenance.compile_time.as_secs_f64(),
            created: UNIX_EPOCH.elapsed().unwrap_or_default().as_secs() as i64,
            key: key.into(),
            wholes: Some(provenance.wholes.clone()),
            is_predictable: hint.is_predictable,
            functions: provenance.functions.clone(),
            output_names: signature.output_names.clone().unwrap_or_default(),
            functions_in_other_layouts: provenance.functions_in_other_layouts.clone(),
        }
    }

    /// The container of the plugin's bytes.
    pub(crate) fn contain(&self, payload: &[u8]) -> Result<Vec<u8>> {
        room::check_room(payload.len(), "to save the executable")?;
        Ok(CONTAINER.write(&self.encode_to_vec(), payload))
    }

    /// `None` for invalid text. Text ends at a null character in C.
    fn read(bytes: &[u8]) -> Option<ExecutableHeader> {
        let header = ExecutableHeader::decode(bytes).ok()?;
        let is_text = |text: &String| !text.contains('\0');
        let is_whole = is_text(&header.name)
            && is_text(&header.target.platform)
            && header.input_names.iter().chain(&header.output_names).all(is_text);
        is_whole.then_some(header)
    }
}

impl<'a> Serialized<'a> {
    /// Reads a container, and checks it for damage.
    ///
    /// # Errors
    /// `SerializedInvalid` if it is not a container, or is damaged; `SerializedMismatch` for another version of the
    /// format.
    pub fn read(container: &'a [u8]) -> Result<Serialized<'a>> {
        let damaged = || unreadable(Problem::Damaged);
        let (header, payload) =
            CONTAINER.read(container).map_err(|problem| foreign::named(unreadable(problem), "The file", container))?;
        let header = ExecutableHeader::read(header).ok_or_else(damaged)?;
        let used = UsedOptions::decode(&header.options).ok_or_else(damaged)?;
        let interface = HloModuleProto::from_bytes(&header.interface).map_err(|_| damaged())?;
        Ok(Serialized { header, interface, used, payload })
    }

    /// Loads the executable. `kept` is the folder that keeps the hashes of plugins' files.
    ///
    /// # Errors
    /// `SerializedMismatch` if it was compiled for another plugin, processor or kind of device; `InvalidInput` for
    /// options and devices that do not match it; `DeviceMismatch` if no device belongs to this process; the plugin's own.
    pub fn load(&self, destination: &Destination<'_>, kept: Option<&Path>) -> Result<Executable> {
        destination.client.handle()?;
        let devices = self.devices(destination)?;
        device::check_any_addressable(&devices)?;
        for device in &devices {
            self.check(&Target::of(device, kept)?)?;
        }
        self.hand_over(destination, &devices, Origin::Saved)
    }

    /// Checks that it was compiled for an environment like this.
    fn check(&self, here: &Target) -> Result<()> {
        let differences = self.header.target.differences(here);
        if differences.is_empty() {
            return Ok(());
        }
        let error = Error::new(Kind::SerializedMismatch, "The executable was saved for another environment.");
        Err(differences.into_iter().fold(error, Error::hint).hint(AGAIN).on_platform(&here.platform))
    }

    /// The devices to load it for.
    fn devices(&self, destination: &Destination<'_>) -> Result<Vec<Device>> {
        if let Some(options) = destination.options {
            self.check_options(options)?;
        }
        if !destination.devices.is_empty() {
            self.as_compiled().check_devices(destination.devices)?;
            return Ok(destination.devices.to_vec());
        }
        if let Some(options) = destination.options.filter(|options| options.device_assignment.is_some()) {
            return self.counted(options).assigned_devices(destination.client);
        }
        if self.used.is_portable() {
            return Ok(destination.client.devices().take(1).collect());
        }
        let of_id = |id: i64| destination.client.all_devices().find(|device| i64::from(device.id()) == id).ok_or(id);
        let ids = self.used.device_ids();
        ensure!(!ids.is_empty(), unreadable(Problem::Damaged));
        ids.into_iter().map(of_id).collect::<std::result::Result<_, _>>().map_err(|id| {
            let message = format!("The executable was saved for device {id}, which does not exist here.");
            Error::new(Kind::SerializedMismatch, message)
                .hint("Pass the device to load it for as `device`.")
                .on_platform(destination.client.platform())
        })
    }

    /// The part of its compile options that determines the number of devices.
    fn as_compiled(&self) -> CompileOptions {
        let (replicas, partitions) = self.used.counts();
        let (num_replicas, num_partitions) = (Some(replicas), Some(partitions));
        let compile_portable_executable = self.used.is_portable();
        CompileOptions { num_replicas, num_partitions, compile_portable_executable, ..Default::default() }
    }

    /// The given options, with its own numbers of replicas and partitions.
    fn counted(&self, options: &CompileOptions) -> CompileOptions {
        let CompileOptions { num_replicas, num_partitions, .. } = self.as_compiled();
        CompileOptions { num_replicas, num_partitions, ..options.clone() }
    }

    /// Checks that options do not ask for another program.
    fn check_options(&self, options: &CompileOptions) -> Result<()> {
        options.check()?;
        let compiled = self.as_compiled();
        let agrees = |given: Option<i64>, own: i64| given.unwrap_or(own) == own;
        if agrees(options.num_replicas, compiled.replicas())
            && agrees(options.num_partitions, compiled.partitions())
            && options.compile_portable_executable == compiled.compile_portable_executable
        {
            return Ok(());
        }
        let portable = if compiled.compile_portable_executable { ", portable" } else { "" };
        let parts = compiled.parts();
        bail!(InvalidInput, "The executable was compiled for {parts}{portable}: options cannot change that.")
    }

    /// Passes the checked bytes to the plugin.
    pub(crate) fn hand_over(
        &self,
        destination: &Destination<'_>,
        devices: &[Device],
        origin: Origin,
    ) -> Result<Executable> {
        let (client, header) = (destination.client, &self.header);
        pjrt_handlers::check(&header.functions, client.platform())?;
        pjrt_handlers::check_layouts(&header.functions_in_other_layouts, client.platform())?;
        let options = match destination.options {
            // The code is there already, so the compiler's flags have no effect.
            Some(options) => self.counted(options).serialize_with(&[], devices, self.used.is_for_shardy()),
            None => self.used.moved_to(devices),
        };
        let loaded = Loaded::deserialize(client, self.payload, &options).map_err(|error| {
            let error = pjrt_handlers::explain(error, client.plugin().api(), client.platform());
            error.unsupported(client.platform(), "Loading a saved executable is")
        })?;
        // From the header, so that the plugin need not be asked for its module.
        let hint = DispatchHint {
            runs_on_caller: header.runs_on_caller,
            is_long: header.is_long,
            is_predictable: header.is_predictable,
        };
        let output_names = Some(header.output_names.clone()).filter(|names| !names.is_empty());
        let description = Description::new(client, loaded.handle())?;
        let signature = description.signature(&self.interface, Some(&header.input_names), Vec::new(), output_names)?;
        let places = Places::new(client, loaded.handle(), devices, self.used.is_portable())?;
        let provenance = Provenance {
            origin,
            options,
            compile_time: Duration::try_from_secs_f64(header.compile_seconds).unwrap_or_default(),
            interface: self.interface.clone(),
            wholes: header.wholes.clone().unwrap_or_default(),
            source_bytes: self.payload.len(),
            functions: header.functions.clone(),
            functions_in_other_layouts: header.functions_in_other_layouts.clone(),
            payload: Some(self.payload.into()),
        };
        Ok(Executable::new(loaded, signature, places, hint, destination.dispatch, provenance))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container() -> Vec<u8> {
        let options = crate::executable::options::tests::encoded(&CompileOptions::default(), &[0]);
        let header = ExecutableHeader { options, name: "main".into(), ..Default::default() };
        CONTAINER.write(&header.encode_to_vec(), b"payload")
    }

    #[test]
    fn an_unreadable_interface_is_damage() {
        let mut header = ExecutableHeader::read(CONTAINER.read(&container()).unwrap().0).unwrap();
        assert!(Serialized::read(&CONTAINER.write(&header.encode_to_vec(), b"payload")).is_ok());
        header.interface = vec![0xff];
        let error = Serialized::read(&CONTAINER.write(&header.encode_to_vec(), b"payload")).unwrap_err();
        assert_eq!(error.kind(), Kind::SerializedInvalid);
    }

    #[test]
    fn written_data_is_read_back() {
        let bytes = container();
        let read = Serialized::read(&bytes).unwrap();
        assert_eq!((read.header.name.as_str(), read.payload), ("main", &b"payload"[..]));
        assert_eq!(peek(&bytes), Some(read.header));
    }

    #[test]
    fn every_changed_missing_or_added_byte_is_noticed() {
        let whole = container();
        for i in 0..whole.len() {
            let mut changed = whole.clone();
            changed[i] ^= 0x10;
            let kind = Serialized::read(&changed).unwrap_err().kind();
            let expected = if (8..12).contains(&i) { Kind::SerializedMismatch } else { Kind::SerializedInvalid };
            assert_eq!(kind, expected, "byte {i}");
            assert_eq!(Serialized::read(&whole[..i]).unwrap_err().kind(), Kind::SerializedInvalid, "length {i}");
        }
        let longer = [whole.as_slice(), b"x"].concat();
        assert_eq!(Serialized::read(&longer).unwrap_err().kind(), Kind::SerializedInvalid);
    }

    #[test]
    fn a_null_character_in_a_name_is_damage() {
        let mut whole = container();
        let name = whole.windows(4).position(|bytes| bytes == b"main").unwrap();
        whole[name] = 0;
        pjrt_base::container::seal(&mut whole);
        assert_eq!(Serialized::read(&whole).unwrap_err().kind(), Kind::SerializedInvalid);
        assert_eq!(peek(&whole), None);
    }

    #[test]
    fn another_format_is_reported() {
        let mut newer = container();
        newer[8] = 2;
        let error = Serialized::read(&newer).unwrap_err();
        assert_eq!(error.kind(), Kind::SerializedMismatch);
        assert!(error.message().contains("format 2"), "{error}");
    }
}
