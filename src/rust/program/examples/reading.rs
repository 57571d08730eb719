//! What it costs to load a large program, to read all of it, and to rewrite it with older operations after a plugin refused it,
//! which includes both. Prints megabytes, milliseconds (the best of five) and the ratio of rewriting to the others together.
//!
//! cargo run --release --package pjrt-program --example reading [FILE...]

use pjrt_base::error::{Error, Kind, INVALID_ARGUMENT};
use pjrt_ir::module::Module;
use pjrt_ir::text;
use pjrt_program::program::{Format, Program};
use std::fmt::Write;
use std::time::Instant;

type Failure = Box<dyn std::error::Error>;

/// An operation that plugins of 2025 do not know.
const NEWER: &str = "  %a = stablehlo.constant dense<7> : tensor<2xi32>
  %b = chlo.mulhi %a, %a : tensor<2xi32>, tensor<2xi32> -> tensor<2xi32>
";

/// Milliseconds of the fastest of five calls.
fn time<T>(mut call: impl FnMut() -> Result<T, Failure>) -> Result<f64, Failure> {
    let mut best = f64::INFINITY;
    for _ in 0..5 {
        let start = Instant::now();
        drop(std::hint::black_box(call()?));
        best = best.min(start.elapsed().as_secs_f64() * 1e3);
    }
    Ok(best)
}

/// A function of so many operations, with a constant of a million numbers.
fn large(operations: usize) -> Result<String, Failure> {
    let mut text = String::from("func.func @main(%x: tensor<1000000xf32>) -> tensor<1000000xf32> {\n");
    write!(
        text,
        "  %c = stablehlo.constant dense<\"0x{}\"> : tensor<1000000xf32>\n  %0",
        "0000803F".repeat(1_000_000)
    )?;
    writeln!(text, " = stablehlo.add %x, %c : tensor<1000000xf32>")?;
    for i in 1..operations {
        let name = ["stablehlo.multiply", "stablehlo.subtract"][i % 2];
        writeln!(text, "  %{i} = {name} %{}, %c : tensor<1000000xf32>", i - 1)?;
    }
    writeln!(text, "  return %{} : tensor<1000000xf32>\n}}", operations - 1)?;
    Ok(text)
}

fn measure(name: &str, bytes: &[u8]) -> Result<(), Failure> {
    let read = || Ok(Program::new(bytes.to_vec(), Format::Mlir)?);
    let program = read()?;
    let refusal = Error::new(Kind::Pjrt(INVALID_ARGUMENT), "refused");
    let loads = time(read)?;
    let is_text = program.bytecode().is_none();
    let decodes = time(|| Ok(if is_text { text::whole(bytes)? } else { Module::decode(bytes)? }))?;
    let rewrites = time(|| Ok(read()?.rewritten(None, &refusal)?))?;
    let is_rewritten = program.rewritten(None, &refusal)?.is_some();
    println!(
        "{name:24} {:6.1} MB  load {loads:7.1}  read {decodes:7.1}  rewrite {rewrites:7.1} ({:.2}){}",
        bytes.len() as f64 / 1e6,
        rewrites / (loads + decodes),
        if is_rewritten { "" } else { " nothing to rewrite" }
    );
    Ok(())
}

fn main() -> Result<(), Failure> {
    let text = large(1_400_000)?;
    measure("text", text.as_bytes())?;
    let artifact = Program::new(text.clone().into_bytes(), Format::Mlir)?.to_portable(None)?;
    measure("artifact", artifact.ok_or("not text")?.code())?;
    measure("newer text", text.replace("  return", &format!("{NEWER}  return")).as_bytes())?;
    for path in std::env::args().skip(1) {
        measure(&path, &std::fs::read(&path)?)?;
    }
    Ok(())
}
