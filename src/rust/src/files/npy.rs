//! Array files of NumPy: loads their arrays as buffers.

use crate::arrays::dtype;
use crate::files::stored;
use crate::memory;
use crate::r::conditions::Result;
use crate::r::progress::Bar;
use crate::r::sexp::{self, Protected};
use extendr_api::prelude::*;
use extendr_ffi::SEXPTYPE;
use pjrt_base::counted::counted;
use pjrt_base::error::{self, Error, Kind};
use pjrt_base::mmap;
use pjrt_core::numpy::{ArrayFile, NpyArray};
use pjrt_core::stored::{Loading, Stored};
use pjrt_core::Device;
use pjrt_data::dtype::DType;
use std::path::Path;

/// Files that are open at a time. More stay open only if a device uses their memory.
const TOGETHER: usize = 32;

/// The size in bytes from which an array with a file of its own is used in place: a mapped file stays open.
const WORTH_A_FILE: usize = 32 << 10;

/// Loads the array of a file, or the arrays of an archive with these names or all. Names are NULL for a file with one
/// array.
pub fn npy_load(path: &str, device: &Device, names: Robj, dtype: Robj, show: bool, columns: i32) -> Result<Robj> {
    let dtype = if dtype.is_null() { None } else { Some(dtype::parse(sexp::of(&dtype), None)?) };
    memory::collect_under_pressure(device.client())?;
    let file = ArrayFile::open(Path::new(path))?;
    let chosen = positions(&file, path, names.as_str_vector())?;
    let arrays = chosen.iter().map(|&i| file.array(i, dtype)).collect::<error::Result<Vec<_>>>()?;
    check_type(&arrays, dtype)?;
    let loading = Loading::new(arrays.iter().map(|array| array.stored(true)).collect(), device)?;
    let bar = Bar::of_long_work("loading", show, usize::try_from(columns).unwrap_or(0));
    let list = Protected::new(stored::load_all(&loading, device, bar)?);
    let known: Vec<&str> = file.names().collect();
    let names: Robj =
        if file.is_archive() { chosen.iter().map(|&i| known[i]).collect::<Vec<_>>().into() } else { ().into() };
    let others = file.others().to_vec();
    Ok(list!(buffers = sexp::robj(list.sexp()), names = names, others = others).into())
}

/// Loads the arrays of many files with one array each.
pub fn npy_load_files(paths: Vec<String>, device: &Device, show: bool, columns: i32) -> Result<Robj> {
    memory::collect_under_pressure(device.client())?;
    let list = Protected::new(sexp::vector(SEXPTYPE::VECSXP, paths.len()));
    let total: u64 = paths.iter().filter_map(|path| std::fs::metadata(path).ok()).map(|file| file.len()).sum();
    let mut bar = Bar::of_long_work("loading", show, usize::try_from(columns).unwrap_or(0));
    let mut done = 0;
    for (i, paths) in paths.chunks(TOGETHER).enumerate() {
        let array = |path: &String| {
            let file = ArrayFile::open(Path::new(path))?;
            ensure!(!file.is_archive(), NpyInvalid, "'{path}' is an archive, where a single array is expected.");
            file.array(0, None)
        };
        let arrays = paths.iter().map(array).collect::<error::Result<Vec<_>>>()?;
        let loading = Loading::new(arrays.iter().map(in_place_if_large).collect(), device)?;
        stored::load(list.sexp(), i * TOGETHER, &loading, device, &mut |moved| bar.show(done + moved, Some(total)))?;
        done += arrays.iter().map(|array| array.spec().bytes() as u64).sum::<u64>();
    }
    bar.finish();
    Ok(sexp::robj(list.sexp()))
}

fn in_place_if_large(array: &NpyArray) -> Stored<'_> {
    array.stored(array.spec().bytes() >= WORTH_A_FILE && mmap::has_room_for_files())
}

/// The positions of the arrays with these names.
fn positions(file: &ArrayFile, path: &str, names: Option<Vec<&str>>) -> Result<Vec<usize>> {
    let known: Vec<&str> = file.names().collect();
    let Some(names) = names else { return Ok((0..known.len()).collect()) };
    ensure!(file.is_archive(), InvalidInput, "`names` must be NULL: '{path}' has one array, without a name.");
    let position = |name: &&str| match known.iter().position(|known| known == name) {
        Some(position) => Ok(position),
        None => Err(unknown(name, &known).into()),
    };
    names.iter().map(position).collect()
}

#[cold]
fn unknown(name: &str, known: &[&str]) -> Error {
    const SHOWN: usize = 10;
    let error = Error::new(Kind::InvalidInput, format!("The file has no array \"{name}\"."));
    let mut shown: Vec<String> = known.iter().take(SHOWN).map(|name| format!("\"{name}\"")).collect();
    if known.len() > SHOWN {
        shown.push("...".into());
    }
    match known.len() {
        0 => error.hint("It has no arrays."),
        n => error.hint(format!("It has {}: {}.", counted(n, "array"), shown.join(", "))),
    }
}

/// Refuses a type that is not that of any array, since arrays are not converted.
fn check_type(arrays: &[NpyArray], dtype: Option<DType>) -> Result<()> {
    let Some(dtype) = dtype else { return Ok(()) };
    let other = arrays.iter().map(|array| array.spec().dtype).find(|&other| other != dtype);
    match other {
        Some(other) if arrays.iter().all(|array| array.has_type()) => {
            bail!(InvalidInput, "`dtype` is {dtype}, but the file says that its elements are {other}.")
        }
        _ => Ok(()),
    }
}
