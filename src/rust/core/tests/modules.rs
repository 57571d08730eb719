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
use std::sync::Mutex;

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
    // Programs for several devices that run at the same time could wait for each other's threads.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _runs = ONE_AT_A_TIME.lock();
    let outputs = executable.execute_sharded(&borrowed, &ExecuteOptions::default())?;
    Ok(outputs.into_iter().flatten().map(|output| output.read().unwrap().bytes().to_vec()).collect())
}

/// The bytecode of all fixtures, with their names.
fn fixtures() -> Vec<(String, Program)> {
    let mut folders = vec![PathBuf::from(FIXTURES)];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let program = Program::new(std::fs::read(&path).unwrap(), Format::Mlir);
            found.extend(program.ok().filter(|program| program.bytecode().is_some()).map(|program| (name, program)));
        }
    }
    found
}

/// Compares the results of bytecode, of its text and of its artifact. Returns how many forms had the same.
fn compare(client: &Client, name: &str, bytecode: &Program) -> [usize; 2] {
    let text = Program::new(bytecode.whole_text().unwrap().into_bytes(), Format::Mlir).unwrap();
    match (run(client, bytecode), run(client, &text)) {
        (Ok(expected), Ok(found)) if expected != found => {
            // Random numbers differ from run to run.
            assert_ne!(expected, run(client, bytecode).unwrap(), "{name}");
            [0, 0]
        }
        // What has no portable form is named. Programs with a mesh are for more devices than there are.
        (Ok(expected), Ok(_)) => match text.to_portable(client.plugin().stablehlo_versions()) {
            Ok(Some(artifact)) if !name.contains("mesh") => {
                assert_eq!(expected, run(client, &artifact).unwrap(), "{name} as an artifact");
                [1, 1]
            }
            Ok(_) => [1, 0],
            Err(error) => {
                eprintln!("{name}: {error}");
                [1, 0]
            }
        },
        (Err(_), Err(_)) => [0, 0],
        // The encoding is newer than the plugin, but the operations are not.
        (Err(error), Ok(_)) => {
            eprintln!("{name}: {}", error.message());
            [0, 0]
        }
        (expected, found) => panic!("{name}: {:?}, {:?}", expected.err(), found.err()),
    }
}

#[test]
fn text_and_artifacts_of_bytecode_compute_the_same_bits() {
    let client = client_of(4);
    let left = Mutex::new(fixtures());
    let next = || left.lock().unwrap().pop();
    let worker = || {
        let one = |(name, program): (String, Program)| compare(&client, &name, &program);
        std::iter::from_fn(next).map(one).fold([0, 0], |[a, b], [c, d]| [a + c, b + d])
    };
    let counts: Vec<[usize; 2]> = std::thread::scope(|scope| {
        let workers = [(); 4].map(|()| scope.spawn(worker));
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    let [programs, artifacts] = [0, 1].map(|i| counts.iter().map(|count| count[i]).sum::<usize>());
    assert!(programs > 50 && artifacts > 50, "{programs} programs, {artifacts} artifacts");
}
