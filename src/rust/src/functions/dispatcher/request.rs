//! The arguments of one call: their structure, and what each leaf is.

use super::entry::described;
use super::{identical, Call};
use crate::arrays::{buffer, dtype};
use crate::functions::tree::{self, Walked};
use crate::r::conditions::{Failure, Result};
use crate::r::describe::describe;
use crate::r::lists;
use crate::r::sexp::{self, Protected};
use extendr_ffi::*;
use pjrt_base::error::{Error, Kind};
use pjrt_data::convert::NA_INTEGER;
use pjrt_data::dtype::{DType, HostType};
use pjrt_data::hash::Mixer;
use smallvec::SmallVec;
use std::sync::atomic::{AtomicPtr, Ordering};

/// What a program must know of an input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Aval {
    /// Whether it is R data; not told apart from arrays in the older dialect.
    pub is_data: bool,
    pub dtype: DType,
    pub dims: SmallVec<[i64; 4]>,
    pub ambiguous: bool,
}

/// A leaf of the arguments.
pub struct Leaf {
    /// The content of an array, R data, or the value of a static argument.
    pub value: SEXP,
    /// The type of R data.
    pub data: Option<HostType>,
    /// The device of an array.
    device: Option<SEXP>,
    /// `None` for a static argument.
    pub aval: Option<Aval>,
}

/// The arguments of one call. Their R objects are the call's.
pub struct Request {
    pub walked: Walked,
    pub leaves: SmallVec<[Leaf; 8]>,
    /// The device of the arrays, or else the default device; `None` if the call needs none, or if nobody asked yet.
    pub device: Option<SEXP>,
    /// The number of that device.
    pub device_id: Option<usize>,
    /// Of the key.
    pub hash: u64,
}

impl Request {
    /// Owns memory, so no R function is called here.
    pub fn of(call: &Call) -> Result<Request> {
        let mut request = Request {
            walked: tree::walk::<true>(call.args)?,
            leaves: SmallVec::new(),
            device: None,
            device_id: None,
            hash: 0,
        };
        let mask = if call.dispatcher.statics.is_empty() {
            Vec::new()
        } else {
            request.walked.tree.leaf_mask(&tree::set(&call.dispatcher.statics))
        };
        for i in 0..request.walked.leaves.len() {
            let x = request.walked.leaves[i];
            let leaf = if mask.get(i).is_some_and(|&is_static| is_static) {
                if is_array(x) {
                    let path = request.path(i);
                    bail!(InvalidInput, "invalid static input `{path}`: a static argument must not be an AnvlArray.");
                }
                Leaf { value: x, data: None, device: None, aval: None }
            } else if is_array(x) {
                request.array(call, i, x)?
            } else {
                request.data(call, i, x)?
            };
            request.leaves.push(leaf);
        }
        if request.device.is_none() && !call.dispatcher.move_inputs {
            request.device = call.device;
        }
        Ok(request)
    }

    /// That all arrays are on one device. R may leave this by a long jump.
    ///
    /// # Errors
    /// `DeviceMismatch` otherwise.
    pub fn check_devices(&self) -> Result<()> {
        let Some(first) = self.device else { return Ok(()) };
        for (i, leaf) in self.leaves.iter().enumerate() {
            if leaf.device.is_some_and(|device| !identical(device, first)) {
                let path = self.path(i);
                bail!(DeviceMismatch, "invalid input `{path}`: it lives on a different device than an earlier input.");
            }
        }
        Ok(())
    }

    /// Completes the key. R may leave this by a long jump.
    pub fn set_key(&mut self, device_id: Option<usize>, context: SEXP) {
        self.device_id = device_id;
        let mut mixer = Mixer::default();
        mixer.word(self.walked.tree.hash());
        mixer.word(device_id.map_or(u64::MAX, |id| id as u64));
        mix_value(&mut mixer, context);
        for leaf in &self.leaves {
            match &leaf.aval {
                None => mix_value(&mut mixer, leaf.value),
                Some(aval) => {
                    let flags = u64::from(aval.is_data) | u64::from(aval.ambiguous) << 1;
                    mixer.word((aval.dtype as u64) << 2 | flags | (aval.dims.len() as u64) << 16);
                    aval.dims.iter().for_each(|&dim| mixer.word(dim as u64));
                }
            }
        }
        self.hash = mixer.finish();
    }

    /// The values of static arguments.
    pub fn statics(&self) -> impl Iterator<Item = SEXP> + '_ {
        self.leaves.iter().filter(|leaf| leaf.aval.is_none()).map(|leaf| leaf.value)
    }

    /// The leaves that are inputs, with their avals.
    pub fn inputs(&self) -> impl Iterator<Item = (&Leaf, &Aval)> + '_ {
        self.leaves.iter().filter_map(|leaf| leaf.aval.as_ref().map(|aval| (leaf, aval)))
    }

    fn array(&mut self, call: &Call, i: usize, x: SEXP) -> Result<Leaf> {
        let fields = Fields::of(x);
        let backend = &call.dispatcher.backend;
        // SAFETY: the array holds its fields.
        let got = unsafe { sexp::string(fields.backend) };
        if got != Some(backend) {
            let got = got.map_or_else(|| describe(fields.backend), |got| format!("\"{got}\""));
            return Err(self.invalid(i, &format!("expected an AnvlArray of backend \"{backend}\"; got {got}")));
        }
        if sexp::is_nil(fields.device) {
            return Err(self.invalid(i, "an AnvlArray must carry $device"));
        }
        let mut ambiguous = sexp::flag(fields.ambiguous).unwrap_or(false);
        let mut device = fields.device;
        let (dtype, dims): (_, SmallVec<[i64; 4]>) = if call.dispatcher.is_pjrt() {
            let Ok(data) = buffer::get(fields.data) else {
                let problem = format!("its `$data` must be a PJRTBuffer, not {}", describe(fields.data));
                return Err(self.invalid(i, &problem));
            };
            (known(data.dtype()), data.dims().into())
        } else {
            let facts = Fields::of(sexp::at(call.extracted, i));
            let Some(dims) = sexp::whole_numbers(facts.shape) else {
                return Err(self.invalid(i, "`extractor` must return a list with `dtype` and `shape`"));
            };
            ambiguous = sexp::flag(facts.ambiguous).unwrap_or(false);
            if !sexp::is_nil(facts.device) {
                device = facts.device;
            }
            (dtype::given(facts.dtype).ok().flatten().and_then(known), dims.into())
        };
        let Some(dtype) = dtype else { return Err(self.invalid(i, "its dtype is not one anvl can represent")) };
        if !call.dispatcher.move_inputs {
            self.device.get_or_insert(device);
        }
        let ambiguous = ambiguous && !call.dispatcher.is_newer;
        let aval = Aval { is_data: false, dtype, dims, ambiguous };
        Ok(Leaf { value: fields.data, data: None, device: Some(device), aval: Some(aval) })
    }

    fn data(&self, call: &Call, i: usize, x: SEXP) -> Result<Leaf> {
        // SAFETY: the caller protects the arguments.
        let dims: SmallVec<[i64; 4]> = unsafe { sexp::dim(x) }.iter().map(|&dim| dim.into()).collect();
        let is_shaped = !dims.is_empty();
        let (host_type, dtype) = match sexp::kind(x) {
            SEXPTYPE::LGLSXP => (HostType::Logical, DType::Pred),
            SEXPTYPE::INTSXP => (HostType::Integer, DType::I32),
            SEXPTYPE::REALSXP if !sexp::inherits(x, c"integer64") => (HostType::Double, DType::F32),
            _ if is_shaped => return Err(self.invalid(i, "its dtype is not one anvl can represent")),
            _ => return Err(self.not_an_input(i, x)),
        };
        if !is_shaped && (sexp::is_object(x) || sexp::len(x) != 1 || is_missing(x)) {
            return Err(self.not_an_input(i, x));
        }
        let is_newer = call.dispatcher.is_newer;
        let ambiguous = !is_newer && host_type != HostType::Logical;
        let aval = Aval { is_data: is_newer, dtype, dims, ambiguous };
        Ok(Leaf { value: x, data: Some(host_type), device: None, aval: Some(aval) })
    }

    fn path(&self, i: usize) -> String {
        self.walked.tree.path(i).unwrap_or_default()
    }

    #[cold]
    fn invalid(&self, i: usize, problem: &str) -> Failure {
        Failure(Error::new(Kind::InvalidInput, format!("invalid input `{}`: {problem}.", self.path(i))))
    }

    #[cold]
    fn not_an_input(&self, i: usize, x: SEXP) -> Failure {
        let got = format!("got <{}> of length {}", first_class(x), sexp::len(x));
        let problem = format!("expected an AnvlArray, a length-1 atomic scalar, or an is.array() value; {got}");
        let Failure(error) = self.invalid(i, &problem);
        let is_scalar = !sexp::is_object(x) && sexp::len(x) == 1 && is_atomic(x);
        Failure(if is_scalar {
            error.hint("A scalar must be a real number or a logical value, and not NA.")
        } else {
            error
        })
    }
}

fn is_atomic(x: SEXP) -> bool {
    use SEXPTYPE::*;
    matches!(sexp::kind(x), LGLSXP | INTSXP | REALSXP | CPLXSXP | STRSXP | RAWSXP)
}

/// The dtype if tengen has it, too.
fn known(dtype: DType) -> Option<DType> {
    data_type_name(dtype).map(|_| dtype)
}

/// The name of a dtype outside PJRT, where "pred" is "bool".
pub fn data_type_name(dtype: DType) -> Option<&'static str> {
    match dtype.name() {
        "pred" => Some("bool"),
        name if dtype.info().bits < 8 || name.starts_with("f8") => None,
        name => Some(name),
    }
}

/// Whether the only value of a vector is NA.
fn is_missing(x: SEXP) -> bool {
    // SAFETY: a vector of this type with one element.
    unsafe {
        match sexp::kind(x) {
            SEXPTYPE::REALSXP => sexp::is_na(REAL_ELT(x, 0)),
            SEXPTYPE::INTSXP => INTEGER_ELT(x, 0) == NA_INTEGER,
            _ => LOGICAL_ELT(x, 0) == NA_INTEGER,
        }
    }
}

fn first_class(x: SEXP) -> String {
    if sexp::is_object(x) {
        // SAFETY: an object holds its class.
        return unsafe { sexp::texts(sexp::class(x)) }.flatten().next().unwrap_or_default().to_owned();
    }
    let name = match sexp::kind(x) {
        SEXPTYPE::LGLSXP => "logical",
        SEXPTYPE::INTSXP => "integer",
        SEXPTYPE::REALSXP => "numeric",
        SEXPTYPE::CPLXSXP => "complex",
        SEXPTYPE::STRSXP => "character",
        SEXPTYPE::RAWSXP => "raw",
        SEXPTYPE::CLOSXP | SEXPTYPE::BUILTINSXP | SEXPTYPE::SPECIALSXP => "function",
        SEXPTYPE::ENVSXP => "environment",
        SEXPTYPE::EXTPTRSXP => "externalptr",
        SEXPTYPE::SYMSXP => "name",
        SEXPTYPE::LANGSXP => "call",
        SEXPTYPE::EXPRSXP => "expression",
        SEXPTYPE::LISTSXP => "pairlist",
        _ => "object",
    };
    name.to_owned()
}

/// Hashes part of an R object: enough to tell most apart, and equal for identical ones.
fn mix_value(mixer: &mut Mixer, x: SEXP) {
    const FIRST: usize = 8;
    let kind = sexp::kind(x);
    let is_function = matches!(kind, SEXPTYPE::CLOSXP | SEXPTYPE::BUILTINSXP | SEXPTYPE::SPECIALSXP);
    // The length of an environment changes.
    let len = if is_function || kind == SEXPTYPE::ENVSXP { 0 } else { sexp::len(x) };
    mixer.word(kind as u64 | (len as u64) << 8);
    for i in 0..len.min(FIRST) as R_xlen_t {
        // SAFETY: a vector of this type with more elements.
        let word = unsafe {
            match kind {
                SEXPTYPE::LGLSXP => LOGICAL_ELT(x, i) as u64,
                SEXPTYPE::INTSXP => INTEGER_ELT(x, i) as u64,
                SEXPTYPE::REALSXP => REAL_ELT(x, i).to_bits(),
                SEXPTYPE::STRSXP => text_word(STRING_ELT(x, i)),
                _ => return,
            }
        };
        mixer.word(word);
    }
}

/// A hash of a string that is equal for equal text in other encodings, too.
///
/// # Safety
/// An element of a character vector, which is protected.
unsafe fn text_word(element: SEXP) -> u64 {
    let bytes = lists::bytes_of(element);
    if !bytes.is_ascii() {
        return 1;
    }
    let mut mixer = Mixer::default();
    mixer.bytes(&bytes[..bytes.len().min(64)]);
    mixer.finish()
}

pub fn is_array(x: SEXP) -> bool {
    sexp::kind(x) == SEXPTYPE::VECSXP && sexp::inherits(x, c"AnvlArray")
}

pub fn has_backend(array: SEXP, backend: &str) -> bool {
    // SAFETY: the array holds its fields.
    unsafe { sexp::string(Fields::of(array).backend) == Some(backend) }
}

/// The fields of an array; nil for missing ones.
pub struct Fields {
    pub data: SEXP,
    pub dtype: SEXP,
    pub shape: SEXP,
    pub device: SEXP,
    pub ambiguous: SEXP,
    pub backend: SEXP,
}

/// In the order in which outputs have them.
const FIELDS: [&str; 6] = ["data", "dtype", "shape", "device", "ambiguous", "backend"];

/// The same in the newer dialect.
const NEWER_FIELDS: [&str; 5] = ["data", "dtype", "shape", "device", "backend"];

impl Fields {
    pub fn of(list: SEXP) -> Fields {
        let mut found = [sexp::nil(); FIELDS.len()];
        if sexp::kind(list) == SEXPTYPE::VECSXP {
            let (known, names) = (field_names(false), sexp::names(list));
            let count = if sexp::is_nil(names) { 0 } else { sexp::len(list).min(sexp::len(names)) };
            for i in (0..count).rev() {
                // SAFETY: as many names as elements; equal ASCII strings are the same R object.
                let name = unsafe { STRING_ELT(names, i as R_xlen_t) };
                // SAFETY: `known` has a name for each field.
                let place = (0..FIELDS.len()).find(|&k| unsafe { STRING_ELT(known, k as R_xlen_t) } == name);
                if let Some(place) = place {
                    found[place] = sexp::at(list, i);
                }
            }
        }
        let [data, dtype, shape, device, ambiguous, backend] = found;
        Fields { data, dtype, shape, device, ambiguous, backend }
    }
}

/// Makes the R objects below, while nothing is owned. R may leave this by a long jump.
pub fn keep_names() {
    field_names(false);
    field_names(true);
    array_class();
}

/// The names of an array's fields, always the same R object.
pub fn field_names(is_newer: bool) -> SEXP {
    static NAMES: [AtomicPtr<SEXPREC>; 2] =
        [AtomicPtr::new(std::ptr::null_mut()), AtomicPtr::new(std::ptr::null_mut())];
    kept_texts(&NAMES[usize::from(is_newer)], if is_newer { &NEWER_FIELDS } else { &FIELDS })
}

/// The class attribute of arrays, always the same R object.
pub fn array_class() -> SEXP {
    static CLASS: AtomicPtr<SEXPREC> = AtomicPtr::new(std::ptr::null_mut());
    kept_texts(&CLASS, &["AnvlArray"])
}

fn kept_texts(place: &AtomicPtr<SEXPREC>, texts: &[&str]) -> SEXP {
    let made = place.load(Ordering::Relaxed);
    if !made.is_null() {
        return made;
    }
    let vector = Protected::new(sexp::new_strings(texts.iter().copied()));
    place.store(sexp::keep(vector.sexp()), Ordering::Relaxed);
    vector.sexp()
}

/// What `compile` gets; not protected. R may leave this by a long jump.
pub fn info(call: &Call, request: &Request) -> SEXP {
    let count = request.leaves.len();
    let walked = &request.walked;
    let tree = Protected::new(tree::handle_of(&walked.names, || walked.tree.clone()));
    let leaves = Protected::new(sexp::list(walked.leaves.iter().copied()));
    let is_static = Protected::new(sexp::vector(SEXPTYPE::LGLSXP, count));
    let avals = Protected::new(sexp::vector(SEXPTYPE::VECSXP, count));
    for (i, leaf) in request.leaves.iter().enumerate() {
        // SAFETY: a logical vector with an element for each leaf.
        unsafe { *LOGICAL(is_static.sexp()).add(i) = leaf.aval.is_none().into() };
        if let Some(aval) = &leaf.aval {
            sexp::set_at(avals.sexp(), i, aval_list(call, leaf, aval));
        }
    }
    let mut items = vec![
        ("args", call.args),
        ("in_tree", tree.sexp()),
        ("leaves", leaves.sexp()),
        ("is_static", is_static.sexp()),
        ("avals", avals.sexp()),
        ("default_device", request.device.unwrap_or(sexp::nil())),
    ];
    if call.dispatcher.is_newer {
        items.push(("context", call.context));
    }
    sexp::over_jumps(items, |items| {
        sexp::named(items.iter().map(|(name, _)| *name), items.iter().map(|(_, value)| *value))
    })
}

fn aval_list(call: &Call, leaf: &Leaf, aval: &Aval) -> SEXP {
    let name = match leaf.data {
        Some(host_type) if call.dispatcher.is_newer => described(host_type),
        _ => data_type_name(aval.dtype).unwrap_or_default(),
    };
    let dtype = || sexp::new_string(name);
    let shape = || sexp::new_whole_numbers(&aval.dims);
    if call.dispatcher.is_newer {
        let kind = || sexp::new_string(if leaf.data.is_some() { "rdata" } else { "array" });
        return sexp::record(&[("kind", &kind), ("dtype", &dtype), ("shape", &shape)]);
    }
    sexp::record(&[("dtype", &dtype), ("shape", &shape), ("ambiguous", &|| sexp::new_flag(aval.ambiguous))])
}

/// The R object of a dtype for an output; not protected. R may leave this by a long jump.
pub fn data_type(dtype: DType) -> SEXP {
    let made = dtype::data_type(dtype);
    if sexp::is_nil(made) {
        sexp::call_ours(c"data_type", dtype::element_type(dtype))
    } else {
        made
    }
}
