//! The ABI of PJRT plugins: structs, enums and slot names as generated from the C headers, and no logic at all.
//! Every struct's size and field offsets are asserted at compile time in the generated file.
#![no_std]

/// A struct whose fields are known by name.
pub trait Fields {
    /// The names of the fields and their offsets in bytes.
    const FIELDS: &'static [(&'static str, usize)];
}

/// Asserts the size, the alignment and the offsets of the fields of a struct, all in bytes, and names the fields.
macro_rules! layout {
    ($name:ty, $size:literal, $align:literal; $($field:ident: $offset:literal),*) => {
        const _: () = {
            assert!(size_of::<$name>() == $size, concat!("size of ", stringify!($name)));
            assert!(align_of::<$name>() == $align, concat!("alignment of ", stringify!($name)));
            $(assert!(
                core::mem::offset_of!($name, $field) == $offset,
                concat!("offset of ", stringify!($name), "::", stringify!($field))
            );)*
        };

        impl crate::Fields for $name {
            const FIELDS: &'static [(&'static str, usize)] = &[$((stringify!($field), $offset)),*];
        }
    };
}

/// Structs whose addresses alone are passed on.
macro_rules! opaque {
    ($($name:ident),*) => {$(
        #[repr(C)]
        #[derive(Debug)]
        pub struct $name {
            _unused: [u8; 0],
        }
    )*};
}

#[allow(non_camel_case_types, non_snake_case, non_upper_case_globals, clippy::all, missing_docs)]
mod bindings;

pub use bindings::*;
