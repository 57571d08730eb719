//! What a program's source says of the devices that it is for: how many, and how its arrays lie on them.

/// What a program says of itself; `None` where that could not be read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Annotations {
    pub num_replicas: Option<i64>,
    pub num_partitions: Option<i64>,
    /// What goes into the function that is run, and what comes out.
    pub inputs: Option<Vec<Array>>,
    pub outputs: Option<Vec<Array>>,
}

/// An array that a program takes or gives, as a whole.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Array {
    pub dims: Option<Vec<i64>>,
    /// The program says how it is divided, or that it is not.
    pub has_sharding: bool,
}

/// The attributes by which a program says that, of GSPMD, of Shardy, and of Shardy on its way through GSPMD's form.
pub const SHARDINGS: [&[u8]; 3] = [b"mhlo.sharding", b"sdy.sharding", b"xla.sdy.sharding"];

/// The attributes of a module that tell how many devices it is for.
pub const REPLICAS: &[u8] = b"mhlo.num_replicas";
pub const PARTITIONS: &[u8] = b"mhlo.num_partitions";
