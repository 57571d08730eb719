//! Downloads: elements that were read from a device become an array in memory of the caller.

use crate::buffer::read::HostView;
use crate::host::array::HostOrder;
use crate::host::memory::HostMemory;
use pjrt_base::error::Result;
use pjrt_base::trace::{self, Activity};
use pjrt_data::array::Spec;
use pjrt_data::convert::{self, HostTarget};
use pjrt_data::transpose::Plan;
use std::sync::Arc;

impl HostView {
    /// Writes the elements of an array of this spec as host values, in `order`. Reports how many of them change in the host's
    /// type, if `check` is set or the type is not the dtype's own.
    ///
    /// # Errors
    /// `UnsupportedDtype` when the elements have no such form; `Interrupted`; as [`HostView::check`].
    ///
    /// # Safety
    /// The target has room for the spec's elements.
    pub unsafe fn decode(&self, spec: &Spec, order: HostOrder, target: HostTarget, check: bool) -> Result<usize> {
        let mut span = trace::span(Activity::Download, || spec.details());
        let decoded = decode_elements(spec, self.bytes(), order, target, check);
        span.check(&decoded);
        let lost = decoded?;
        self.check()?;
        Ok(lost)
    }

    /// Copies the elements of an array of this spec as they are, in `order`.
    ///
    /// # Errors
    /// `Interrupted`; as [`HostView::check`].
    ///
    /// # Safety
    /// `target` has room for the spec's bytes, and is aligned for its elements.
    pub unsafe fn copy(&self, spec: &Spec, order: HostOrder, target: *mut u8) -> Result<()> {
        if !spec.is_empty() {
            let _span = trace::span(Activity::Download, || spec.details());
            convert::copy(spec.dtype, &plan(spec, order), elements(spec, self.bytes())?, target)?;
        }
        self.check()
    }

    /// The same into new memory.
    ///
    /// # Errors
    /// As [`HostView::copy`], and the code of `RESOURCE_EXHAUSTED` if memory is exhausted.
    pub fn ordered_copy(&self, spec: &Spec, order: HostOrder) -> Result<Arc<HostMemory>> {
        let memory = HostMemory::new(spec.bytes())?;
        // SAFETY: the memory was made for the spec's bytes, and is aligned for all elements.
        unsafe { self.copy(spec, order, memory.data())? };
        Ok(memory)
    }

    /// The elements in `order`, without a copy where they lie so already.
    ///
    /// # Errors
    /// As [`HostView::ordered_copy`].
    pub fn in_order(self, spec: &Spec, order: HostOrder) -> Result<HostView> {
        if spec.is_empty() || plan(spec, order).is_contiguous() {
            return Ok(self);
        }
        Ok(HostView::Copied(self.ordered_copy(spec, order)?))
    }
}

/// The same for elements that are not a buffer's.
///
/// # Errors
/// As [`HostView::decode`].
///
/// # Safety
/// The target has room for the spec's elements, and the bytes are aligned for them.
pub unsafe fn decode_elements(
    spec: &Spec,
    bytes: &[u8],
    order: HostOrder,
    target: HostTarget,
    check: bool,
) -> Result<usize> {
    if spec.is_empty() {
        return Ok(0);
    }
    let converts = target.host_type != spec.dtype.info().host_type;
    convert::decode(spec.dtype, &plan(spec, order), elements(spec, bytes)?, target, check || converts)
}

/// Where the elements lie, which must be as many as the spec says.
fn elements(spec: &Spec, bytes: &[u8]) -> Result<*const u8> {
    if bytes.len() < spec.bytes() {
        bail!(Internal, "{} bytes were read of {spec}, which has {}.", bytes.len(), spec.bytes());
    }
    Ok(bytes.as_ptr())
}

fn plan(spec: &Spec, order: HostOrder) -> Plan {
    Plan::new(&spec.dims, &spec.strides(), &order.strides(&spec.dims))
}
