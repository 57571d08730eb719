//! Programs with symbolic sizes, refined for two sets of shapes, on the real CPU plugin: they compute what JAX does.

mod common;

use common::device;
use pjrt_base::error::Result;
use pjrt_core::executable::execute::ExecuteOptions;
use pjrt_core::executable::options::CompileOptions;
use pjrt_core::{Buffer, Executable, HostMemory};
use pjrt_data::{array::Spec, dtype::DType};
use pjrt_ir::module::Module;
use pjrt_program::program::{Format, Program};
use pjrt_program::refine::refine;

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../program/fixtures/symbolic");

/// An array, as `runs.txt` has it.
struct Array {
    dtype: DType,
    dims: Vec<i64>,
    bytes: Vec<u8>,
}

impl Array {
    fn read(words: &[&str]) -> Array {
        let [dtype, dims, bytes] = words else { panic!("{words:?}") };
        let dtype = match *dtype {
            "bool" => "pred",
            "float32" => "f32",
            "int64" => "i64",
            "float64" => "f64",
            "int32" => "i32",
            "uint32" => "ui32",
            other => panic!("no arrays of type {other}"),
        };
        let dtype = DType::parse(dtype).unwrap();
        let dims = dims.split(',').filter(|dim| !dim.is_empty()).map(|dim| dim.parse().unwrap()).collect();
        let byte = |i| u8::from_str_radix(&bytes[2 * i..2 * i + 2], 16).unwrap();
        Array { dtype, dims, bytes: (0..bytes.len() / 2).map(byte).collect() }
    }

    fn upload(&self) -> Buffer {
        let spec = Spec::new(self.dtype, &self.dims).unwrap();
        let memory = HostMemory::new(spec.bytes()).unwrap();
        assert_eq!(self.bytes.len(), spec.bytes());
        // SAFETY: the memory is as long as the bytes.
        unsafe { std::ptr::copy_nonoverlapping(self.bytes.as_ptr(), memory.data().cast(), self.bytes.len()) };
        Buffer::from_host(&device(0), spec, &memory).unwrap()
    }
}

/// The largest difference between floats, and 0 or infinity for other types.
fn difference(expected: &Array, found: &[u8]) -> f32 {
    if expected.dtype != DType::F32 || expected.bytes.len() != found.len() {
        return if expected.bytes == found { 0.0 } else { f32::INFINITY };
    }
    let pairs = common::floats(&expected.bytes).into_iter().zip(common::floats(found));
    pairs.map(|(x, y)| if x == y { 0.0 } else { (x - y).abs() / x.abs().max(1.0) }).fold(0.0, f32::max)
}

fn run(name: &str, inputs: &[Array]) -> Result<Vec<(Vec<i64>, Vec<u8>)>> {
    let module = Module::decode(&std::fs::read(format!("{FIXTURES}/{name}.artifact")).unwrap())?;
    let constants: &[(usize, i32)] = match name {
        "platform" => &[(0, 0)],
        "platforms" => &[(0, 1)],
        _ => &[],
    };
    let dims: Vec<Vec<i64>> = inputs.iter().map(|input| input.dims.clone()).collect();
    let text = refine(&module, &dims, constants)?.text()?;
    if std::env::var("PJRT_SHOW").is_ok_and(|shown| shown == name) {
        println!("{text}");
    }
    assert!(!text.contains('?'), "{name} has sizes that are not fixed: {text}");
    let program = Program::new(text.into_bytes(), Format::Mlir)?;
    let executable = Executable::compile(&[device(0)], &program, &CompileOptions::default())?;
    let inputs: Vec<Buffer> = inputs.iter().map(Array::upload).collect();
    let inputs: Vec<&Buffer> = inputs.iter().collect();
    let outputs = executable.execute(&inputs, &ExecuteOptions::default())?;
    Ok(outputs.iter().map(|output| (output.spec().dims.to_vec(), output.read().unwrap().bytes().to_vec())).collect())
}

#[test]
fn refined_programs_compute_what_jax_does() {
    let runs = std::fs::read_to_string(format!("{FIXTURES}/runs.txt")).unwrap();
    let mut failures = Vec::new();
    for text in runs.split("run ").skip(1) {
        let mut lines = text.lines();
        let name = lines.next().unwrap();
        let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
        for line in lines {
            let words: Vec<&str> = line.split(' ').collect();
            let list = if words[0] == "in" { &mut inputs } else { &mut outputs };
            list.push(Array::read(&words[1..]));
        }
        let found = match run(name, &inputs) {
            Ok(found) => found,
            Err(error) => {
                failures.push(format!("{name}: {error}"));
                continue;
            }
        };
        assert_eq!(found.len(), outputs.len(), "{name}");
        for (i, (expected, (dims, bytes))) in outputs.iter().zip(&found).enumerate() {
            let difference = difference(expected, bytes);
            if expected.dims != *dims || difference > 2e-5 {
                failures.push(format!("{name}: result {i} is {dims:?}, not {:?}; {difference}", expected.dims));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
