//! The crate on a real CUDA plugin and an NVIDIA GPU, if `PJRT_PLUGIN_PATH_CUDA` names the plugin. Otherwise these
//! tests print that and do nothing.

use pjrt_core::executable::execute::ExecuteOptions;
use pjrt_core::executable::options::CompileOptions;
use pjrt_core::{Buffer, Client, Device, Executable, HostMemory, Plugin};
use pjrt_data::{array::Spec, dtype::DType};
use pjrt_program::program::Format;
use pjrt_program::program::Program;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Instant;

/// The first GPU, if there is a plugin.
fn device() -> Option<Device> {
    static CLIENT: OnceLock<Option<Client>> = OnceLock::new();
    let client = CLIENT.get_or_init(|| {
        let path = std::env::var("PJRT_PLUGIN_PATH_CUDA").ok()?;
        Some(Client::create(Plugin::load(Path::new(&path)).unwrap(), &[]).unwrap())
    });
    if client.is_none() {
        println!("skipped: PJRT_PLUGIN_PATH_CUDA names no plugin");
    }
    client.as_ref()?.devices().next()
}

fn upload<T: Copy>(device: &Device, dtype: DType, dims: &[i64], values: &[T]) -> Buffer {
    let spec = Spec::new(dtype, dims).unwrap();
    let memory = HostMemory::new(spec.bytes()).unwrap();
    assert_eq!(spec.bytes(), size_of_val(values));
    // SAFETY: the block is as long as the values.
    unsafe { std::ptr::copy_nonoverlapping(values.as_ptr(), memory.data().cast(), values.len()) };
    Buffer::from_host(device, spec, &memory).unwrap()
}

fn compile(device: &Device, text: &str) -> Executable {
    let program = Program::new(text.as_bytes().to_vec(), Format::Mlir).unwrap();
    Executable::compile(std::slice::from_ref(device), &program, &CompileOptions::default()).unwrap()
}

fn run(executable: &Executable, inputs: &[&Buffer]) -> Vec<Buffer> {
    executable.execute(inputs, &ExecuteOptions::default()).unwrap().into_vec()
}

fn doubles(buffer: &Buffer) -> Vec<f64> {
    let bytes = buffer.read().unwrap();
    bytes.bytes().chunks_exact(8).map(|b| f64::from_ne_bytes(b.try_into().unwrap())).collect()
}

const PRODUCT: &str = "func.func @main(%x: tensor<512x512xf32>, %y: tensor<512x512xf32>) -> tensor<512x512xf32> {
  %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0]
    : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  return %0 : tensor<512x512xf32>
}";

#[test]
fn a_matrix_product_is_right() {
    let Some(device) = device() else { return };
    // Small whole numbers: exact in every precision that a GPU multiplies in.
    let x: Vec<f32> = (0..512 * 512).map(|i| (i % 7) as f32 - 3.0).collect();
    let y: Vec<f32> = (0..512 * 512).map(|i| (i % 5) as f32 - 2.0).collect();
    let executable = compile(&device, PRODUCT);
    let started = Instant::now();
    let inputs = [upload(&device, DType::F32, &[512, 512], &x), upload(&device, DType::F32, &[512, 512], &y)];
    let product = run(&executable, &[&inputs[0], &inputs[1]])[0].read().unwrap();
    println!("a product of 512x512 with its transfers: {:?}", started.elapsed());
    let product: Vec<f32> =
        product.bytes().chunks_exact(4).map(|b| f32::from_ne_bytes(b.try_into().unwrap())).collect();
    for (row, column) in [(0, 0), (3, 500), (511, 511), (200, 77)] {
        let expected: f32 = (0..512).map(|k| x[row * 512 + k] * y[k * 512 + column]).sum();
        assert_eq!(product[row * 512 + column], expected, "at {row}, {column}");
    }
}

#[test]
fn training_steps_with_donated_weights_reduce_the_loss() {
    let Some(device) = device() else { return };
    let step = compile(&device, include_str!("../../../../inst/programs/logistic-step.mlir"));
    let features: Vec<f64> =
        (0..500).map(|i| if i % 5 == 0 { 1.0 } else { f64::from(i * 37 % 101) / 50.0 - 1.0 }).collect();
    let labels: Vec<f64> = features.chunks(5).map(|row| f64::from(u8::from(row[1] + row[2] > 0.1))).collect();
    let features = upload(&device, DType::F64, &[100, 5], &features);
    let labels = upload(&device, DType::F64, &[100], &labels);
    let [rate, momentum] = [0.5, 0.9].map(|x| upload(&device, DType::F64, &[], &[x]));
    let [mut weights, mut velocity] = [0, 1].map(|_| upload(&device, DType::F64, &[5], &[0.0; 5]));
    let mut losses = Vec::new();
    let started = Instant::now();
    for _ in 0..200 {
        let mut results = run(&step, &[&features, &labels, &weights, &velocity, &rate, &momentum]);
        losses.extend(results.pop());
        velocity = results.pop().unwrap();
        weights = results.pop().unwrap();
    }
    let last = doubles(losses.last().unwrap())[0];
    println!("200 training steps: {:?}", started.elapsed());
    assert!((doubles(&losses[0])[0] - std::f64::consts::LN_2).abs() < 1e-12);
    assert!(last < 0.3, "{last}");
}
