//! Short descriptions of R values, for messages that say what an argument must be.

use crate::r::conditions::Result;
use crate::r::sexp;
use extendr_ffi::*;
use pjrt_base::counted::shortened;

/// Longer texts are cut to this length.
const LONGEST: usize = 40;

/// `given(x)`: the description of `x`.
pub fn given(x: SEXP) -> Result<SEXP> {
    Ok(sexp::new_string(&describe(x)))
}

/// The description of an R value: the value itself if it is short, otherwise its type.
pub fn describe(x: SEXP) -> String {
    if sexp::is_object(x) {
        return format!("an object of class <{}>", class(x));
    }
    let len = sexp::len(x);
    match sexp::kind(x) {
        SEXPTYPE::NILSXP => "NULL".into(),
        SEXPTYPE::LGLSXP | SEXPTYPE::INTSXP | SEXPTYPE::REALSXP | SEXPTYPE::CPLXSXP | SEXPTYPE::STRSXP if len == 1 => {
            single(x).unwrap_or_else(|| "NA".into())
        }
        SEXPTYPE::LGLSXP => vector("logical", len),
        SEXPTYPE::INTSXP => vector("integer", len),
        SEXPTYPE::REALSXP => vector("double", len),
        SEXPTYPE::CPLXSXP => vector("complex", len),
        SEXPTYPE::STRSXP => vector("character", len),
        SEXPTYPE::RAWSXP => vector("raw", len),
        SEXPTYPE::VECSXP => format!("a list of length {len}"),
        SEXPTYPE::CLOSXP | SEXPTYPE::BUILTINSXP | SEXPTYPE::SPECIALSXP => "a function".into(),
        SEXPTYPE::ENVSXP => "an environment".into(),
        SEXPTYPE::EXTPTRSXP => "an external pointer".into(),
        SEXPTYPE::SYMSXP => "a symbol".into(),
        SEXPTYPE::LANGSXP => "a call".into(),
        SEXPTYPE::EXPRSXP => "an expression".into(),
        SEXPTYPE::LISTSXP => "a pairlist".into(),
        _ => "another kind of R object".into(),
    }
}

fn class(x: SEXP) -> String {
    // SAFETY: `x` is protected, and keeps its class.
    let names: Vec<_> = unsafe { sexp::texts(sexp::class(x)) }.flatten().collect();
    shortened(&names.join("/"), LONGEST)
}

fn vector(of: &str, len: usize) -> String {
    let article = if of == "integer" { "an" } else { "a" };
    format!("{article} {of} vector of length {len}")
}

/// The one value of a vector; `None` if it is missing.
fn single(x: SEXP) -> Option<String> {
    match sexp::kind(x) {
        SEXPTYPE::LGLSXP => sexp::flag(x).map(|flag| if flag { "TRUE".into() } else { "FALSE".into() }),
        SEXPTYPE::STRSXP => {
            // SAFETY: a character vector with one element, which is protected; R has set its NA before it loads the package.
            let (text, is_missing) = unsafe { (sexp::text(STRING_ELT(x, 0)), STRING_ELT(x, 0) == R_NaString) };
            if is_missing {
                return None;
            }
            Some(text.map_or_else(
                || "a string that is not valid text".into(),
                |text| format!("{:?}", shortened(text, LONGEST)),
            ))
        }
        SEXPTYPE::CPLXSXP => Some("a complex number".into()),
        SEXPTYPE::REALSXP => {
            // SAFETY: the value is copied at once.
            let value = *unsafe { sexp::doubles(x) }.first()?;
            (!sexp::is_na(value)).then(|| number(value))
        }
        _ => sexp::number(x).map(|value| format!("{value}L")),
    }
}

/// A number approximately as R would write it.
pub fn number(value: f64) -> String {
    let size = value.abs();
    let is_short = (1e-5..1e15).contains(&size) || size == 0.0;
    let text = if is_short { value.to_string() } else { format!("{value:e}") };
    text.replace("inf", "Inf")
}
