//! The device of a call: its stream, memory from the plugin, and copies.

use crate::cuda::library::{self, Driver, Pointer};
use crate::frame::{call, Failure, Frame, Outcome};
use pjrt_base::error::{RESOURCE_EXHAUSTED, UNIMPLEMENTED};
use pjrt_sys::*;
use std::ptr::null_mut;

/// The stream of a call, with its context current on this thread. All work is queued on the stream, so memory of the plugin
/// can be freed once the work is queued: the plugin reuses it on the same stream only.
#[derive(Debug)]
pub(super) struct CudaDevice<'a> {
    frame: &'a Frame<'a>,
    driver: &'static Driver,
    context: Pointer,
    pub stream: Pointer,
}

impl<'a> CudaDevice<'a> {
    /// Asks the plugin for the stream, and makes its context current.
    pub fn new(frame: &'a Frame<'a>) -> Outcome<CudaDevice<'a>> {
        let driver = library::driver()?;
        let args = frame.api().and_then(|(api, ctx)| call!(api, XLA_FFI_Stream_Get { ctx: ctx }));
        let Some(XLA_FFI_Stream_Get_Args { stream, .. }) = args else {
            return Err(Failure::new(UNIMPLEMENTED, "The plugin has no stream for handlers."));
        };
        let mut context = null_mut();
        // SAFETY: the stream is the plugin's, and the place for the context is valid.
        driver.check("cuStreamGetCtx", unsafe { (driver.stream_context)(stream, &mut context) })?;
        // SAFETY: the context is the stream's.
        driver.check("cuCtxPushCurrent", unsafe { (driver.push_context)(context) })?;
        Ok(CudaDevice { frame, driver, context, stream })
    }

    /// Queues a copy on the device. The memory must not overlap, unless it is the same.
    ///
    /// # Safety
    /// Both must be device memory of so many bytes.
    pub unsafe fn copy<T>(&self, to: *mut T, from: *const T, count: usize) -> Outcome {
        let bytes = count * size_of::<T>();
        if bytes == 0 || to.cast_const() == from {
            return Ok(());
        }
        let status = (self.driver.copy)(to.cast(), from.cast_mut().cast(), bytes, self.stream);
        self.driver.check("cuMemcpyDtoDAsync", status)
    }

    /// Queues zeros.
    ///
    /// # Safety
    /// The device memory must have room for `count` elements.
    pub unsafe fn zero<T>(&self, to: *mut T, count: usize) -> Outcome {
        match count * size_of::<T>() {
            0 => Ok(()),
            bytes => self.driver.check("cuMemsetD8Async", (self.driver.fill)(to.cast(), 0, bytes, self.stream)),
        }
    }

    /// The elements of device memory. Waits for all work that is queued.
    ///
    /// # Safety
    /// The device memory must have `count` elements, for which all bits are valid.
    pub unsafe fn read<T: Copy + Default>(&self, from: *const T, count: usize) -> Outcome<Vec<T>> {
        let mut elements = Vec::new();
        elements.try_reserve_exact(count).map_err(|_| out_of_memory("on the host", count * size_of::<T>()))?;
        elements.resize(count, T::default());
        if count > 0 {
            let (to, bytes) = (elements.as_mut_ptr().cast(), count * size_of::<T>());
            let status = (self.driver.read)(to, from.cast_mut().cast(), bytes, self.stream);
            let done = self.driver.check("cuMemcpyDtoHAsync", status).and_then(|()| self.synchronize());
            if let Err(failure) = done {
                // The copy may still write there.
                std::mem::forget(elements);
                return Err(failure);
            }
        }
        Ok(elements)
    }

    /// Writes elements to device memory. Waits for all work that is queued.
    ///
    /// # Safety
    /// The device memory must have room for the elements.
    pub unsafe fn write<T: Copy>(&self, to: *mut T, elements: Vec<T>) -> Outcome {
        if elements.is_empty() {
            return Ok(());
        }
        let status = (self.driver.write)(to.cast(), elements.as_ptr().cast(), size_of_val(&elements[..]), self.stream);
        let done = self.driver.check("cuMemcpyHtoDAsync", status).and_then(|()| self.synchronize());
        if done.is_err() {
            // The copy may still read them.
            std::mem::forget(elements);
        }
        done
    }

    fn synchronize(&self) -> Outcome {
        // SAFETY: the stream is the plugin's.
        self.driver.check("cuStreamSynchronize", unsafe { (self.driver.synchronize)(self.stream) })
    }

    /// Memory on the device, freed after the work that is queued until its end.
    pub fn memory(&self, bytes: usize) -> Outcome<DeviceMemory<'_>> {
        let size = bytes.max(1);
        let made = self.frame.api().and_then(|(api, ctx)| {
            // Device memory is aligned for every type; plugins refuse large alignments.
            call!(api, XLA_FFI_DeviceMemory_Allocate { ctx: ctx, size: size, alignment: 1 })
        });
        made.filter(|args| !args.data.is_null())
            .map(|args| DeviceMemory { device: self, data: args.data, size })
            .ok_or_else(|| out_of_memory("on the device", size))
    }

    /// What identifies the stream in this process.
    pub fn key(&self) -> (usize, usize) {
        (self.context as usize, self.stream as usize)
    }

    /// Calls a function while another context is current.
    pub fn with_context(&self, context: usize, work: impl FnOnce()) {
        // SAFETY: the driver refuses a context that it does not know, and what was pushed is popped.
        unsafe {
            if (self.driver.push_context)(context as Pointer) == 0 {
                work();
                (self.driver.pop_context)(&mut null_mut());
            }
        }
    }
}

impl Drop for CudaDevice<'_> {
    fn drop(&mut self) {
        // SAFETY: `new` pushed the context. A failure leaves a context that XLA replaces.
        unsafe { (self.driver.pop_context)(&mut null_mut()) };
    }
}

/// Memory of the plugin on the device.
#[derive(Debug)]
pub(super) struct DeviceMemory<'a> {
    device: &'a CudaDevice<'a>,
    pub data: Pointer,
    size: usize,
}

impl Drop for DeviceMemory<'_> {
    fn drop(&mut self) {
        let Some((api, ctx)) = self.device.frame.api() else { return };
        let (size, data) = (self.size, self.data);
        // Nothing can be done about a failure to free.
        let _ = call!(api, XLA_FFI_DeviceMemory_Free { ctx: ctx, size: size, data: data });
    }
}

#[cold]
fn out_of_memory(place: &str, bytes: usize) -> Failure {
    Failure::new(RESOURCE_EXHAUSTED, format!("Not enough memory {place}: {bytes} bytes needed."))
}
