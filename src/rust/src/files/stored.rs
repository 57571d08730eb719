//! Arrays in files become buffers in a list.

use crate::memory;
use crate::r::conditions::Result;
use crate::r::handle::EmptyHandle;
use crate::r::progress::Bar;
use crate::r::sexp::{self, Protected};
use extendr_ffi::{SEXP, SEXPTYPE};
use pjrt_base::counted::counted;
use pjrt_base::error::{Error, Kind, RESOURCE_EXHAUSTED};
use pjrt_base::room;
use pjrt_core::stored::{Loading, Progress};
use pjrt_core::{Buffer, Device};

/// R does not count buffers above this size by a vector of the same size: it would collect all garbage first.
const WEIGHED: usize = 8 << 20;

/// Loads arrays as a list, and shows the progress; not protected.
pub fn load_all(loading: &Loading, device: &Device, mut bar: Bar) -> Result<SEXP> {
    let list = Protected::new(sexp::vector(SEXPTYPE::VECSXP, loading.len()));
    let total = loading.moved_bytes();
    let loaded = load(list.sexp(), 0, loading, device, &mut |done| bar.show(done, Some(total)));
    bar.finish();
    loaded.map(|()| list.sexp())
}

/// Loads arrays as elements of a list, from position `first` on.
pub fn load(list: SEXP, first: usize, loading: &Loading, device: &Device, progress: &mut Progress) -> Result<()> {
    make_handles(list, first, loading, device)?;
    let total = loading.moved_bytes() as usize;
    let asked = || format!("{}, {}", counted(loading.len(), "array"), room::size(total));
    let loaded = memory::with_retry(asked, || loading.run(progress));
    for (i, buffer) in loaded?.into_iter().enumerate() {
        if is_known_to_r(loading, i, device) {
            device.client().usage().subtract_new_bytes(loading.bytes(i));
        }
        // SAFETY: the list holds handles that `make_handles` made for buffers, one for each.
        unsafe { EmptyHandle::<Buffer>::from_sexp(sexp::at(list, first + i)).fill(buffer) };
    }
    Ok(())
}

/// Whether R counts the memory of an array's buffer, if it needs to.
fn is_known_to_r(loading: &Loading, array: usize, device: &Device) -> bool {
    device.client().shares_host_memory() && loading.own_bytes(array) <= WEIGHED
}

/// Stores handles for the arrays in a list.
fn make_handles(list: SEXP, first: usize, loading: &Loading, device: &Device) -> Result<()> {
    let largest = (0..loading.len()).map(|i| loading.own_bytes(i)).max().unwrap_or(0);
    let mut found = Ok(());
    let made = sexp::guarded(|| {
        found = memory::collect_for_pool(largest);
        for i in 0..loading.len() {
            let weighed = is_known_to_r(loading, i, device);
            let weight = Protected::new(memory::weight(if weighed { loading.own_bytes(i) } else { 0 }));
            sexp::set_at(list, first + i, EmptyHandle::<Buffer>::over(weight.sexp()).sexp());
        }
    })?;
    found?;
    if !made {
        let message = format!("Not enough memory for {} buffers.", loading.len());
        return Err(Error::new(Kind::Pjrt(RESOURCE_EXHAUSTED), message).into());
    }
    Ok(())
}
