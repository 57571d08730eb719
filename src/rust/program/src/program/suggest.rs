//! What a user may have meant: operations, types of elements and values by a name that the compiler does not know.

use pjrt_data::dtype::DType;
use pjrt_ir::bytecode;
use pjrt_ir::module::is_listed;

/// Operations of CHLO, which compilers accept next to StableHLO's.
const CHLO: &str =
    "acos acosh asin asinh atan atanh bessel_i1e conj cosh digamma erf erf_inv erfc lgamma next_after polygamma sinh \
     square top_k zeta";

/// Operations by their names in other languages and libraries, in lower case and without underscores.
#[rustfmt::skip]
const SYNONYMS: [(&str, &str); 65] = [
    ("abs", "absolute fabs"), ("add", "plus"), ("and", "logicaland"), ("bitcast_convert", "bitcast"),
    ("broadcast_in_dim", "broadcastto expand expanddims rep"), ("ceil", "ceiling"), ("clamp", "clip"),
    ("compare", "eq equal ge greater gt isnan le less lt ne"), ("concatenate", "append c cbind concat rbind stack"),
    ("constant", "const fill full literal ones zeros"), ("convert", "as astype cast convertelementtype"),
    ("convolution", "conv conv1d conv2d"), ("cosine", "cos"), ("divide", "div truediv"),
    ("dot_general", "crossprod matmul mm"), ("dynamic_slice", "dynslice"), ("exponential", "exp"),
    ("exponential_minus_one", "expm1"), ("gather", "getitem index take"), ("if", "cond"), ("imag", "im"),
    ("iota", "arange linspace range seq seqlen"), ("is_finite", "isfinite"), ("log", "ln"), ("log_plus_one", "log1p"),
    ("logistic", "expit plogis sigmoid"), ("maximum", "max pmax relu"), ("minimum", "min pmin"),
    ("multiply", "mul times"), ("negate", "minus neg negative"), ("not", "logicalnot"), ("or", "logicalor"),
    ("popcnt", "bitcount populationcount"), ("power", "pow"), ("real", "re"),
    ("reduce", "all any argmax argmin mean prod reducemax reducemin reducesum sum"),
    ("reduce_window", "avgpool cumprod cumsum maxpool"), ("remainder", "fmod mod rem"),
    ("reshape", "dim ravel squeeze view"), ("return", "ret yield"), ("reverse", "flip rev"),
    ("rng", "normal rand randn random rnorm runif uniform"), ("round_nearest_even", "round rint"),
    ("scatter", "scatteradd setitem"), ("select", "ifelse where"), ("shift_left", "shl"),
    ("shift_right_arithmetic", "sar"), ("shift_right_logical", "shr"), ("sign", "sgn"), ("sine", "sin"),
    ("slice", "head narrow"), ("sort", "argsort order"), ("subtract", "sub"), ("transpose", "aperm permute swapaxes t"),
    ("triangular_solve", "backsolve forwardsolve solvetriangular"), ("while", "for whileloop"), ("xor", "logicalxor"),
    ("custom_call", "ffi"), ("cholesky", "chol potrf"), ("tan", "tg"), ("fft", "ifft irfft rfft"),
    ("dynamic_update_slice", "updateslice"), ("all_reduce", "allreduce psum"), ("create_token", "token"),
    ("get_tuple_element", "gte"),
];

/// The types of elements by further names, in lower case.
#[rustfmt::skip]
const TYPES: [(DType, &str); 11] = [
    (DType::Pred, "boolean logical"), (DType::I16, "short"), (DType::I32, "int integer"),
    (DType::I64, "integer64 long"), (DType::U8, "byte"), (DType::U32, "uint"), (DType::BF16, "bfloat"),
    (DType::F32, "single"), (DType::F64, "numeric real"), (DType::C64, "cfloat"), (DType::C128, "cdouble complex"),
];

/// The operations of StableHLO that every plugin has.
fn operations() -> impl Iterator<Item = &'static str> {
    const NEWER: &str = "async_done async_start collective_reduce";
    bytecode::operations("stablehlo").into_iter().filter(|name| !is_listed(NEWER, name))
}

/// The operation that a program may mean by a name, with or without a dialect: `stablehlo.exponential` for `mhlo.exp`.
pub fn operation(name: &str) -> Option<String> {
    let bare = name.rsplit('.').next().unwrap_or(name).to_ascii_lowercase();
    if matches!(bare.as_str(), "func" | "call") {
        return Some(format!("func.{bare}"));
    }
    if is_listed(CHLO, &bare) {
        return Some(format!("chlo.{bare}"));
    }
    let plain = bare.replace('_', "");
    let synonym = SYNONYMS.iter().find(|(_, names)| is_listed(names, &plain)).map(|(operation, _)| *operation);
    let same = || operations().find(|operation| operation.replace('_', "") == plain);
    let similar = || closest(&bare, operations()).or_else(|| only_start(&bare));
    synonym.or_else(same).or_else(similar).map(|operation| format!("stablehlo.{operation}"))
}

/// The type of elements that a program may mean by a name: `f32` for `float32`.
pub fn element_type(name: &str) -> Option<&'static str> {
    let name = name.to_ascii_lowercase();
    let found = || TYPES.iter().find(|(_, names)| is_listed(names, &name)).map(|&(dtype, _)| dtype);
    DType::parse(&name).ok().or_else(found).map(|dtype| dtype.info().mlir)
}

/// The closest of some names, if one is close enough to be a typing error.
pub fn closest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (name.chars().count() / 3).min(3).max(usize::from(name.chars().count() > 1));
    let distances = known.into_iter().filter(|known| known.len().abs_diff(name.len()) <= limit * 4);
    let best = distances.map(|known| (distance(name, known), known)).min_by_key(|(distance, _)| *distance);
    best.filter(|(distance, _)| (1..=limit).contains(distance)).map(|(_, known)| known)
}

/// The only operation that starts with a name.
fn only_start(name: &str) -> Option<&'static str> {
    const SHORTEST: usize = 3;
    let mut found = operations().filter(|operation| operation.starts_with(name));
    let first = found.next().filter(|_| name.len() >= SHORTEST)?;
    found.next().is_none().then_some(first)
}

/// The number of characters to insert, remove, replace or swap with the next one, to get from one name to the other.
fn distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=to.len()).collect();
    for (i, &a) in from.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, &b) in to.iter().enumerate() {
            let changed = last[j] + usize::from(a != b);
            let mut least = changed.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a == to[j - 1] && from[i - 1] == b {
                least = least.min(before[j - 1] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_found_by_other_names_and_typing_errors() {
        for (name, meant) in [
            ("stablehlo.exp", "stablehlo.exponential"),
            ("stablehlo.log1p", "stablehlo.log_plus_one"),
            ("stablehlo.mutliply", "stablehlo.multiply"),
            ("stablehlo.trnspose", "stablehlo.transpose"),
            ("stablehlo.ad", "stablehlo.add"),
            ("stablehlo.Add", "stablehlo.add"),
            ("stablehlo.dotgeneral", "stablehlo.dot_general"),
            ("stablehlo.reduce_sum", "stablehlo.reduce"),
            ("stablehlo.popc", "stablehlo.popcnt"),
            ("add", "stablehlo.add"),
            ("mhlo.add", "stablehlo.add"),
            ("tanh", "stablehlo.tanh"),
            ("matmul", "stablehlo.dot_general"),
            ("sum", "stablehlo.reduce"),
            ("stablehlo.erf", "chlo.erf"),
        ] {
            assert_eq!(operation(name).as_deref(), Some(meant), "{name}");
        }
        for name in ["stablehlo.oops", "nonsense", "", "stablehlo.", "x", "stablehlo.quicksort"] {
            assert_eq!(operation(name), None, "{name}");
        }
    }

    #[test]
    fn every_name_stands_for_a_known_operation_and_only_one() {
        let mut names: Vec<&str> = SYNONYMS.iter().flat_map(|(_, names)| names.split(' ')).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(SYNONYMS.iter().all(|(operation, _)| operations().any(|known| known == *operation)));
        operations().for_each(|name| assert_eq!(operation(name), Some(format!("stablehlo.{name}"))));
        let is_known = |name: &str| operations().any(|known| known == name) || is_listed(CHLO, name);
        assert!(names.iter().all(|name| !name.contains('_') && !is_known(name)));
    }

    #[test]
    fn types_are_found_by_their_names_elsewhere() {
        for (name, meant) in [
            ("float32", "f32"),
            ("double", "f64"),
            ("bool", "i1"),
            ("pred", "i1"),
            ("int32", "i32"),
            ("int64", "i64"),
            ("uint8", "ui8"),
            ("half", "f16"),
            ("complex64", "complex<f32>"),
            ("F32", "f32"),
            ("s32", "i32"),
        ] {
            assert_eq!(element_type(name), Some(meant), "{name}");
        }
        assert_eq!(element_type("quad"), None);
    }

    #[test]
    fn values_are_found_by_typing_errors() {
        assert_eq!(closest("x1", ["y", "x0", "z"]), Some("x0"));
        assert_eq!(closest("wieght", ["weight", "bias"]), Some("weight"));
        assert_eq!(closest("y", ["x"]), None);
        assert_eq!(closest("é1", ["é2"]), Some("é2"));
        assert_eq!(distance("ab", "ba"), 1);
        assert_eq!(distance("", "abc"), 3);
    }
}
