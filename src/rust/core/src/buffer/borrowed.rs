//! Buffers in memory of other libraries of this process, such as NumPy and Arrow.

use crate::buffer::Buffer;
use crate::client::device::Device;
use crate::client::holdings;
use crate::client::retry::with_retry;
use crate::host::memory::HostMemory;
use pjrt_base::error::Result;
use pjrt_base::process::lock;
use pjrt_data::array::Spec;
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::Mutex;

/// The places that are used, and by how many buffers each.
static USES: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());

/// Whether a buffer uses the array that begins here, so that another one takes no more memory.
pub fn is_borrowed(data: *const u8) -> bool {
    lock(&USES).is_some_and(|uses| uses.contains_key(&(data as usize)))
}

fn end_use(place: usize) {
    let Some(mut uses) = lock(&USES) else { return };
    match uses.get_mut(&place) {
        Some(count) if *count > 1 => *count -= 1,
        _ => drop(uses.remove(&place)),
    }
}

impl Buffer {
    /// A buffer of an array that another library lends until `release` is called, on any thread. Devices which share the host's
    /// memory use it in place if it is aligned. Its memory counts as new once, however many buffers use it.
    ///
    /// # Errors
    /// The plugin's own.
    ///
    /// # Safety
    /// The array stays valid and unchanged until `release` is called.
    pub(crate) unsafe fn borrowed(
        device: &Device,
        spec: Spec,
        data: NonNull<u8>,
        release: impl FnOnce() + Send + 'static,
    ) -> Result<Buffer> {
        let (size, client) = (spec.bytes(), device.client());
        let takes_nothing = client.shares_host_memory() && is_borrowed(data.as_ptr());
        let place = data.as_ptr() as usize;
        if let Some(mut uses) = lock(&USES) {
            *uses.entry(place).or_default() += 1;
        }
        // SAFETY: the caller's promise.
        let memory = unsafe {
            HostMemory::lent(data, size, move || {
                end_use(place);
                release();
            })
        };
        let buffer = with_retry(|| holdings::arrays([&spec]), || Buffer::from_host(device, spec.clone(), &memory))?;
        if takes_nothing {
            client.usage().subtract_new_bytes(size);
        }
        Ok(buffer)
    }
}
