//! Sizes and offsets that plugins of PJRT API 0.81 report or were seen to use. The generated file asserts the sizes
//! and offsets of every struct against the headers it was made from; these come from the other side.
#![cfg(target_pointer_width = "64")]

use pjrt_sys::*;
use std::mem::offset_of;

#[test]
fn the_table_grows_only_at_its_end() {
    // 118 calls after the table's own size, extensions and version
    assert_eq!(offset_of!(PJRT_Api, PJRT_Error_Destroy), 40);
    assert_eq!(offset_of!(PJRT_Api, PJRT_Client_UpdateGlobalProcessInfo) % 8, 0);
    assert!(size_of::<PJRT_Api>() > 984, "newer than 0.81, whose table has 984 bytes");
}

#[test]
fn argument_structs_are_at_least_as_large_as_older_plugins_ask() {
    assert!(size_of::<PJRT_Client_Create_Args>() >= 88);
    assert!(size_of::<PJRT_Client_BufferFromHostBuffer_Args>() >= 120);
    assert!(size_of::<PJRT_LoadedExecutable_Execute_Args>() >= 80);
}

#[test]
fn fields_that_every_call_relies_on_come_first() {
    assert_eq!(offset_of!(PJRT_Client_Compile_Args, struct_size), 0);
    assert_eq!(offset_of!(PJRT_Client_Compile_Args, extension_start), 8);
    assert_eq!(offset_of!(PJRT_NamedValue, type_), 32);
    assert_eq!(offset_of!(PJRT_NamedValue, value_size), 48);
    assert_eq!(size_of::<PJRT_NamedValue>(), 56);
}
