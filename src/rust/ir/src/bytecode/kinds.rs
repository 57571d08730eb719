//! The bytecode encoding of attributes and types of MLIR itself (`builtin`), of StableHLO and its portable form (`vhlo`),
//! and of Shardy (`sdy`). The attributes and types of other dialects have no references.

/// A part of an entry. Parts after the last reference are omitted.
#[derive(Debug, Clone, Copy)]
pub(super) enum Field {
    Attribute,
    OptionalAttribute,
    /// A byte, and an attribute if anything follows.
    GivenAttribute,
    Type,
    /// A list of attributes, so many for each element.
    Attributes(usize),
    Types,
    String,
    /// A string that Shardy writes into its own text, and cannot read back if it has escapes.
    Name,
    /// A number above zero, with a sign.
    Size,
    Number,
    Numbers,
}

use Field::*;

/// The parts of an entry of a kind, up to the last reference; empty for an unknown kind.
pub(super) fn fields(dialect: &[u8], is_attribute: bool, kind: u64) -> &'static [Field] {
    match (dialect, is_attribute, kind) {
        // Arrays, and fused locations; of Shardy names of axes, meshes, shardings of a dimension and of several arrays, rules for
        // operations, lists of axes, and what moves between them.
        (b"builtin", true, 0 | 12) | (b"vhlo", true, 1) | (b"sdy", true, 0 | 2 | 5 | 7 | 9 | 11..=14) => {
            &[Attributes(1)]
        }
        // Dictionaries.
        (b"builtin", true, 1) | (b"vhlo", true, 6) => &[Attributes(2)],
        // Strings, without and with a type.
        (b"builtin", true, 2) | (b"vhlo", true, 14) => &[String],
        (b"builtin", true, 3) => &[String, Type],
        // References to symbols, locations in a file without and with an end, a unique attribute; axes of a mesh.
        (b"builtin", true, 4 | 11 | 21 | 22) | (b"vhlo", true, 24) => &[Attribute],
        // References to nested symbols; groups of devices along axes.
        (b"builtin", true, 5) | (b"stablehlo", true, 18) => &[Attribute, Attributes(1)],
        // Types, integers, floats, and constants: a resource, arrays, elements, strings, sparse elements.
        (b"builtin", true, 6 | 8 | 9 | 16..=19) | (b"vhlo", true, 8 | 9 | 15 | 17) => &[Type],
        (b"builtin", true, 20) => &[Type, Attribute, Attribute],
        // Locations of calls, and with a name; groups of devices along axes.
        (b"builtin", true, 10 | 14) | (b"vhlo", true, 23) => &[Attribute, Attribute],
        // A fused location with metadata.
        (b"builtin", true, 13) => &[Attributes(1), Attribute],
        // The algorithms of products.
        (b"stablehlo", true, 15) => &[Type, Type, Type],
        // References to axes, and meshes.
        (b"vhlo", true, 22) => &[Attribute, GivenAttribute],
        (b"stablehlo", true, 20) => &[String, GivenAttribute],
        (b"vhlo", true, 25) | (b"stablehlo", true, 22) => &[Attribute, OptionalAttribute],
        // Of Shardy: axes of a mesh, and references to an axis or to part of it.
        (b"sdy", true, 1) => &[Name, Size],
        (b"sdy", true, 4) => &[Name, OptionalAttribute],
        // How dimensions correspond, and shardings of an array; 15 is a newer form.
        (b"sdy", true, 10) => &[Numbers, Attributes(1), Attributes(1)],
        (b"sdy", true, 6) => &[Attribute, Attributes(1), Attributes(1)],
        (b"sdy", true, 15) => &[Attribute, Attributes(1), Attributes(1), Attributes(1)],
        // Types: functions, tuples, and what is still to come.
        (b"builtin", false, 2) | (b"vhlo", false, 8) => &[Types, Types],
        (b"builtin", false, 15) | (b"vhlo", false, 23 | 42) => &[Types],
        // Complex numbers, and arrays without a rank.
        (b"builtin", false, 9 | 16 | 18) | (b"vhlo", false, 1 | 25) => &[Type],
        (b"builtin", false, 17) => &[Attribute, Type],
        // References to memory, without and with a memory space.
        (b"builtin", false, 10) => &[Numbers, Type, Attribute],
        (b"builtin", false, 11) => &[Attribute, Numbers, Type, Attribute],
        // Arrays without and with an encoding, and references to memory of the portable form.
        (b"builtin", false, 13 | 19) | (b"vhlo", false, 20 | 41) => &[Numbers, Type],
        (b"builtin", false, 14) | (b"vhlo", false, 21) => &[Attribute, Numbers, Type],
        // Quantized numbers, by array and by axis.
        (b"vhlo", false, 24 | 30) => &[Number, Type, Type],
        _ => &[],
    }
}
