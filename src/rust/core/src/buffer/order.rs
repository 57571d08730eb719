//! The memory order of buffers, as their plugin reports it: a plugin may lay out anew what it copies.

use crate::client::Client;
use crate::runtime::event::Event;
use crate::runtime::plugin::Plugin;
use pjrt_data::array::Spec;
use pjrt_data::layout;
use pjrt_ffi::api::{call, slice, Api};
use pjrt_sys::*;
use std::sync::Arc;

/// What a plugin reports of a buffer's memory.
struct Reported {
    /// Dimensions from fastest to slowest varying.
    minor_to_major: Box<[i64]>,
    is_tiled: bool,
}

/// The spec of a buffer that the plugin has just made: `expected`, unless the plugin reports another memory order.
pub(crate) fn found(api: &Api, handle: *mut PJRT_Buffer, expected: &Arc<Spec>) -> Arc<Spec> {
    // Most arrays have only one order.
    if expected.dims.len() < 2 || expected.is_empty() || expected.len() == 1 {
        return expected.clone();
    }
    let found = reported(api, handle, expected).map(|reported| expected.in_order(&reported.minor_to_major));
    let differs = |found: &Spec| {
        let (found, expected_strides) = (found.strides(), expected.strides());
        (0..expected.dims.len()).any(|d| expected.dims[d] != 1 && found[d] != expected_strides[d])
    };
    found.filter(differs).map_or_else(|| expected.clone(), Arc::new)
}

/// The spec of a copy of a buffer of spec `expected`. XLA's CPU plugin of API 0.81 reports the default order of copies that it has not
/// laid out anew: if it reports another order than the buffer's, the bytes tell.
pub(crate) fn of_copy(
    client: &Client,
    source: *mut PJRT_Buffer,
    copy: *mut PJRT_Buffer,
    expected: &Arc<Spec>,
) -> Arc<Spec> {
    let found = found(client.plugin().api(), copy, expected);
    if Arc::ptr_eq(&found, expected) || !client.shares_host_memory() || expected.dtype.is_packed() {
        return found;
    }
    let of = |handle| bytes_of(client.plugin(), handle, expected.bytes());
    match (of(source), of(copy)) {
        (Some(source), Some(copy)) if source == copy => expected.clone(),
        _ => found,
    }
}

/// The bytes of a buffer in memory that the device shares, after a wait for its content; `None` if it has failed.
fn bytes_of<'a>(plugin: &'static Plugin, handle: *mut PJRT_Buffer, len: usize) -> Option<&'a [u8]> {
    let api = plugin.api();
    let ready = call!(api, PJRT_Buffer_ReadyEvent { buffer: handle }).ok()?.event;
    Event::new(plugin, ready).wait_through().ok()?;
    let data = call!(api, PJRT_Buffer_UnsafePointer { buffer: handle }).ok()?.buffer_pointer;
    // SAFETY: the content is complete, and the caller has both buffers while it compares them.
    Some(unsafe { slice(data as *const u8, len) })
}

/// Whether elements that are neighbours in the memory order may lie apart on the device.
pub(crate) fn is_tiled(api: &Api, handle: *mut PJRT_Buffer, spec: &Spec) -> bool {
    reported(api, handle, spec).is_some_and(|reported| reported.is_tiled)
}

/// `None` if the plugin does not say, or not in a form that fits the array.
fn reported(api: &Api, handle: *mut PJRT_Buffer, spec: &Spec) -> Option<Reported> {
    let layout = call!(api, PJRT_Buffer_GetMemoryLayout { buffer: handle }).ok()?.layout;
    let reported = match layout.type_ {
        // SAFETY: the plugin has just returned a layout of this type; its arrays live as long as the buffer.
        PJRT_Buffer_MemoryLayout_Type::PJRT_Buffer_MemoryLayout_Type_Tiled => unsafe {
            let tiled = layout.__bindgen_anon_1.tiled;
            let order: &[i64] = slice(tiled.minor_to_major, tiled.minor_to_major_size);
            Reported { minor_to_major: order.into(), is_tiled: tiled.num_tiles > 0 }
        },
        // SAFETY: as above.
        PJRT_Buffer_MemoryLayout_Type::PJRT_Buffer_MemoryLayout_Type_Strides => unsafe {
            let strides = layout.__bindgen_anon_1.strides;
            by_strides(spec, slice(strides.byte_strides, strides.num_byte_strides))?
        },
        _ => return None,
    };
    layout::is_permutation(&reported.minor_to_major, spec.dims.len()).then_some(reported)
}

/// The order in which the array has these strides, if it has a dense one.
fn by_strides(spec: &Spec, byte_strides: &[i64]) -> Option<Reported> {
    if byte_strides.len() != spec.dims.len() {
        return None;
    }
    let mut order: Vec<i64> = (0..spec.dims.len() as i64).rev().collect();
    order.sort_by_key(|&d| byte_strides[d as usize]);
    let dense = layout::strides(&spec.dims, order.iter().map(|&d| d as usize));
    let width = spec.dtype.host_bytes();
    let is_dense = (0..spec.dims.len()).all(|d| spec.dims[d] == 1 || byte_strides[d] == (dense[d] * width) as i64);
    is_dense.then(|| Reported { minor_to_major: order.into(), is_tiled: false })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pjrt_data::dtype::DType;

    #[test]
    fn strides_tell_the_order_of_dense_arrays_only() {
        let order = |dims: &[i64], strides: &[i64]| {
            let spec = Spec::new(DType::F32, dims).unwrap();
            by_strides(&spec, strides).map(|found| found.minor_to_major.to_vec())
        };
        assert_eq!(order(&[2, 3], &[12, 4]), Some(vec![1, 0]));
        assert_eq!(order(&[2, 3], &[4, 8]), Some(vec![0, 1]));
        assert_eq!(order(&[2, 3, 4], &[16, 32, 4]), Some(vec![2, 0, 1]));
        assert_eq!(order(&[2, 1], &[4, 400]), Some(vec![0, 1]));
        assert_eq!(order(&[2, 3], &[16, 4]), None);
        assert_eq!(order(&[2, 3], &[12, 0]), None);
        assert_eq!(order(&[2, 3], &[4]), None);
    }
}
