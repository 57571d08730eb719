//! The annotations of a program's source about devices: how many it is for, and the shardings of its arrays.

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
}

/// The attributes for shardings: of GSPMD, of Shardy, and of Shardy in GSPMD's form.
pub const SHARDINGS: [&[u8]; 3] = [b"mhlo.sharding", b"sdy.sharding", b"xla.sdy.sharding"];

/// The attribute of a result for its path.
pub const PATH: &[u8] = b"jax.result_info";

/// The attributes of a module for the number of devices.
pub const REPLICAS: &[u8] = b"mhlo.num_replicas";
pub const PARTITIONS: &[u8] = b"mhlo.num_partitions";
