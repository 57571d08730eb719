//! The ABI of PJRT plugins: structs, enums and slot names as generated from the C headers, and no logic at all.
//! Every struct's size and field offsets are asserted at compile time in the generated file.
#![no_std]

#[allow(non_camel_case_types, non_snake_case, non_upper_case_globals, clippy::all, missing_docs)]
mod bindings;

pub use bindings::*;
