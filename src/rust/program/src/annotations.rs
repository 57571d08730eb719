//! The annotations of a program's source: how many devices it is for, the shardings of its arrays, and which it takes over.

/// A program's annotations; `None` if they could not be read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Annotations {
    pub num_replicas: Option<i64>,
    pub num_partitions: Option<i64>,
    /// The inputs and outputs of the entry function.
    pub inputs: Option<Vec<Array>>,
    pub outputs: Option<Vec<Array>>,
}

/// An input or output of a program, as a whole array.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Array {
    pub dims: Option<Vec<i64>>,
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
pub const SHARDINGS: [&[u8]; 3] = [b"mhlo.sharding", b"sdy.sharding", b"xla.sdy.sharding"];

/// The attribute of a result for its path.
pub const PATH: &[u8] = b"jax.result_info";

/// The attributes of a module for the number of devices.
pub const REPLICAS: &[u8] = b"mhlo.num_replicas";
pub const PARTITIONS: &[u8] = b"mhlo.num_partitions";

/// The attributes of an input whose memory an output reuses: a certain one, and any.
pub const ALIAS: &[u8] = b"tf.aliasing_output";
pub const DONOR: &[u8] = b"jax.buffer_donor";
