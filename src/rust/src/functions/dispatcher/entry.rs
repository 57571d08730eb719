//! What was compiled for one key.

use super::request::{data_type_name, Aval, Request};
use super::{identical, Call, Dispatcher};
use crate::arrays::dtype;
use crate::functions::tree::leaves_in_words;
use crate::r::conditions::{Failure, Result};
use crate::r::describe::describe;
use crate::r::handle::{self, Owned};
use crate::r::sexp::{self, Protected};
use extendr_ffi::*;
use pjrt_base::counted::counted;
use pjrt_base::error::{Error, Kind};
use pjrt_core::{Buffer, Client, Device, Executable};
use pjrt_data::array::Spec;
use pjrt_data::dtype::{DType, HostType};
use pjrt_data::tree::Tree;
use std::cell::Cell;

pub struct CompiledCall {
    tree: Tree,
    avals: Vec<Option<Aval>>,
    device_id: Option<usize>,
    /// `None` if an R function runs instead.
    pub program: Option<Program>,
    /// Its R objects, and where the dispatcher's list holds them while the entry is live: until the dispatcher removes it.
    pub kept: SEXP,
    pub place: usize,
    pub is_live: Cell<bool>,
    pub last_use: Cell<u64>,
}

pub struct Program {
    pub executable: Executable,
    pub device: Device,
    /// Whether each output is ambiguous.
    pub ambiguous: Vec<bool>,
    /// The type to upload each input at, if it is R data; empty for the default types.
    pub input_dtypes: Vec<Option<DType>>,
    /// Buffers that every call makes, for the program to take over.
    pub phantoms: Vec<Spec>,
}

// R objects of an entry, in a list.
const STATICS: usize = 0;
const CONTEXT: usize = 1;
/// The R function of other backends.
pub const FUNCTION: usize = 2;
pub const DEVICE: usize = 3;
pub const OUT_TREE: usize = 4;
pub const CONSTANTS: usize = 5;
/// The shapes of the outputs.
pub const SHAPES: usize = 6;
/// All that `compile` returned.
const COMPILED: usize = 7;
const KEPT: usize = 8;

/// The R objects of a new entry; not protected. R may leave this by a long jump.
pub fn new_kept(call: &Call, request: &Request, compiled: SEXP) -> Result<SEXP> {
    if sexp::kind(compiled) != SEXPTYPE::VECSXP {
        bail!(InvalidType, "compile callback must return a list, not {}.", describe(compiled));
    }
    let kept = Protected::new(sexp::vector(SEXPTYPE::VECSXP, KEPT));
    let statics = sexp::vector(SEXPTYPE::VECSXP, request.statics().count());
    sexp::set_at(kept.sexp(), STATICS, statics);
    request.statics().enumerate().for_each(|(i, value)| sexp::set_at(statics, i, value));
    sexp::set_at(kept.sexp(), CONTEXT, call.context);
    sexp::set_at(kept.sexp(), COMPILED, compiled);
    if !call.dispatcher.is_pjrt() {
        let function = field(compiled, "r_fun");
        // SAFETY: only asks for the type.
        if unsafe { Rf_isFunction(function) } == Rboolean::FALSE {
            bail!(InvalidType, "compile callback must return a function `r_fun`, not {}.", describe(function));
        }
        sexp::set_at(kept.sexp(), FUNCTION, function);
        return Ok(kept.sexp());
    }
    let executable: &Executable = required(compiled, "exec")?;
    required::<Client>(compiled, "client")?;
    required::<Device>(compiled, "device")?;
    required::<Tree>(compiled, "out_tree")?;
    sexp::set_at(kept.sexp(), DEVICE, field(compiled, "device"));
    sexp::set_at(kept.sexp(), OUT_TREE, field(compiled, "out_tree"));
    sexp::set_at(kept.sexp(), CONSTANTS, optional_list(compiled, "const_arrays")?);
    let outputs = &executable.signature().outputs;
    let shapes = sexp::list(outputs.iter().map(|spec| sexp::new_whole_numbers(&spec.dims)));
    sexp::set_at(kept.sexp(), SHAPES, shapes);
    Ok(kept.sexp())
}

/// An element of the compile callback's result; nil for none.
fn field(compiled: SEXP, name: &str) -> SEXP {
    sexp::element(compiled, name).unwrap_or_else(sexp::nil)
}

fn required<'a, T: Owned>(compiled: SEXP, name: &str) -> Result<&'a T> {
    let value = field(compiled, name);
    handle::get(value, name).map_err(|_| {
        let class = T::CLASS.to_string_lossy();
        let article = if class.starts_with('R') { "an" } else { "a" };
        let message = format!("compile callback must return `{name}` ({article} {class}), not {}.", describe(value));
        Failure(Error::new(Kind::InvalidInput, message))
    })
}

/// A list, or nil.
fn optional_list(compiled: SEXP, name: &str) -> Result<SEXP> {
    let value = field(compiled, name);
    if !sexp::is_nil(value) && (sexp::kind(value) != SEXPTYPE::VECSXP || sexp::is_object(value)) {
        bail!(InvalidType, "compile callback must return `{name}` (a list), not {}.", describe(value));
    }
    Ok(value)
}

impl CompiledCall {
    /// The entry for a request. `kept` is its [`new_kept`].
    ///
    /// # Errors
    /// `InvalidInput` if the compile callback's result does not fit.
    pub fn new(call: &Call, request: &Request, kept: SEXP) -> Result<CompiledCall> {
        let program =
            if call.dispatcher.is_pjrt() { Some(Program::new(call.dispatcher, request, kept)?) } else { None };
        Ok(CompiledCall {
            tree: request.walked.tree.clone(),
            avals: request.leaves.iter().map(|leaf| leaf.aval.clone()).collect(),
            device_id: request.device_id,
            program,
            kept,
            place: 0,
            is_live: Cell::new(false),
            last_use: Cell::new(0),
        })
    }

    /// The entry at its place in the dispatcher's list.
    pub fn at(self, place: usize) -> CompiledCall {
        CompiledCall { place, is_live: Cell::new(true), ..self }
    }

    pub fn touch(&self, clock: &Cell<u64>) {
        clock.set(clock.get() + 1);
        self.last_use.set(clock.get());
    }

    /// Whether this was compiled for such arguments. The caller protects its R objects. R may leave this by a long jump.
    pub fn is_for(&self, request: &Request, context: SEXP) -> bool {
        let statics = sexp::at(self.kept, STATICS);
        self.device_id == request.device_id
            && self.avals.iter().eq(request.leaves.iter().map(|leaf| &leaf.aval))
            && self.tree == request.walked.tree
            && identical(sexp::at(self.kept, CONTEXT), context)
            && request.statics().enumerate().all(|(i, value)| identical(sexp::at(statics, i), value))
    }
}

impl Program {
    fn new(dispatcher: &Dispatcher, request: &Request, kept: SEXP) -> Result<Program> {
        let compiled = sexp::at(kept, COMPILED);
        let executable: &Executable = required(compiled, "exec")?;
        let device: &Device = required(compiled, "device")?;
        let (leaves, returned) = (required::<Tree>(compiled, "out_tree")?.size(), executable.signature().outputs.len());
        if leaves != returned {
            let (leaves, outputs) = (leaves_in_words(leaves), counted(returned, "output"));
            bail!(InvalidInput, "out_tree has {leaves} but the executable returned {outputs}.");
        }
        let avals = field(compiled, "out_avals");
        if sexp::kind(avals) != SEXPTYPE::VECSXP {
            bail!(InvalidType, "compile callback must return `out_avals` (a list), not {}.", describe(avals));
        }
        if sexp::len(avals) != leaves {
            let (length, leaves) = (sexp::len(avals), leaves_in_words(leaves));
            bail!(InvalidInput, "out_avals has length {length} but out_tree has {leaves}.");
        }
        for (i, constant) in sexp::elements(sexp::at(kept, CONSTANTS)).enumerate() {
            if handle::get::<Buffer>(constant, "constant").is_err() {
                bail!(InvalidType, "`const_arrays[[{}]]` must be a PJRTBuffer, not {}.", i + 1, describe(constant));
            }
        }
        let is_ambiguous = |aval| sexp::flag(field(aval, "ambiguous")).unwrap_or(false);
        Ok(Program {
            executable: executable.clone(),
            device: device.clone(),
            ambiguous: sexp::elements(avals).map(is_ambiguous).collect(),
            input_dtypes: input_dtypes(dispatcher, request, field(compiled, "input_dtypes"))?,
            phantoms: phantoms(optional_list(compiled, "phantom_specs")?)?,
        })
    }
}

fn phantoms(specs: SEXP) -> Result<Vec<Spec>> {
    let phantom = |(i, spec): (usize, SEXP)| {
        let (dtype, shape) = (field(spec, "dtype"), field(spec, "shape"));
        let dtype = match dtype::given(dtype)? {
            Some(dtype) => dtype,
            None => bail!(
                InvalidType,
                "`phantom_specs[[{}]]` must be a list with `dtype` and `shape`, but its `dtype` is {}.",
                i + 1,
                describe(dtype)
            ),
        };
        match sexp::whole_numbers(shape) {
            Some(dims) if dims.iter().all(|&dim| dim >= 0) => Ok(Spec::new(dtype, &dims)?),
            _ => bail!(InvalidType, "The `shape` of `phantom_specs[[{}]]` is {}.", i + 1, describe(shape)),
        }
    };
    sexp::elements(specs).enumerate().map(phantom).collect()
}

/// The types to upload R data at, from `input_dtypes`.
fn input_dtypes(dispatcher: &Dispatcher, request: &Request, given: SEXP) -> Result<Vec<Option<DType>>> {
    let count = request.inputs().count();
    if sexp::is_nil(given) {
        let first = request.inputs().position(|(leaf, _)| leaf.data.is_some());
        return match first.filter(|_| dispatcher.is_newer) {
            Some(i) => bail!(InvalidInput, "`input_dtypes` is required, because input {} is bare R data.", i + 1),
            None => Ok(Vec::new()),
        };
    }
    if sexp::kind(given) != SEXPTYPE::STRSXP {
        bail!(InvalidType, "`input_dtypes` must be a character vector, not {}.", describe(given));
    }
    if sexp::len(given) != count {
        bail!(InvalidInput, "`input_dtypes` has {} entries but the call supplies {count}.", sexp::len(given));
    }
    let mut dtypes = Vec::with_capacity(count);
    for (i, (leaf, _)) in request.inputs().enumerate() {
        let number = i + 1;
        // SAFETY: a character vector with an element for each input, which the caller protects.
        let (name, is_missing) = unsafe {
            let element = STRING_ELT(given, i as R_xlen_t);
            (sexp::text(element).unwrap_or_default(), element == R_NaString)
        };
        dtypes.push(match leaf.data {
            None if is_missing => None,
            None => bail!(
                InvalidInput,
                "`input_dtypes[[{number}]]` declares dtype \"{name}\" for an array input; it must be NA."
            ),
            Some(_) if is_missing => {
                bail!(InvalidInput, "`input_dtypes[[{number}]]` is NA for a bare R input.")
            }
            Some(host_type) => {
                let Some(dtype) = DType::parse(name).ok().filter(|&dtype| data_type_name(dtype).is_some()) else {
                    bail!(
                        InvalidInput,
                        "`input_dtypes[[{number}]]` is \"{name}\", which is not a dtype anvl can represent."
                    );
                };
                ensure!(
                    can_upload(host_type, dtype),
                    InvalidInput,
                    "`input_dtypes[[{number}]]` is \"{name}\", which input {number} cannot be uploaded at: it is {}.",
                    described(host_type)
                );
                Some(dtype)
            }
        });
    }
    Ok(dtypes)
}

fn can_upload(host_type: HostType, dtype: DType) -> bool {
    let is_complex = dtype.info().host_type == HostType::Complex;
    match host_type {
        HostType::Logical => dtype == DType::Pred,
        HostType::Integer => dtype != DType::Pred && !is_complex,
        _ => !is_complex,
    }
}

/// The type of R data, as R calls it.
pub fn described(host_type: HostType) -> &'static str {
    match host_type {
        HostType::Logical => "logical",
        HostType::Integer => "integer",
        _ => "double",
    }
}
