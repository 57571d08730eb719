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

use Field::{
    Attribute, Attributes, GivenAttribute, Name, Number, Numbers, OptionalAttribute, Size, String, Type, Types,
};

/// The parts of an entry of a kind, up to the last reference; `None` for an unknown kind.
pub(super) fn fields(dialect: &[u8], is_attribute: bool, kind: u64) -> &'static [Field] {
    match (dialect, is_attribute) {
        (b"builtin", true) => builtin_attribute(kind),
        (b"builtin", false) => builtin_type(kind),
        (b"vhlo", true) => portable_attribute(kind),
        (b"vhlo", false) => portable_type(kind),
        (b"stablehlo", true) => stablehlo_attribute(kind),
        (b"sdy", true) => shardy_attribute(kind),
        _ => &[],
    }
}

fn builtin_attribute(kind: u64) -> &'static [Field] {
    match kind {
        // Arrays and dictionaries.
        0 => &[Attributes(1)],
        1 => &[Attributes(2)],
        // Strings, without and with a type.
        2 => &[String],
        3 => &[String, Type],
        // References to symbols, flat and nested.
        4 => &[Attribute],
        5 => &[Attribute, Attributes(1)],
        // Types, integers, floats.
        6 | 8 | 9 => &[Type],
        // Locations: call site, line of a file, fused without and with metadata, name, range of a file.
        10 | 14 => &[Attribute, Attribute],
        11 | 22 => &[Attribute],
        12 => &[Attributes(1)],
        13 => &[Attributes(1), Attribute],
        // A unique one, equal to no other.
        21 => &[Attribute],
        // Constants: a resource, arrays, elements, strings, sparse elements.
        16..=19 => &[Type],
        20 => &[Type, Attribute, Attribute],
        _ => &[],
    }
}

fn builtin_type(kind: u64) -> &'static [Field] {
    match kind {
        // Functions, complex numbers, tuples.
        2 => &[Types, Types],
        9 => &[Type],
        15 => &[Types],
        // References to memory, without and with a memory space.
        10 => &[Numbers, Type, Attribute],
        11 => &[Attribute, Numbers, Type, Attribute],
        // Arrays without and with an encoding, and without a rank.
        13 | 19 => &[Numbers, Type],
        14 => &[Attribute, Numbers, Type],
        16 | 18 => &[Type],
        17 => &[Attribute, Type],
        _ => &[],
    }
}

fn portable_attribute(kind: u64) -> &'static [Field] {
    match kind {
        // Arrays and dictionaries.
        1 => &[Attributes(1)],
        6 => &[Attributes(2)],
        // Floats, integers, constants, types.
        8 | 9 | 15 | 17 => &[Type],
        14 => &[String],
        // Axes, groups of devices along them, and meshes.
        22 => &[Attribute, GivenAttribute],
        23 => &[Attribute, Attribute],
        24 => &[Attribute],
        25 => &[Attribute, OptionalAttribute],
        _ => &[],
    }
}

fn stablehlo_attribute(kind: u64) -> &'static [Field] {
    match kind {
        // The same, and the algorithms of products.
        15 => &[Type, Type, Type],
        18 => &[Attribute, Attributes(1)],
        20 => &[String, GivenAttribute],
        22 => &[Attribute, OptionalAttribute],
        _ => &[],
    }
}

fn portable_type(kind: u64) -> &'static [Field] {
    match kind {
        // Complex numbers, functions, tuples.
        1 => &[Type],
        8 => &[Types, Types],
        23 => &[Types],
        // Arrays without and with an encoding, and without a rank.
        20 => &[Numbers, Type],
        21 => &[Attribute, Numbers, Type],
        25 => &[Type],
        // Quantized numbers, by array and by axis.
        24 | 30 => &[Number, Type, Type],
        // Memory, and what is still to come.
        41 => &[Numbers, Type],
        42 => &[Types],
        _ => &[],
    }
}

fn shardy_attribute(kind: u64) -> &'static [Field] {
    match kind {
        // Names of axes.
        0 => &[Attributes(1)],
        // Axes of a mesh, and meshes.
        1 => &[Name, Size],
        2 => &[Attributes(1)],
        // References to an axis or to part of it.
        4 => &[Name, OptionalAttribute],
        // Shardings of a dimension, an array and several; 15 is a newer form.
        5 | 7 => &[Attributes(1)],
        6 => &[Attribute, Attributes(1), Attributes(1)],
        15 => &[Attribute, Attributes(1), Attributes(1), Attributes(1)],
        // Rules for operations.
        9 => &[Attributes(1)],
        10 => &[Numbers, Attributes(1), Attributes(1)],
        // Lists of axes, and what moves between them.
        11..=14 => &[Attributes(1)],
        _ => &[],
    }
}
