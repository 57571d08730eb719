//! Blocks of host memory that a plugin can use in place: 64-byte aligned, shared between this process and the plugin.

use crate::host::pool::{PoolBlock, ALIGNMENT};
use crate::runtime::event::{Event, OnDrop};
use pjrt_base::error::Result;
use std::ptr::NonNull;
use std::sync::Arc;

/// A block of memory, aligned for devices.
///
/// ```
/// # use pjrt_core::{Buffer, Client, HostMemory, Plugin};
/// # use pjrt_data::{array::Spec, dtype::DType};
/// # let path = std::env::var("PJRT_PLUGIN_PATH_CPU").expect("PJRT_PLUGIN_PATH_CPU names the CPU plugin's library");
/// # let client = Client::create(Plugin::load(path.as_ref())?, &[])?;
/// # let device = client.devices().next().unwrap();
/// let spec = Spec::new(DType::I32, &[1024])?;
/// let memory = HostMemory::new(spec.bytes())?;
/// // SAFETY: the memory is as long, and nobody else uses it yet.
/// unsafe { memory.data().write_bytes(0, memory.len()) };
/// // The device uses it in place.
/// let zeros = Buffer::from_host(&device, spec, &memory)?;
/// assert!(zeros.read()?.bytes().iter().all(|&byte| byte == 0));
/// # Ok::<(), pjrt_base::error::Error>(())
/// ```
#[derive(Debug)]
pub struct HostMemory {
    data: NonNull<u8>,
    len: usize,
    owner: Owner,
}

/// The owner of the memory.
#[derive(Debug)]
enum Owner {
    Own {
        _block: PoolBlock,
    },
    /// Borrowed memory; the owner is told when nobody uses it any more.
    Lent {
        _release: OnDrop,
    },
}

// SAFETY: a plain block of bytes; who may write when is up to the owners.
unsafe impl Send for HostMemory {}
// SAFETY: as above.
unsafe impl Sync for HostMemory {}

impl HostMemory {
    /// Uninitialized memory for `len` bytes.
    ///
    /// # Errors
    /// The code of `RESOURCE_EXHAUSTED` without enough memory.
    pub fn new(len: usize) -> Result<Arc<Self>> {
        let block = PoolBlock::new(len)?;
        Ok(Arc::new(HostMemory { data: block.data(), len, owner: Owner::Own { _block: block } }))
    }

    /// Borrows `len` bytes that nobody writes to. `release` is called, on any thread, when nobody uses them any more.
    /// Devices use them in place if [`HostMemory::is_aligned`].
    ///
    /// # Safety
    /// The bytes stay valid and unchanged until `release` is called.
    pub unsafe fn lent(data: NonNull<u8>, len: usize, release: impl FnOnce() + Send + 'static) -> Arc<Self> {
        Arc::new(HostMemory { data, len, owner: Owner::Lent { _release: OnDrop::new(release) } })
    }

    /// Whether a device can use memory at this address in place.
    pub fn is_aligned(data: *const u8) -> bool {
        data as usize % ALIGNMENT == 0
    }

    /// Whether a device may write to it.
    pub(crate) fn is_writable(&self) -> bool {
        matches!(self.owner, Owner::Own { .. })
    }

    /// Keeps the memory until the event `done`, whoever else releases it.
    pub(crate) fn keep_until(self: &Arc<Self>, done: &Event) {
        let kept = self.clone();
        if done.on_ready(move |_| drop(kept)).is_err() {
            // Without a callback, the plugin's last use is unknown: the memory must stay.
            std::mem::forget(self.clone());
        }
    }

    /// The address of the first byte.
    pub fn data(&self) -> *mut u8 {
        self.data.as_ptr()
    }

    /// The number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The data, after they have been written.
    ///
    /// # Safety
    /// All bytes have been written, and nobody writes them while the slice lives.
    pub unsafe fn bytes(&self) -> &[u8] {
        std::slice::from_raw_parts(self.data(), self.len)
    }
}
