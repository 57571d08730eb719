//! Arrays in host memory: element types, shapes, conversion, transposition, and numbers as text.
//! Must not know PJRT, devices or programs.

#[macro_use]
extern crate pjrt_base;

pub mod array;
pub mod arrow;
pub mod convert;
pub mod decimal;
pub mod dlpack;
pub mod dtype;
pub mod hash;
pub mod layout;
pub mod literal;
pub mod minifloat;
pub mod npy;
pub mod print;
pub mod promote;
pub mod registers;
pub mod scalar;
pub mod tensor_names;
pub mod transpose;
pub mod tree;
