//! The cost of the plugin alone: the lower bound for bench/dispatch.R. Prints `name microseconds`, medians.
//! `PJRT_PLUGIN_PATH_CPU` names the plugin.

use pjrt_core::executable::execute::ExecuteOptions;
use pjrt_core::executable::options::CompileOptions;
use pjrt_core::{Buffer, Client, Executable, HostMemory, Plugin, PluginValue};
use pjrt_data::{array::Spec, dtype::DType};
use pjrt_program::program::Format;
use pjrt_program::program::Program;
use std::path::Path;
use std::time::Instant;

/// How many results R keeps until it collects garbage: of 2x2 and of 100x100, measured with R 4.2. Their memory is not in
/// the processor's cache any more when it is used again.
const KEPT_SMALL: usize = 4_800;
const KEPT_LARGE: usize = 600;

type Failure = Box<dyn std::error::Error>;

/// Results that are freed together once there are `most`.
struct Kept<T> {
    results: Vec<T>,
    most: usize,
}

impl<T> Kept<T> {
    fn new(most: usize) -> Self {
        Kept { results: Vec::with_capacity(most), most }
    }

    fn add(&mut self, result: T) {
        self.results.push(result);
        if self.results.len() == self.most {
            self.results.clear();
        }
    }
}

/// Median time of one call in microseconds, over five rounds of `n` calls.
fn time(n: u32, mut call: impl FnMut() -> Result<(), Failure>) -> Result<f64, Failure> {
    let mut rounds = Vec::new();
    for round in 0..6 {
        let start = Instant::now();
        for _ in 0..n {
            call()?;
        }
        if round > 0 {
            rounds.push(start.elapsed().as_secs_f64() * 1e6 / f64::from(n));
        }
    }
    rounds.sort_by(f64::total_cmp);
    Ok(rounds[rounds.len() / 2])
}

fn program(text: String) -> Result<Program, Failure> {
    Ok(Program::new(text.into_bytes(), Format::Mlir)?)
}

fn main() -> Result<(), Failure> {
    let plugin = Plugin::load(Path::new(&std::env::var("PJRT_PLUGIN_PATH_CPU")?))?;
    let client = Client::create(plugin, &[("cpu_device_count".into(), PluginValue::Int(1))])?;
    let device = client.devices().next().ok_or("no device")?;
    let upload = |dims: &[i64]| -> Result<Buffer, Failure> {
        let spec = Spec::new(DType::F32, dims)?;
        let memory = HostMemory::new(spec.bytes())?;
        // SAFETY: the block is this long.
        unsafe { std::ptr::write_bytes(memory.data(), 0, memory.len()) };
        Ok(Buffer::from_host(&device, spec, &memory)?)
    };
    let compile = |op: &str, size: u32| -> Result<Executable, Failure> {
        let t = format!("tensor<{size}x{size}xf32>");
        let text = format!("func.func @main(%x: {t}, %y: {t}) -> {t} {{\n{op}\n return %r : {t}\n}}").replace("T", &t);
        Ok(Executable::compile(std::slice::from_ref(&device), &program(text)?, &CompileOptions::default())?)
    };
    let options = ExecuteOptions::default();

    let add = compile(" %r = stablehlo.add %x, %y : T", 2)?;
    let x = upload(&[2, 2])?;
    for (name, keep) in [("execute", 1), ("execute_kept", KEPT_SMALL)] {
        let mut kept = Kept::new(keep);
        let took = time(20_000, || {
            kept.add(add.execute(&[&x, &x], &options)?);
            Ok(())
        })?;
        println!("{name} {took:.3}");
    }

    let t = "tensor<2x2xf32>";
    let arguments: Vec<_> = (1..=50).map(|i| format!("%a{i}: {t}")).collect();
    let text = format!(
        "func.func @main({}) -> {t} {{\n %r = stablehlo.add %a1, %a50 : {t}\n return %r : {t}\n}}",
        arguments.join(", ")
    );
    let wide = Executable::compile(std::slice::from_ref(&device), &program(text)?, &CompileOptions::default())?;
    let execute_50 = time(5_000, || {
        wide.execute(&[&x; 50], &options)?;
        Ok(())
    })?;
    println!("execute_50 {execute_50:.3}");

    let read = time(20_000, || {
        let out = add.execute(&[&x, &x], &options)?;
        let view = out[0].read()?;
        std::hint::black_box(view.bytes()[0]);
        Ok(())
    })?;
    println!("execute_read {read:.3}");

    let scalar = time(20_000, || upload(&[]).map(drop))?;
    println!("scalar {scalar:.3}");

    let step = compile(" %p = stablehlo.multiply %x, %y : T\n %r = stablehlo.add %p, %x : T", 100)?;
    let (a, b) = (upload(&[100, 100])?, upload(&[100, 100])?);
    let chains = [("chain_1000", false, 1), ("chain_1000_awaited", true, 1), ("chain_1000_kept", false, KEPT_LARGE)];
    for (name, is_awaited, keep) in chains {
        let mut kept = Kept::new(keep);
        let took = time(1, || {
            let mut value = a.clone();
            for _ in 0..1000 {
                let next = step.execute(&[&value, &b], &options)?.remove(0);
                if is_awaited {
                    next.wait()?;
                }
                kept.add(std::mem::replace(&mut value, next));
            }
            value.wait()?;
            Ok(())
        })?;
        println!("{name} {took:.1}");
    }
    pjrt_core::client::close_all();
    Ok(())
}
