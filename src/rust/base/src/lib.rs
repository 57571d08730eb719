//! The process and the machine, for all other crates: errors, interrupts, forks, threads, memory and files. Must not
//! know plugins, arrays or programs.

#[macro_use]
pub mod error;

pub mod callbacks;
pub mod coarse;
pub mod console;
pub mod container;
pub mod counted;
pub mod digest;
pub mod foreign;
pub mod idle;
pub mod mmap;
pub mod pages;
pub mod parallel;
pub mod private_fs;
pub mod process;
pub mod processors;
pub mod reason;
pub mod room;
pub mod spin;
pub mod sync;
pub mod threads;
pub mod trace;
pub mod trusted_fs;
