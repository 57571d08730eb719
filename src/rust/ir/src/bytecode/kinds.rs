//! The bytecode encoding of attributes and types of MLIR itself (`builtin`), of StableHLO and its portable form (`vhlo`),
//! and of Shardy (`sdy`). Those of other dialects have no references.

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
        // Arrays and dictionaries.
        (b"builtin", true, 0) | (b"vhlo", true, 1) => &[Attributes(1)],
        (b"builtin", true, 1) | (b"vhlo", true, 6) => &[Attributes(2)],
        // Strings, without and with a type.
        (b"builtin", true, 2) | (b"vhlo", true, 14) => &[String],
        (b"builtin", true, 3) => &[String, Type],
        // References to symbols, flat and nested.
        (b"builtin", true, 4) => &[Attribute],
        (b"builtin", true, 5) => &[Attribute, Attributes(1)],
        // Types, integers, floats, and constants: a resource, arrays, elements, strings, sparse elements.
        (b"builtin", true, 6 | 8 | 9 | 16..=19) | (b"vhlo", true, 8 | 9 | 15 | 17) => &[Type],
        (b"builtin", true, 20) => &[Type, Attribute, Attribute],
        // Locations: call site, line of a file, fused without and with metadata, name, range of a file.
        (b"builtin", true, 10 | 14) => &[Attribute, Attribute],
        (b"builtin", true, 11 | 22) => &[Attribute],
        (b"builtin", true, 12) => &[Attributes(1)],
        (b"builtin", true, 13) => &[Attributes(1), Attribute],
        // A unique one, equal to no other.
        (b"builtin", true, 21) => &[Attribute],
        // The algorithms of products.
        (b"stablehlo", true, 15) => &[Type, Type, Type],
        // Axes, groups of devices along them, and meshes.
        (b"vhlo", true, 22) => &[Attribute, GivenAttribute],
        (b"vhlo", true, 23) => &[Attribute, Attribute],
        (b"vhlo", true, 24) => &[Attribute],
        (b"stablehlo", true, 20) => &[String, GivenAttribute],
        (b"stablehlo", true, 18) => &[Attribute, Attributes(1)],
        (b"vhlo", true, 25) | (b"stablehlo", true, 22) => &[Attribute, OptionalAttribute],
        // Of Shardy: axes of a mesh, and references to an axis or to part of it.
        (b"sdy", true, 1) => &[Name, Size],
        (b"sdy", true, 4) => &[Name, OptionalAttribute],
        // Names of axes, meshes, shardings of a dimension and of several arrays, rules for operations, lists of axes, and what moves
        // between them.
        (b"sdy", true, 0 | 2 | 5 | 7 | 9 | 11..=14) => &[Attributes(1)],
        (b"sdy", true, 10) => &[Numbers, Attributes(1), Attributes(1)],
        // Shardings of an array; 15 is a newer form.
        (b"sdy", true, 6) => &[Attribute, Attributes(1), Attributes(1)],
        (b"sdy", true, 15) => &[Attribute, Attributes(1), Attributes(1), Attributes(1)],
        // Types: functions, complex numbers, tuples, and what is still to come.
        (b"builtin", false, 2) | (b"vhlo", false, 8) => &[Types, Types],
        (b"builtin", false, 9) | (b"vhlo", false, 1) => &[Type],
        (b"builtin", false, 15) | (b"vhlo", false, 23 | 42) => &[Types],
        // References to memory, without and with a memory space.
        (b"builtin", false, 10) => &[Numbers, Type, Attribute],
        (b"builtin", false, 11) => &[Attribute, Numbers, Type, Attribute],
        (b"vhlo", false, 41) => &[Numbers, Type],
        // Arrays without and with an encoding, and without a rank.
        (b"builtin", false, 13 | 19) | (b"vhlo", false, 20) => &[Numbers, Type],
        (b"builtin", false, 14) | (b"vhlo", false, 21) => &[Attribute, Numbers, Type],
        (b"builtin", false, 16 | 18) | (b"vhlo", false, 25) => &[Type],
        (b"builtin", false, 17) => &[Attribute, Type],
        // Quantized numbers, by array and by axis.
        (b"vhlo", false, 24 | 30) => &[Number, Type, Type],
        _ => &[],
    }
}
