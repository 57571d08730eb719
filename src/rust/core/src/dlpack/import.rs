//! Arrays of other libraries as buffers.

use super::managed::Managed;
use crate::buffer::order;
use crate::buffer::Buffer;
use crate::client::device::Device;
use crate::client::holdings;
use crate::client::retry::with_retry;
use crate::host::memory::HostMemory;
use pjrt_base::error::{Error, Kind, Result};
use pjrt_data::dlpack::{Lent, Place};
use pjrt_ffi::api::call;
use pjrt_ffi::exception::guarded;
use pjrt_sys::*;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Copies {
    Always,
    IfNeeded,
    Never,
}

impl Buffer {
    /// A buffer of an array of another library. It uses the array's memory if the device can: if the array is dense and
    /// row-major, and, on a CPU, aligned. Otherwise it is a copy. No program writes to the array's memory: if one donates the
    /// buffer, it works on a copy.
    ///
    /// `stream` is the one on which the array becomes ready: see [`Device::stream_for_external_arrays`]. `array` is taken only if
    /// the import succeeds.
    ///
    /// # Errors
    /// `UnsupportedDtype`, `DeviceMismatch` for memory that the device cannot use, `InvalidInput` if a copy is needed that
    /// must not be; the plugin's own.
    pub fn import(
        array: &mut Option<Managed>,
        device: &Device,
        copies: Copies,
        stream: Option<isize>,
    ) -> Result<Buffer> {
        device.check_addressable()?;
        let Some(lent) = array.as_ref().map(Managed::array).transpose()? else {
            bail!(InvalidInput, "The array was used already.");
        };
        if lent.place.is_host() {
            return from_host(array, lent, device, copies);
        }
        check_same_device(lent.place, device)?;
        if lent.strides.is_some() || copies == Copies::Always {
            let what = if lent.strides.is_some() { "is not dense and row-major" } else { "is to be copied" };
            let error =
                Error::new(Kind::InvalidInput, format!("The array {} on {} {what}.", lent.spec, device.label()));
            return Err(error.hint("Copy it in the library that made it, as with PyTorch's contiguous() or clone()."));
        }
        Buffer::view(array, lent, device, stream)
    }

    /// A buffer in memory of the device that another library owns.
    ///
    /// # Errors
    /// The plugin's own.
    pub(super) fn view(
        array: &mut Option<Managed>,
        lent: Lent,
        device: &Device,
        stream: Option<isize>,
    ) -> Result<Buffer> {
        let client = device.client();
        let (spec, keeper) = (lent.spec, Box::into_raw(Box::new(array.take())));
        let made = call!(
            client.plugin().api(),
            PJRT_Client_CreateViewOfDeviceBuffer {
                client: client.handle()?,
                device_buffer_ptr: lent.data.cast_mut().cast(),
                dims: spec.dims.as_ptr(),
                num_dims: spec.dims.len(),
                element_type: PJRT_Buffer_Type(spec.dtype.info().code),
                device: device.facts().handle,
                on_delete_callback: Some(unused),
                on_delete_callback_arg: keeper.cast(),
                stream: stream.unwrap_or(0),
            }
        );
        let made = made.inspect_err(|_| {
            // SAFETY: the plugin refused, so it is still ours.
            *array = *unsafe { Box::from_raw(keeper) };
        });
        let made = made.map_err(|e| e.unsupported(client.platform(), "Views of other libraries' memory are"))?;
        let spec = order::found(client.plugin().api(), made.buffer, &Arc::new(spec));
        let buffer = Buffer::adopt(client.clone(), device.index(), spec, made.buffer, None);
        // Never taken back, so that a program which donates the buffer works on a copy, or is refused.
        call!(client.plugin().api(), PJRT_Buffer_IncreaseExternalReferenceCount { buffer: made.buffer })
            .map_err(|e| e.on_platform(client.platform()))?;
        Ok(buffer)
    }
}

/// Called by the plugin, on any thread, when it does not use the memory any more.
unsafe extern "C" fn unused(_: *mut c_void, keeper: *mut c_void) {
    drop(Box::from_raw(keeper.cast::<Option<Managed>>()));
}

fn from_host(array: &mut Option<Managed>, lent: Lent, device: &Device, copies: Copies) -> Result<Buffer> {
    let Lent { spec, data, strides, .. } = &lent;
    let size = spec.bytes();
    if size == 0 {
        return Buffer::from_bytes(device, spec.clone(), &[]).inspect(|_| *array = None);
    }
    let shares = device.client().shares_host_memory();
    let problem = if !shares {
        Some("is in host memory, and the device has its own")
    } else if strides.is_some() {
        Some("is not dense and row-major")
    } else if !HostMemory::is_aligned(*data) {
        Some("does not begin at a multiple of 64 bytes")
    } else {
        None
    };
    if let (Some(problem), Copies::Never) = (problem, copies) {
        bail!(InvalidInput, "The array {spec} cannot be used without a copy: it {problem}.");
    }
    // Devices with memory of their own copy a dense array, and release it after that.
    if strides.is_none() && (!shares || (problem.is_none() && copies != Copies::Always)) {
        let data = NonNull::new(data.cast_mut()).unwrap_or(NonNull::dangling());
        let array = array.take();
        // SAFETY: whoever lends the array keeps it in place, and promises not to change it, until it is released.
        return unsafe { Buffer::borrowed(device, spec.clone(), data, move || drop(array)) };
    }
    let asked = || holdings::arrays([spec]);
    let memory = with_retry(asked, || HostMemory::new(size))?;
    // SAFETY: as above; there is room for the elements.
    unsafe { lent.copy_to(memory.data())? };
    *array = None;
    with_retry(asked, || Buffer::from_host(device, spec.clone(), &memory))
}

fn check_same_device(place: Place, device: &Device) -> Result<()> {
    let platform = match place.kind {
        Place::CUDA => "cuda",
        Place::ROCM => "rocm",
        _ => bail!(DeviceMismatch, "The array is in {} memory, which this package cannot use.", place.name()),
    };
    if device.client().platform() != platform || device.local_hardware_id() != place.id {
        let (kind, id) = (place.name(), place.id);
        bail!(DeviceMismatch, "The array is on {kind} device {id}, but the buffer is for {}.", device.label());
    }
    Ok(())
}

impl Device {
    /// The stream on which another library must make its array ready, for devices with streams.
    ///
    /// # Errors
    /// `UnsupportedCall` for a plugin that does not say; the plugin's own.
    pub fn stream_for_external_arrays(&self) -> Result<Option<isize>> {
        const CALL: &str = "PJRT_Get_Stream_For_External_Ready_Events";
        let client = self.client();
        if client.shares_host_memory() {
            return Ok(None);
        }
        let plugin = client.plugin();
        let kind = PJRT_Extension_Type::PJRT_Extension_Type_Stream;
        // SAFETY: the extension lies in the plugin's constant data; the field is read only if it reaches that far.
        let function = plugin.api().extension::<PJRT_Stream_Extension>(kind).and_then(|found| unsafe {
            let end = std::mem::offset_of!(PJRT_Stream_Extension, get_stream) + size_of::<usize>();
            if (*found).base.struct_size >= end {
                (*found).get_stream
            } else {
                None
            }
        });
        let Some(function) = function else {
            let message = format!("The plugin for {} has no streams that other libraries can use.", client.platform());
            return Err(Error::new(Kind::UnsupportedCall, message).on_platform(client.platform()));
        };
        client.handle()?;
        let mut args =
            PJRT_Get_Stream_For_External_Ready_Events_Args { struct_size: 0, device: self.facts().handle, stream: 0 };
        args.struct_size = size_of_val(&args);
        // SAFETY: the arguments are what the header asks for.
        let error = unsafe { guarded(plugin.api().poison(), function, &raw mut args, CALL)? };
        if error.is_null() {
            return Ok(Some(args.stream));
        }
        // SAFETY: the plugin has just returned this error.
        Err(unsafe { plugin.api().take_error(error, CALL) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Client;
    use crate::dlpack::Wanted;
    use crate::runtime::plugin::Plugin;

    /// Views are for devices with memory of their own; the CPU plugin has them, too.
    #[test]
    fn a_view_is_the_memory_of_the_other_library() {
        let path = std::env::var("PJRT_PLUGIN_PATH_CPU").expect("PJRT_PLUGIN_PATH_CPU names the CPU plugin's library");
        let client = Client::create(Plugin::load(path.as_ref()).unwrap(), &[]).unwrap();
        let device = client.devices().next().unwrap();
        let numbers: Vec<u8> = (0..=255).collect();
        let spec = pjrt_data::array::Spec::new(pjrt_data::dtype::DType::U8, &[256]).unwrap();
        let owner = Buffer::from_bytes(&device, spec, &numbers).unwrap();
        let mut array = Some(owner.export(Wanted { is_versioned: true, copy: false }).unwrap());
        let lent = array.as_ref().unwrap().array().unwrap();
        let view = Buffer::view(&mut array, lent, &device, None).unwrap();
        assert!(array.is_none());
        assert_eq!(view.device_address().unwrap(), owner.device_address().unwrap());
        drop(owner);
        assert_eq!(view.read().unwrap().bytes(), numbers);
        drop(view);
        assert_eq!(client.usage().live_buffers(), 0);
    }
}
