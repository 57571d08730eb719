//! The annotations of a program's source: how many devices it is for, the shardings of its arrays, and which it takes over.

use crate::module::types::Size;
use crate::module::{Attribute, Element, Name, Operation, Tensor, Type};
use pjrt_data::array::Spec;
use pjrt_data::dtype::DType;

/// A program's annotations; `None` if they could not be read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Annotations {
    pub num_replicas: Option<i64>,
    pub num_partitions: Option<i64>,
    /// The inputs and outputs of the entry function.
    pub inputs: Option<Vec<Array>>,
    pub outputs: Option<Vec<Array>>,
}

/// An input or output of a program, as a whole array.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Array {
    /// The name of an input of an MLIR program: `%x` in text, or that of the source.
    pub name: Option<String>,
    /// The type of the elements of an array in MLIR, if it is known.
    pub dtype: Option<DType>,
    /// None without fixed dimensions.
    pub dims: Option<Vec<i64>>,
    /// The type of an array that has no fixed dimensions, nor bounds for them.
    pub dynamic: Option<Type>,
    /// The type of an array whose elements no compiler has.
    pub unknown: Option<Type>,
    /// Whether the program has a sharding for it.
    pub has_sharding: bool,
    /// For an output, the path to it in what the function returns.
    pub path: Option<String>,
    /// For an input of an MLIR program, whether the program takes over its memory.
    pub is_donated: bool,
    /// The output that reuses the memory, if the program says which.
    pub alias: Option<usize>,
}

/// The attributes for shardings: of GSPMD, of Shardy, and of Shardy in GSPMD's form.
const SHARDINGS: [&str; 3] = ["mhlo.sharding", "sdy.sharding", "xla.sdy.sharding"];

/// The attribute of a result for its path.
pub const PATH: &str = "jax.result_info";

/// The attributes of a module for the number of devices.
pub const REPLICAS: &str = "mhlo.num_replicas";
pub const PARTITIONS: &str = "mhlo.num_partitions";

/// The attributes of an input whose memory an output reuses: a certain one, and any.
const ALIAS: &str = "tf.aliasing_output";
const DONOR: &str = "jax.buffer_donor";

impl Annotations {
    /// The inputs and outputs of an MLIR program, if all are arrays of fixed shapes.
    pub fn specs(&self) -> Option<(Vec<Spec>, Vec<Spec>)> {
        let spec = |array: &Array| Spec::new(array.dtype?, array.dims.as_ref()?).ok();
        let specs = |arrays: &Option<Vec<Array>>| arrays.as_ref()?.iter().map(spec).collect::<Option<_>>();
        Some((specs(&self.inputs)?, specs(&self.outputs)?))
    }

    /// Notes what the attributes of the module say.
    pub fn note_module(&mut self, attributes: &[(Name, Attribute)]) {
        let number = |name: &str| attributes.iter().find(|(key, _)| &**key == name)?.1.as_integer();
        self.num_replicas = self.num_replicas.or_else(|| number(REPLICAS));
        self.num_partitions = self.num_partitions.or_else(|| number(PARTITIONS));
    }

    /// Notes what a function says about its arrays, if it is `main`.
    pub fn note_function(&mut self, function: &Operation) {
        if function.symbol() != Some("main") {
            return;
        }
        let Some(Attribute::Type(Type::Function(shape))) = function.attribute("function_type") else { return };
        let arrays = |types: &[Type], attributes: &str| {
            let attributes = function.attribute(attributes).and_then(Attribute::as_array).unwrap_or_default();
            let is_whole = attributes.is_empty() || attributes.len() == types.len();
            is_whole.then(|| types.iter().enumerate().map(|(i, kind)| array(kind, attributes.get(i))).collect())
        };
        let inputs: Option<Vec<Array>> = arrays(&shape.0, "arg_attrs");
        let outputs = arrays(&shape.1, "res_attrs");
        let (Some(mut inputs), Some(outputs)) = (inputs, outputs) else { return };
        let names = function.block(0).map(|block| block.names.as_slice()).unwrap_or_default();
        for (input, name) in inputs.iter_mut().zip(names) {
            input.name = name.as_ref().map(|name| name.to_string());
        }
        (self.inputs, self.outputs) = (Some(inputs), Some(outputs));
    }
}

impl Array {
    /// The shape: numbers, and "?" for dimensions without a size. Empty if it is unknown.
    pub fn shape(&self) -> Vec<String> {
        let dims = self.dims.as_deref().or_else(|| self.dynamic.as_ref()?.dims()).unwrap_or_default();
        dims.iter().map(|&dim| Size(dim).to_string()).collect()
    }
}

fn array(kind: &Type, attributes: Option<&Attribute>) -> Array {
    let item = |name: &str| attributes?.item(name);
    let has_sharding =
        |of: Option<&Attribute>| SHARDINGS.iter().any(|name| of.is_some_and(|of| of.item(name).is_some()));
    let path = item(PATH).and_then(Attribute::as_text).filter(|path| !path.contains('\0'));
    Array {
        name: None,
        dtype: kind.as_tensor().and_then(|tensor| tensor.element.dtype()),
        dims: kind.dims().filter(|_| kind.is_static()).map(<[i64]>::to_vec),
        dynamic: Some(kind).filter(|kind| is_dynamic(kind)).cloned(),
        unknown: Some(kind).filter(|kind| has_unknown_elements(kind)).cloned(),
        has_sharding: has_sharding(attributes) || has_sharding(item("mhlo.frontend_attributes")),
        path: path.map(str::to_owned),
        is_donated: item(ALIAS).is_some() || item(DONOR).is_some(),
        alias: item(ALIAS).and_then(|output| usize::try_from(output.as_integer()?).ok()),
    }
}

/// Whether this is an array of unknown size, which no compiler takes.
pub fn is_dynamic(kind: &Type) -> bool {
    let is_bounded = |tensor: &Tensor| matches!(tensor.encoding, Some(Attribute::Bounds(_)));
    kind.as_tensor().is_some_and(|tensor| !is_bounded(tensor)) && !kind.is_static()
}

fn has_unknown_elements(kind: &Type) -> bool {
    kind.as_tensor().is_some_and(|tensor| matches!(tensor.element, Element::Index | Element::Other(_)))
}

/// The type of an array in words: `f32[?x3]`.
pub fn shown(kind: &Type) -> Option<String> {
    let tensor = kind.as_tensor()?;
    let dims = tensor.dims.iter().map(|&dim| Size(dim).to_string()).collect::<Vec<_>>().join("x");
    Some(format!("{}[{dims}]", tensor.element))
}
