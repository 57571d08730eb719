//! Programs that were decoded from bytecode and written as text, on the real CPU plugin.

mod common;

use common::client_of;
use pjrt_base::error::Result;
use pjrt_core::executable::execute::ExecuteOptions;
use pjrt_core::executable::options::CompileOptions;
use pjrt_core::{Buffer, Client, Device, Executable, HostMemory};
use pjrt_data::{array::Spec, dtype::DType};
use pjrt_program::program::{Format, Program};
use std::path::PathBuf;

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../program/fixtures");

/// Numbers between -1 and 3 that every type holds.
fn input(device: &Device, dtype: DType, dims: &[i64], salt: usize) -> Buffer {
    let spec = Spec::new(dtype, dims).unwrap();
    let memory = HostMemory::new(spec.bytes()).unwrap();
    let count: i64 = dims.iter().product();
    let mut bytes = Vec::new();
    for i in 0..count as usize {
        let value = ((i * 7 + salt) % 5) as f64;
        match dtype {
            DType::Pred | DType::I8 | DType::U8 => bytes.push((value as u8) % if dtype == DType::Pred { 2 } else { 5 }),
            DType::I32 => bytes.extend((value as i32 % 3).to_le_bytes()),
            DType::U32 => bytes.extend((value as u32).to_le_bytes()),
            DType::I64 => bytes.extend((value as i64 % 3).to_le_bytes()),
            DType::F32 => bytes.extend((value as f32 / 2.0 - 0.5).to_le_bytes()),
            DType::F64 => bytes.extend((value / 2.0 - 0.5).to_le_bytes()),
            DType::C64 => bytes.extend([value as f32 - 1.0, 0.5].map(f32::to_le_bytes).concat()),
            other => panic!("no inputs of type {other}"),
        }
    }
    assert_eq!(bytes.len(), spec.bytes());
    // SAFETY: the memory is as long as the bytes.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), memory.data().cast(), bytes.len()) };
    Buffer::from_host(device, spec, &memory).unwrap()
}

/// The bytes of all results; some programs need another platform, a newer plugin or fixed shapes.
fn run(client: &Client, program: &Program) -> Result<Vec<Vec<u8>>> {
    let options = CompileOptions::default().for_program(program.annotations()).unwrap();
    let devices = options.assigned_devices(client).unwrap();
    let executable = Executable::compile(&devices, program, &options)?;
    let inputs: Vec<Vec<Buffer>> = devices
        .iter()
        .map(|device| {
            let specs = executable.signature().inputs.iter().map(|input| &input.spec).enumerate();
            specs.map(|(i, spec)| input(device, spec.dtype, &spec.dims, i)).collect()
        })
        .collect();
    let borrowed: Vec<Vec<&Buffer>> = inputs.iter().map(|inputs| inputs.iter().collect()).collect();
    let borrowed: Vec<&[&Buffer]> = borrowed.iter().map(Vec::as_slice).collect();
    let outputs = executable.execute_sharded(&borrowed, &ExecuteOptions::default())?;
    Ok(outputs.into_iter().flatten().map(|output| output.read().unwrap().bytes().to_vec()).collect())
}

#[test]
fn text_and_artifacts_of_bytecode_compute_the_same_bits() {
    let client = client_of(4);
    let mut folders = vec![PathBuf::from(FIXTURES)];
    let (mut count, mut artifacts) = (0, 0);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let Ok(bytecode) = Program::new(std::fs::read(&path).unwrap(), Format::Mlir) else { continue };
            if bytecode.bytecode().is_none() {
                continue;
            }
            let text = bytecode.whole_text().unwrap();
            let text = Program::new(text.into_bytes(), Format::Mlir).unwrap();
            match (run(&client, &bytecode), run(&client, &text)) {
                // Random numbers differ from run to run.
                (Ok(expected), Ok(_)) if run(&client, &bytecode).is_ok_and(|again| again != expected) => {}
                (Ok(expected), Ok(found)) => {
                    assert_eq!(expected, found, "{name}");
                    count += 1;
                    // What has no portable form is named. Programs with a mesh are for more devices than there are.
                    match text.to_portable(client.plugin().stablehlo_versions()) {
                        Ok(Some(artifact)) if !name.contains("mesh") => {
                            assert_eq!(expected, run(&client, &artifact).unwrap(), "{name} as an artifact");
                            artifacts += 1;
                        }
                        Ok(_) => {}
                        Err(error) => eprintln!("{name}: {error}"),
                    }
                }
                (Err(_), Err(_)) => {}
                // The encoding is newer than the plugin, but the operations are not.
                (Err(error), Ok(_)) => eprintln!("{name}: {}", error.message()),
                (expected, found) => panic!("{name}: {:?}, {:?}", expected.err(), found.err()),
            }
        }
    }
    assert!(count > 50 && artifacts > 50, "{count} programs, {artifacts} artifacts");
}
