//! The cost of moving data without R: the lower bound for bench/data.R. Prints `name microseconds`, medians.
//!
//! Kernels written for one case each, on one thread, in place of the general ones of `pjrt-core`: a matrix of 2000
//! (or 1000) rows in column-major order of doubles becomes a row-major one of the type, or the reverse. Uploads hand the
//! result over without a copy. `PJRT_PLUGIN_PATH_CPU` names the plugin.

use half::{bf16, f16};
use pjrt_core::{Buffer, Client, Device, HostMemory, Plugin, PluginValue};
use pjrt_data::{array::Spec, dtype::DType};
use std::fmt::Write;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

type Failure = Box<dyn std::error::Error>;

/// Median time of one call in microseconds, over five rounds of `n` calls; the results of the calls live until the end
/// of a round.
fn time<T>(n: usize, mut call: impl FnMut() -> Result<T, Failure>) -> Result<f64, Failure> {
    let mut rounds = Vec::new();
    for round in 0..6 {
        let mut kept = Vec::with_capacity(n);
        let start = Instant::now();
        for _ in 0..n {
            kept.push(call()?);
        }
        if round > 0 {
            rounds.push(start.elapsed().as_secs_f64() * 1e6 / n as f64);
        }
    }
    rounds.sort_by(f64::total_cmp);
    Ok(rounds[rounds.len() / 2])
}

/// Side of a block that is turned in registers: a line of doubles is one of the cache's.
const SIDE: usize = 8;

/// Side of a tile of such blocks, which touches few enough pages at a time.
const TILE: usize = 64;

/// `to[r * columns + c] = convert(from[c * rows + r])`; both lengths are multiples of [`SIDE`].
fn transpose<S: Copy + Default, D: Copy + Default>(from: &[S], to: &mut [D], rows: usize, convert: impl Fn(S) -> D) {
    let columns = from.len() / rows;
    let blocks = |first: usize, end: usize| (first..end.min(first + TILE)).step_by(SIDE);
    let mut turn = |row: usize, column: usize| {
        let mut block = [[S::default(); SIDE]; SIDE];
        for (c, line) in block.iter_mut().enumerate() {
            line.copy_from_slice(&from[(column + c) * rows + row..][..SIDE]);
        }
        for r in 0..SIDE {
            let line = &mut to[(row + r) * columns + column..][..SIDE];
            (0..SIDE).for_each(|c| line[c] = convert(block[c][r]));
        }
    };
    for row in (0..rows).step_by(TILE) {
        for column in (0..columns).step_by(TILE) {
            for r in blocks(row, rows) {
                blocks(column, columns).for_each(|c| turn(r, c));
            }
        }
    }
}

/// The elements that `memory` has room for.
fn elements<T>(memory: &mut Arc<HostMemory>) -> &mut [T] {
    // SAFETY: aligned to more than any element; the caller has the only reference.
    unsafe { std::slice::from_raw_parts_mut(memory.data().cast(), memory.len() / size_of::<T>()) }
}

struct Floor {
    device: Device,
}

impl Floor {
    fn hand_over(&self, dtype: DType, dims: &[i64], memory: &Arc<HostMemory>) -> Result<Buffer, Failure> {
        Ok(Buffer::from_host(&self.device, Spec::new(dtype, dims)?, memory)?)
    }

    /// Times the upload of a matrix of `rows` rows, into memory that each upload makes or into one that all reuse.
    fn upload<S: Copy + Default, D: Copy + Default>(
        &self,
        name: &str,
        dtype: DType,
        from: &[S],
        rows: usize,
        fresh: bool,
        convert: impl Fn(S) -> D,
    ) -> Result<(), Failure> {
        let dims = [rows as i64, (from.len() / rows) as i64];
        let mut memory = HostMemory::new(size_of::<D>() * from.len())?;
        let one = |memory: &mut Arc<HostMemory>| -> Result<Buffer, Failure> {
            transpose(from, elements::<D>(memory), rows, &convert);
            self.hand_over(dtype, &dims, memory)
        };
        let took = if fresh {
            time(4, || one(&mut HostMemory::new(size_of::<D>() * from.len())?))?
        } else {
            time(4, || one(&mut memory).map(drop))?
        };
        println!("upload_{name} {took:.2}");
        Ok(())
    }
}

impl Floor {
    /// Times the upload of a vector as floats, into memory that all uploads use.
    fn upload_vector(&self, name: &str, from: &[f64]) -> Result<(), Failure> {
        let mut memory = HostMemory::new(size_of::<f32>() * from.len())?;
        let took = time(4, || {
            elements::<f32>(&mut memory).iter_mut().zip(from).for_each(|(to, &x)| *to = x as f32);
            self.hand_over(DType::F32, &[from.len() as i64], &memory).map(drop)
        })?;
        println!("upload_{name} {took:.2}");
        Ok(())
    }
}

/// Times the way back: a row-major matrix into doubles in column-major order.
fn download<S: Copy + Default>(
    name: &str,
    from: &[S],
    rows: usize,
    fresh: bool,
    convert: impl Fn(S) -> f64,
) -> Result<(), Failure> {
    let columns = from.len() / rows;
    let mut to = vec![1.0; from.len()];
    let took = if fresh {
        time(4, || {
            let mut to = vec![0.0; from.len()];
            transpose(from, &mut to, columns, &convert);
            Ok(to)
        })?
    } else {
        time(4, || {
            transpose(from, &mut to, columns, &convert);
            black_box(&to);
            Ok(())
        })?
    };
    println!("download_{name} {took:.2}");
    Ok(())
}

fn main() -> Result<(), Failure> {
    let plugin = Plugin::load(Path::new(&std::env::var("PJRT_PLUGIN_PATH_CPU")?))?;
    let client = Client::create(plugin, &[("cpu_device_count".into(), PluginValue::Int(1))])?;
    let floor = Floor { device: client.devices().next().ok_or("no device")? };
    // Numbers of all magnitudes around one, the same in every run.
    let doubles: Vec<f64> = (1..=10_000_000).map(|i| (f64::from(i) * 0.618).fract() * 4.0 - 2.0).collect();
    let floats: Vec<f32> = doubles.iter().map(|&x| x as f32).collect();
    let (small, small_floats) = (&doubles[..1_000_000], &floats[..1_000_000]);

    let memory = HostMemory::new(80_000_000)?;
    // SAFETY: its own length.
    unsafe { memory.data().write_bytes(0, memory.len()) };
    for (name, dtype, dims) in [
        ("scalar", DType::F32, &[][..]),
        ("buffer_1", DType::F32, &[1]),
        ("alias_1e7_f64", DType::F64, &[10_000_000]),
        ("alias_1e7_i32", DType::I32, &[10_000_000]),
    ] {
        println!("{name} {:.3}", time(5000, || floor.hand_over(dtype, dims, &memory).map(drop))?);
    }
    let tiny = floor.hand_over(DType::F32, &[2, 2], &memory)?;
    println!("as_array_2x2 {:.3}", time(5000, || Ok(black_box(tiny.read()?.bytes()[0])))?);

    floor.upload("1e6_f32", DType::F32, small, 1000, false, |x| x as f32)?;
    floor.upload("1e6_f64", DType::F64, small, 1000, false, |x| x)?;
    floor.upload("1e6_f16", DType::F16, small, 1000, false, f16::from_f64)?;
    floor.upload("1e6_bf16", DType::BF16, small, 1000, false, bf16::from_f64)?;
    for (state, fresh) in [("fresh", true), ("warm", false)] {
        floor.upload(&format!("1e7_f32_{state}"), DType::F32, &doubles, 2000, fresh, |x| x as f32)?;
        floor.upload(&format!("1e7_f64_{state}"), DType::F64, &doubles, 2000, fresh, |x| x)?;
        download(&format!("1e7_f32_{state}"), &floats, 2000, fresh, f64::from)?;
    }
    let integers: Vec<i32> = (0..10_000_000).collect();
    floor.upload("1e7_i32_warm", DType::I32, &integers, 2000, false, |x| x)?;
    floor.upload_vector("vector_1e7_f32_warm", &doubles)?;
    download("1e6_f32", small_floats, 1000, false, f64::from)?;
    download("1e6_f64", small, 1000, false, |x| x)?;

    let mut copy = vec![1.0f32; floats.len()];
    let warm = time(4, || {
        copy.copy_from_slice(&floats);
        black_box(&copy);
        Ok(())
    })?;
    println!("memcpy_40mb_warm {warm:.0}");
    println!("memcpy_40mb_fresh {:.0}", time(4, || Ok(floats.clone()))?);

    let mut text = String::with_capacity(16_000_000);
    let format = time(1, || {
        text.clear();
        Ok(small_floats.iter().try_for_each(|x| write!(text, "{x:.8e}"))?)
    })?;
    println!("format_1e6 {format:.0}");
    pjrt_core::client::close_all();
    Ok(())
}
