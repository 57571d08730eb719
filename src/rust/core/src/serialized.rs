//! Serialized executables: what a plugin made of a program, in a container that tells where it belongs and whether it is whole.
//! A plugin believes any bytes it is given, and may end the process, so everything is checked before it sees one.
//!
//! Layout: magic number (8 bytes), version of the format and length of the header (4 bytes each, little-endian), SHA-256 of
//! all other bytes (32), header (a protocol buffer), payload (the plugin's own bytes, up to the end).

use crate::api::{bytes, call};
use crate::cache::file;
use crate::client::Client;
use crate::device::Device;
use crate::environment::Environment;
use crate::executable::{Executable, Making, Origin, Placement, Restored};
use crate::execute::Dispatch;
use crate::options::{CompileOptions, UsedOptions};
use crate::pace::Pace;
use pjrt_base::digest::{self, Digest};
use pjrt_base::error::{Error, Kind, Result};
use pjrt_base::room;
use pjrt_program::hlo::HloModuleProto;
use pjrt_program::sharding::Wholes;
use prost::Message;
use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

const MAGIC: &[u8; 8] = b"\x93PJRTEXE";
const FORMAT: u32 = 1;
const DIGEST_AT: usize = 16;
const HEADER_AT: usize = DIGEST_AT + size_of::<Digest>();

/// What a container says of the executable in it.
#[derive(Clone, PartialEq, Message)]
pub struct Header {
    #[prost(message, required, tag = "1")]
    pub environment: Environment,
    /// The serialized compile options, with the devices that it was made for.
    #[prost(bytes = "vec", tag = "2")]
    options: Vec<u8>,
    #[prost(string, tag = "3")]
    pub name: String,
    #[prost(string, repeated, tag = "4")]
    input_names: Vec<String>,
    /// As much of the compiled module as tells what the program takes, gives and aliases.
    #[prost(message, required, tag = "5")]
    interface: HloModuleProto,
    #[prost(bool, tag = "6")]
    runs_on_caller: bool,
    #[prost(bool, tag = "7")]
    is_long: bool,
    #[prost(double, tag = "8")]
    pub compile_seconds: f64,
    /// Seconds since 1970.
    #[prost(int64, tag = "9")]
    pub created: i64,
    /// The program that it was made from, as the cache knows it; empty for one that the user saved.
    #[prost(bytes = "vec", tag = "10")]
    pub(crate) key: Vec<u8>,
    /// Of a program that is divided, the arrays as a whole.
    #[prost(message, optional, tag = "11")]
    wholes: Option<Wholes>,
    #[prost(bool, tag = "12")]
    is_predictable: bool,
}

/// A container that has been found whole.
#[derive(Debug)]
pub struct Serialized<'a> {
    pub header: Header,
    used: UsedOptions,
    payload: &'a [u8],
}

/// Where a serialized executable is to be loaded.
#[derive(Debug)]
pub struct Target<'a> {
    pub client: &'a Client,
    /// For each part of the program; empty for those that it was made for.
    pub devices: &'a [Device],
    /// Instead of those that it was made with.
    pub options: Option<&'a CompileOptions>,
    pub dispatch: Dispatch,
}

impl Executable {
    /// The executable as bytes, from which [`Serialized::read`] and [`Serialized::load`] make it again in another process.
    /// `kept` is the folder that keeps what plugins' files hash to.
    ///
    /// # Errors
    /// Code 12 (unimplemented) or `UnsupportedCall` when the plugin cannot do it; `Io` when the plugin's file cannot be
    /// read; `Forked`, `ClientClosed`.
    pub fn serialize(&self, kept: Option<&Path>) -> Result<Vec<u8>> {
        self.serialize_as(&[], kept)
    }

    /// The same under a key of the cache.
    pub(crate) fn serialize_as(&self, key: &[u8], kept: Option<&Path>) -> Result<Vec<u8>> {
        self.client().handle()?;
        let Some(device) = self.client().devices().nth(self.first_device()) else {
            fail!(Internal, "The executable has no device.");
        };
        let (signature, making) = (self.signature(), self.making());
        let header = Header {
            environment: Environment::of(&device, kept)?,
            options: making.options.clone(),
            name: signature.name.clone(),
            input_names: signature.inputs.iter().map(|input| input.name.clone()).collect(),
            interface: making.interface.clone(),
            runs_on_caller: self.pace().runs_on_caller,
            is_long: self.pace().is_long,
            compile_seconds: making.compile_time.as_secs_f64(),
            created: UNIX_EPOCH.elapsed().unwrap_or_default().as_secs() as i64,
            key: key.into(),
            wholes: Some(making.wholes.clone()),
            is_predictable: self.pace().is_predictable,
        };
        self.with_payload(|payload| {
            room::check_room(payload.len(), "To save the executable")?;
            Ok(contain(&header, payload))
        })?
    }

    /// Calls `read` with what the plugin makes of the executable to load it from.
    fn with_payload<T>(&self, read: impl FnOnce(&[u8]) -> T) -> Result<T> {
        if let Some(payload) = &self.making().payload {
            return Ok(read(payload));
        }
        let told = self.describe()?;
        let api = self.client().plugin().api();
        let made = call!(api, PJRT_Executable_Serialize { executable: told.handle })
            .map_err(|error| error.unsupported(self.client().platform(), "Saving an executable is"))?;
        // SAFETY: the plugin has just returned these bytes, which live until they are freed below.
        let result = read(unsafe { bytes(made.serialized_bytes, made.serialized_bytes_size) });
        if let Some(free) = made.serialized_executable_deleter.filter(|_| !api.poison().is_noted()) {
            // SAFETY: as the plugin asks, once.
            unsafe { free(made.serialized_executable) };
        }
        Ok(result)
    }

    /// A device that it runs on, or can run on.
    fn first_device(&self) -> usize {
        match self.placement() {
            Placement::Fixed(devices) => devices.first().copied().unwrap_or(0),
            Placement::Portable => 0,
        }
    }
}

/// Writes a container to a file, which is there as a whole or not at all.
///
/// # Errors
/// `Io`.
pub fn write(path: &Path, container: &[u8]) -> Result<()> {
    // A device or a pipe would be replaced by the file.
    let is_other = fs::metadata(path).is_ok_and(|metadata| !metadata.is_file());
    let written = if is_other {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file"))
    } else {
        file::write(path, container)
    };
    written.map_err(|error| Error::new(Kind::Io, format!("Cannot write '{}': {error}.", path.display())))
}

fn contain(header: &Header, payload: &[u8]) -> Vec<u8> {
    let header = header.encode_to_vec();
    let mut out = Vec::with_capacity(HEADER_AT + header.len() + payload.len());
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&FORMAT.to_le_bytes());
    out.extend_from_slice(&(header.len() as u32).to_le_bytes());
    out.extend_from_slice(&Digest::default());
    out.extend_from_slice(&header);
    out.extend_from_slice(payload);
    let digest = digest_of(&out);
    out[DIGEST_AT..HEADER_AT].copy_from_slice(&digest);
    out
}

/// That of all bytes but the digest's own; there are as many as a header follows.
fn digest_of(container: &[u8]) -> Digest {
    digest::of(&[&container[..DIGEST_AT], &container[HEADER_AT..]])
}

/// Where the header ends; checks what comes before it.
fn header_end(start: &[u8]) -> Result<usize> {
    if start.len() < HEADER_AT || !start.starts_with(MAGIC) {
        return Err(Error::new(Kind::SerializedInvalid, "This is no serialized executable.")
            .hint("They are made by pjrt_serialize() and pjrt_save_executable()."));
    }
    let number = |at: usize| start[at..at + 4].iter().rev().fold(0, |number, &byte| number << 8 | u32::from(byte));
    let format = number(8);
    if format != FORMAT {
        return Err(Error::new(
            Kind::SerializedMismatch,
            format!("The executable was saved in format {format}; this version of pjrt reads format {FORMAT}."),
        )
        .hint(AGAIN));
    }
    Ok(HEADER_AT + number(12) as usize)
}

const AGAIN: &str = "Compile the program here, and save it anew.";

/// What a container says of itself, from its first bytes, and not checked: for lists. `None` when it is not all there.
pub(crate) fn peek(start: &[u8]) -> Option<Header> {
    Header::read(start.get(HEADER_AT..header_end(start).ok()?)?)
}

impl Header {
    /// `None` for what no container has. Text ends at a null character in C and R.
    fn read(bytes: &[u8]) -> Option<Header> {
        let header = Header::decode(bytes).ok()?;
        let is_text = |text: &String| !text.contains('\0');
        let is_whole =
            is_text(&header.name) && is_text(&header.environment.platform) && header.input_names.iter().all(is_text);
        is_whole.then_some(header)
    }
}

impl<'a> Serialized<'a> {
    /// Reads a container, and checks that it is whole.
    ///
    /// # Errors
    /// `SerializedInvalid` when it is no container, or damaged; `SerializedMismatch` for another version of the format.
    pub fn read(container: &'a [u8]) -> Result<Serialized<'a>> {
        let end = header_end(container)?;
        let damaged =
            || Error::new(Kind::SerializedInvalid, "The serialized executable is damaged or incomplete.").hint(AGAIN);
        if end > container.len() || container[DIGEST_AT..HEADER_AT] != digest_of(container) {
            return Err(damaged());
        }
        let (header, payload) = container[HEADER_AT..].split_at(end - HEADER_AT);
        let header = Header::read(header).ok_or_else(damaged)?;
        let used = UsedOptions::decode(&header.options).ok_or_else(damaged)?;
        Ok(Serialized { header, used, payload })
    }

    /// Loads the executable. `kept` is the folder that keeps what plugins' files hash to.
    ///
    /// # Errors
    /// `SerializedMismatch` when it was made for another plugin, processor or kind of device; `InvalidInput` for options and
    /// devices that do not fit it; the plugin's own.
    pub fn load(&self, target: &Target<'_>, kept: Option<&Path>) -> Result<Executable> {
        target.client.handle()?;
        let devices = self.devices(target)?;
        for device in &devices {
            device.check_addressable()?;
            self.check(&Environment::of(device, kept)?)?;
        }
        self.hand_over(target, &devices, Origin::Saved)
    }

    /// That it was made for a place like this.
    fn check(&self, here: &Environment) -> Result<()> {
        let differences = self.header.environment.differences(here);
        if differences.is_empty() {
            return Ok(());
        }
        let error = Error::new(Kind::SerializedMismatch, "The executable was saved for another environment than this.");
        Err(differences.into_iter().fold(error, Error::hint).hint(AGAIN).on_platform(&here.platform))
    }

    /// The devices that it is to run on.
    fn devices(&self, target: &Target<'_>) -> Result<Vec<Device>> {
        if let Some(options) = target.options {
            self.check_options(options)?;
        }
        if !target.devices.is_empty() {
            self.as_compiled().check_devices(target.devices)?;
            return Ok(target.devices.to_vec());
        }
        if let Some(options) = target.options.filter(|options| options.device_assignment.is_some()) {
            return self.counted(options).assigned_devices(target.client);
        }
        if self.used.is_portable() {
            return Ok(target.client.devices().take(1).collect());
        }
        let of_id = |id: i64| target.client.devices().find(|device| i64::from(device.id()) == id).ok_or(id);
        self.used.device_ids().into_iter().map(of_id).collect::<std::result::Result<_, _>>().map_err(|id| {
            let platform = target.client.platform();
            Error::new(
                Kind::SerializedMismatch,
                format!("The executable was saved for device {id}, which is not here."),
            )
            .hint("Name the device to load it for: `device`.")
            .on_platform(platform)
        })
    }

    /// As much of the options that it was compiled with as says how many devices it needs.
    fn as_compiled(&self) -> CompileOptions {
        let (replicas, partitions) = self.used.counts();
        let (num_replicas, num_partitions) = (Some(replicas), Some(partitions));
        let compile_portable_executable = self.used.is_portable();
        CompileOptions { num_replicas, num_partitions, compile_portable_executable, ..Default::default() }
    }

    /// The same options, with its own numbers of replicas and partitions.
    fn counted(&self, options: &CompileOptions) -> CompileOptions {
        let CompileOptions { num_replicas, num_partitions, .. } = self.as_compiled();
        CompileOptions { num_replicas, num_partitions, ..options.clone() }
    }

    /// Options cannot make another program of it.
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
        Err(Error::new(
            Kind::InvalidInput,
            format!(
                "The executable was compiled for {} replica(s) and {} partition(s){portable}: options cannot change that.",
                compiled.replicas(),
                compiled.partitions()
            ),
        ))
    }

    /// Gives the plugin what has been checked.
    pub(crate) fn hand_over(&self, target: &Target<'_>, devices: &[Device], origin: Origin) -> Result<Executable> {
        let client = target.client;
        let options = match target.options {
            // The code is there already, so that flags of the compiler change nothing.
            Some(options) => self.counted(options).serialize_with(&[], devices, self.used.is_for_shardy()),
            None => self.used.moved_to(devices),
        };
        let loaded = call!(
            client.plugin().api(),
            PJRT_Executable_DeserializeAndLoad {
                client: client.handle()?,
                serialized_executable: self.payload.as_ptr().cast(),
                serialized_executable_size: self.payload.len(),
                overridden_serialized_compile_options: options.as_ptr().cast(),
                overridden_serialized_compile_options_size: options.len(),
            }
        )
        .map_err(|error| error.unsupported(client.platform(), "Loading a saved executable is"))?;
        let header = &self.header;
        let placement = if self.used.is_portable() {
            Placement::Portable
        } else {
            Placement::Fixed(devices.iter().map(Device::index).collect())
        };
        Executable::restore(
            client,
            loaded.loaded_executable,
            Restored {
                names: header.input_names.clone(),
                placement,
                pace: Pace {
                    runs_on_caller: header.runs_on_caller,
                    is_long: header.is_long,
                    is_predictable: header.is_predictable,
                },
                dispatch: target.dispatch,
                making: Making {
                    origin,
                    options,
                    compile_time: Duration::try_from_secs_f64(header.compile_seconds).unwrap_or_default(),
                    interface: header.interface.clone(),
                    wholes: header.wholes.clone().unwrap_or_default(),
                    source_bytes: self.payload.len(),
                    is_self_contained: true,
                    payload: Some(self.payload.into()),
                },
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container() -> Vec<u8> {
        let options = crate::options::tests::encoded(&CompileOptions::default(), &[0]);
        contain(&Header { options, name: "main".into(), ..Default::default() }, b"payload")
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
        let digest = digest_of(&whole);
        whole[DIGEST_AT..HEADER_AT].copy_from_slice(&digest);
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
