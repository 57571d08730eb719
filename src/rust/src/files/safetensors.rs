//! Model files: loads their tensors as buffers, and saves buffers to files.

use crate::arrays::buffer;
use crate::files::stored;
use crate::memory;
use crate::r::conditions::{flag, Result};
use crate::r::handle;
use crate::r::progress::Bar;
use crate::r::sexp::{self, Protected};
use extendr_api::prelude::*;
use extendr_ffi::{SEXP, SEXPTYPE};
use pjrt_core::safetensors::{save, saved_bytes, Metadata, Model, Saving};
use pjrt_core::stored::Loading;
use pjrt_core::Device;
use std::cell::RefCell;
use std::collections::HashMap;
use std::path::Path;
use std::rc::Rc;

/// An open model, and the device for its tensors.
pub struct OpenFile {
    /// `None` once it is closed.
    model: RefCell<Option<Rc<Model>>>,
    device: Option<Device>,
}

owned!(OpenFile, c"PJRTSafetensors");

impl OpenFile {
    /// The model, unless it is closed.
    pub fn model(&self) -> Result<Rc<Model>> {
        match &*self.model.borrow() {
            Some(model) => Ok(model.clone()),
            None => bail!(InvalidInput, "The safetensors file is closed."),
        }
    }
}

/// Opens a model for a device, or for none.
pub fn safetensors_open(path: &str, device: Option<&Device>) -> Result<Robj> {
    let model = Model::open(Path::new(path))?;
    Ok(handle::object(OpenFile { model: RefCell::new(Some(Rc::new(model))), device: device.cloned() }))
}

/// Closes it. Loaded tensors stay.
pub fn safetensors_close(file: &OpenFile) -> Result<Robj> {
    drop(file.model.take());
    Ok(().into())
}

/// The names of its tensors.
pub fn safetensors_names(file: &OpenFile) -> Result<Robj> {
    Ok(file.model()?.names().collect::<Vec<_>>().into())
}

/// Its metadata as names and values, or NULL.
pub fn safetensors_metadata(file: &OpenFile) -> Result<Robj> {
    let model = file.model()?;
    let Some(metadata) = model.metadata() else { return Ok(().into()) };
    let (names, values): (Vec<_>, Vec<_>) =
        metadata.iter().map(|(name, value)| (name.as_str(), value.as_str())).unzip();
    Ok(list!(names = names, values = values).into())
}

/// Information about it, as a list; NULL if it is closed.
pub fn safetensors_summary(open: &OpenFile) -> Result<Robj> {
    let Ok(model) = open.model() else { return Ok(().into()) };
    Ok(list!(
        path = model.path().to_string_lossy().as_ref(),
        tensors = model.len() as f64,
        files = if model.is_index() { model.files() as f64 } else { f64::NAN },
        device = open.device.as_ref().map(|device| device.label().to_owned())
    )
    .into())
}

/// The contents of its headers, as columns; `file` is NULL unless there is an index.
pub fn safetensors_describe(file: &OpenFile) -> Result<List> {
    let model = file.model()?;
    let tensors = (0..model.len()).map(|i| Ok(model.tensor(i)?)).collect::<Result<Vec<_>>>()?;
    let shape = |dims: &[i64]| sexp::robj(sexp::new_whole_numbers(dims));
    let files = || (0..model.len()).map(|i| model.file_name(i)).collect::<Vec<_>>();
    Ok(list!(
        name = model.names().collect::<Vec<_>>(),
        dtype = tensors.iter().map(|tensor| tensor.dtype_name()).collect::<Vec<_>>(),
        shape = List::from_values(tensors.iter().map(|tensor| shape(&tensor.dims))),
        bytes = tensors.iter().map(|tensor| tensor.bytes as f64).collect::<Vec<_>>(),
        offset = tensors.iter().map(|tensor| tensor.start as f64).collect::<Vec<_>>(),
        file = if model.is_index() { Robj::from(files()) } else { ().into() }
    ))
}

/// `safetensors_load(file, positions, show, columns)`: tensors, given by their positions from 1, as a list of buffers.
/// With `show`, long work shows its progress on a console of `columns`.
pub fn safetensors_load(file: SEXP, positions: SEXP, show: SEXP, columns: SEXP) -> Result<SEXP> {
    let open: &OpenFile = handle::get(file, "x")?;
    let Some(device) = &open.device else { bail!(Internal, "The file was opened without a device.") };
    let show = flag(show, "show")?;
    let columns = sexp::number(columns).unwrap_or(0.0) as usize;
    memory::collect_under_pressure(device.client())?;
    let all = Protected::new(sexp::vector(SEXPTYPE::VECSXP, sexp::len(positions)));

    let model = open.model()?;
    // SAFETY: R protects the argument.
    let tensors = unsafe { sexp::integers(positions) };
    let (stored, places) = distinct(tensors.iter().map(|&position| model.stored_at(position as usize - 1)));
    let loading = Loading::new(model.stored(&stored)?, device)?;
    let bar = Bar::of_long_work("loading", show, columns);
    let list = Protected::new(stored::load_all(&loading, device, bar)?);
    places.iter().enumerate().for_each(|(i, &place)| sexp::set_at(all.sexp(), i, sexp::at(list.sexp(), place)));
    Ok(all.sexp())
}

/// Positions without duplicates, and for each position its place among them.
fn distinct(positions: impl Iterator<Item = usize>) -> (Vec<usize>, Vec<usize>) {
    let (mut found, mut known) = (Vec::new(), HashMap::new());
    let place = |position| {
        *known.entry(position).or_insert_with(|| {
            found.push(position);
            found.len() - 1
        })
    };
    let places = positions.map(place).collect();
    (found, places)
}

/// Saves buffers by name, and returns the path to load them from. A negative limit of a file's size means no limit.
#[allow(clippy::too_many_arguments)]
pub fn safetensors_save(
    tensors: List,
    names: Vec<String>,
    path: &str,
    metadata_names: Vec<String>,
    metadata_values: Vec<String>,
    max_shard_size: f64,
    show: bool,
    columns: i32,
) -> Result<Robj> {
    let mut buffers = Vec::with_capacity(names.len());
    for (name, tensor) in names.into_iter().zip(tensors.values()) {
        buffers.push((name, buffer::get(sexp::of(&tensor))?.clone()));
    }
    let metadata: Metadata = metadata_names.into_iter().zip(metadata_values).collect();
    let total = saved_bytes(&buffers);
    let saving = Saving {
        path: Path::new(path),
        metadata: &metadata,
        max_shard_size: (max_shard_size >= 0.0).then_some(max_shard_size as u64),
    };
    let mut bar = Bar::of_long_work("saving", show, usize::try_from(columns).unwrap_or(0));
    let saved = save(&buffers, &saving, &mut |done| bar.show(done, Some(total)));
    bar.finish();
    Ok(saved?.to_string_lossy().as_ref().into())
}
