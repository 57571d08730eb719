//! Copies of buffers on other devices, and in other memory spaces.

use crate::buffer::backing::Backing;
use crate::buffer::order;
use crate::buffer::Buffer;
use crate::client::device::Device;
use crate::client::holdings;
use crate::client::memory_space::MemorySpace;
use crate::client::retry::with_retry;
use crate::host::array::HostOrder;
use pjrt_base::error::Result;
use pjrt_data::array::Spec;
use pjrt_ffi::api::call;
use pjrt_sys::*;
use std::mem::offset_of;
use std::ptr::null_mut;
use std::sync::Arc;

impl Buffer {
    /// Copies the buffer to another device, and returns before the copy is done. To a device of another plugin, and
    /// with a plugin that does not copy, it goes through host memory, after a wait for its content.
    ///
    /// # Errors
    /// As [`Buffer::wait`], and the plugin's own.
    pub fn copy_to(&self, device: &Device) -> Result<Buffer> {
        device.check_addressable()?;
        let plugin = device.client().plugin();
        let has_copy = plugin.api().has(offset_of!(PJRT_Api, PJRT_Buffer_CopyToDevice));
        if has_copy && plugin.path() == self.0.client.plugin().path() {
            match self.copy(device.clone(), None) {
                Err(error) if error.is_unsupported() => {}
                copied => return copied,
            }
        }
        let elements = self.wait()?.view()?.ordered_copy(self.spec(), HostOrder::RowMajor)?;
        Buffer::from_host(device, Spec::new(self.dtype(), self.dims())?, &elements)
    }

    /// Copies the buffer to another memory space, of any client, and returns before the copy is done. The copy belongs to the
    /// buffer's device if that can use the memory space.
    ///
    /// # Errors
    /// As [`Buffer::copy_to`].
    pub fn copy_to_memory(&self, memory: &MemorySpace) -> Result<Buffer> {
        let is_near = memory.client().same(&self.0.client);
        let own = memory.devices().find(|device| is_near && device.index() == self.0.device);
        // A plugin may not say which devices can use it.
        let unknown = || is_near.then(|| self.device());
        let Some(device) = own.or_else(|| memory.devices().next()).or_else(unknown) else {
            bail!(DeviceMismatch, "No device of this process can use memory space {}.", memory.label());
        };
        if is_near {
            return self.copy(device, Some(memory.clone()));
        }
        let near = self.copy_to(&device)?;
        if near.memory()?.as_ref() == Some(memory) {
            return Ok(near);
        }
        near.copy_to_memory(memory)
    }

    /// A complete copy in separate memory on the same device, in row-major order. It goes through host memory, because not every plugin
    /// copies within a memory space.
    ///
    /// # Errors
    /// As [`Buffer::wait`], and the plugin's own.
    pub fn duplicate(&self) -> Result<Buffer> {
        let elements = self.wait()?.view()?.ordered_copy(self.spec(), HostOrder::RowMajor)?;
        let copy = Buffer::from_host(&self.device(), Spec::new(self.dtype(), self.dims())?, &elements)?;
        copy.wait()?;
        Ok(copy)
    }

    /// Starts a copy, now or, when the buffer is not made yet, after that.
    fn copy(&self, device: Device, memory: Option<MemorySpace>) -> Result<Buffer> {
        self.check_alive()?;
        let client = device.client();
        client.handle()?;
        let index = memory.as_ref().map(MemorySpace::index);
        let spec = self.spec().clone();
        let backing = Backing::of(&[self])?.map(Arc::new);
        let Some(launch) = self.unfinished_launch() else {
            let handle = self.start_copy(&device, memory.as_ref())?;
            let spec = order::of_copy(client, self.raw_handle(), handle, &spec);
            let copy = Buffer::make(client.clone(), device.index(), index, spec, handle, None, backing);
            copy.count_in_flight()?;
            return Ok(copy);
        };
        let dispatched = client.new_dispatched();
        dispatched.note_after(launch);
        let copy =
            Buffer::make(client.clone(), device.index(), index, spec, null_mut(), Some(dispatched.clone()), backing);
        let (source, promised) = (self.clone(), copy.clone());
        self.0.client.work().dispatcher(self.0.device).submit(dispatched, move || {
            let asked = || holdings::arrays([&**source.spec()]);
            let started = with_retry(asked, || source.start_copy(&device, memory.as_ref()));
            let handle = started.map_err(|error| promised.failed(error))?;
            let spec = order::of_copy(&source.0.client, source.raw_handle(), handle, source.spec());
            promised.fulfil(handle, &spec);
            promised.count_in_flight()
        })?;
        Ok(copy)
    }

    /// Has its device know of it until it is complete: programs that wait for it fill the device's queue.
    fn count_in_flight(&self) -> Result<()> {
        self.0.client.work().in_flight(self.0.device).count(&self.ready_event()?);
        Ok(())
    }

    fn start_copy(&self, device: &Device, memory: Option<&MemorySpace>) -> Result<*mut PJRT_Buffer> {
        let (api, buffer) = (self.0.client.plugin().api(), self.made()?);
        let copied = match memory {
            Some(memory) => call!(api, PJRT_Buffer_CopyToMemory { buffer: buffer, dst_memory: memory.facts().handle })
                .map(|args| args.dst_buffer),
            None => call!(api, PJRT_Buffer_CopyToDevice { buffer: buffer, dst_device: device.facts().handle })
                .map(|args| args.dst_buffer),
        };
        copied.map_err(|e| self.named(e))
    }
}
