#![no_main]
#[path = "../../core/tests/readers/mod.rs"]
mod readers;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| readers::read("dimensions", bytes));
