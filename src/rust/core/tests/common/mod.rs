//! The real CPU plugin, which `PJRT_PLUGIN_PATH_CPU` names, with programs and arrays for it. Each test file uses some of these.
#![allow(dead_code)]

pub mod linear;

use pjrt_core::{Buffer, Client, Device, HostMemory, Plugin, PluginValue};
use pjrt_data::{array::Spec, dtype::DType};
use pjrt_program::program::{Format, Program};
use std::path::Path;
use std::sync::OnceLock;

pub fn plugin() -> &'static Plugin {
    let path = std::env::var("PJRT_PLUGIN_PATH_CPU").expect("PJRT_PLUGIN_PATH_CPU names the CPU plugin's library");
    Plugin::load(Path::new(&path)).unwrap()
}

/// A new client with so many devices.
pub fn client_of(devices: i64) -> Client {
    Client::create(plugin(), &[("cpu_device_count".into(), PluginValue::Int(devices))]).unwrap()
}

/// One client with two devices for all tests of a file.
pub fn client() -> &'static Client {
    static CLIENT: OnceLock<Client> = OnceLock::new();
    CLIENT.get_or_init(|| client_of(2))
}

pub fn device(index: usize) -> Device {
    client().devices().nth(index).unwrap()
}

pub fn program(text: &str) -> Program {
    Program::new(text.as_bytes().to_vec(), Format::Mlir).unwrap()
}

pub fn upload_to(device: &Device, dims: &[i64], values: &[f32]) -> Buffer {
    let spec = Spec::new(DType::F32, dims).unwrap();
    let memory = HostMemory::new(spec.bytes()).unwrap();
    assert_eq!(spec.bytes(), size_of_val(values));
    // SAFETY: the memory is as long as the values.
    unsafe { std::ptr::copy_nonoverlapping(values.as_ptr(), memory.data().cast(), values.len()) };
    Buffer::from_host(device, spec, &memory).unwrap()
}

pub fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|b| f32::from_ne_bytes(b.try_into().unwrap())).collect()
}

pub fn download(buffer: &Buffer) -> Vec<f32> {
    floats(buffer.read().unwrap().bytes())
}
