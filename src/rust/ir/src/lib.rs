//! The operations of programs, and the readers and writers of their forms: StableHLO as text and bytecode, and HLO modules. Must not
//! know what a program is for: plugins, devices, and functions that exporters write.

#[macro_use]
extern crate pjrt_base;

pub mod bytecode;
pub mod hlo;
pub mod module;
pub mod text;
