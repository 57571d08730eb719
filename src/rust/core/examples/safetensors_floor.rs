//! The cost of only reading and writing the bytes: the lower bound for bench/safetensors.R. Prints `name microseconds`,
//! medians. `PJRT_BENCH_FOLDER` names the folder with the files.

use std::fs::{self, File};
use std::hint::black_box;
use std::io::{Read, Write};
use std::path::Path;
use std::time::Instant;

type Failure = Box<dyn std::error::Error>;

/// Median time of a call in microseconds.
fn time<T>(mut call: impl FnMut() -> Result<T, Failure>) -> Result<f64, Failure> {
    let mut times = Vec::new();
    for round in 0..10 {
        let start = Instant::now();
        let made = call()?;
        if round > 0 {
            times.push(start.elapsed().as_secs_f64() * 1e6);
        }
        drop(black_box(made));
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

fn main() -> Result<(), Failure> {
    let folder = std::env::var("PJRT_BENCH_FOLDER")?;
    let file = Path::new(&folder).join("unaligned.safetensors");
    let mut memory = fs::read(&file)?;
    let warm = time(|| Ok(File::open(&file)?.read_exact(&mut memory)?))?;
    let fresh = time(|| Ok(fs::read(&file)?))?;
    let plain = Path::new(&folder).join("plain");
    let write = || {
        let mut file = File::create(&plain)?;
        Ok(memory.chunks(4 << 20).try_for_each(|piece| file.write_all(piece))?)
    };
    let over = time(write)?;
    let new = time(|| {
        fs::remove_file(&plain)?;
        write()
    })?;
    println!("load_aligned {warm}\nload_unaligned_warm {warm}\nload_unaligned_fresh {fresh}\nsave_new {new}\nsave_over {over}");
    Ok(())
}
