//! Data that are something else than a program, recognized by their first bytes.

use memchr::memmem;
use pjrt_base::error::{Error, Kind, Result};
use pjrt_base::foreign;
use pjrt_base::reason::Reason;
use pjrt_ir::hlo::HloModuleProto;

/// How much is read to recognize a format.
const START: usize = 1024;

/// Refuses data that are plainly not MLIR, with the name of their format.
pub(crate) fn check(code: &[u8]) -> Result<()> {
    if let Some((message, reason)) = recognize(code) {
        return Err(Error::new(Kind::InvalidFile, message).hint(reason));
    }
    foreign::check(Kind::InvalidFile, "The program", code)
}

fn recognize(code: &[u8]) -> Option<(&'static str, Reason)> {
    use Reason::*;
    let start = &code[..code.len().min(START)];
    let text = start.trim_ascii_start();
    Some(match start {
        _ if text.starts_with(b"HloModule") => {
            ("The program is HLO text, which compilers do not read through PJRT.", ProgramOfHlo)
        }
        _ if is_python(text) => ("The program is Python code, not StableHLO.", ProgramOfPython),
        [0x80, 2..=5, ..] => ("The data are a Python pickle, not a program.", ProgramOfPython),
        [0x1f, 0x8b, ..] => ("The data are compressed with gzip.", ProgramPacked),
        [b'P', b'K', 3, 4, ..] => ("The data are a zip archive.", ProgramPacked),
        _ if is_safetensors(code) => ("The data are a safetensors file: arrays, not a program.", ProgramOfArrays),
        _ if is_message(start)
            && HloModuleProto::from_bytes(code).is_ok_and(|module| !module.computations.is_empty()) =>
        {
            ("The data are a serialized HloModuleProto, not MLIR.", ProgramOfModule)
        }
        _ if is_message(start) && has(start, b"tensorflow") => {
            ("The data are a TensorFlow model, not StableHLO.", ProgramOfTensorflow)
        }
        _ => return None,
    })
}

fn is_python(text: &[u8]) -> bool {
    let line = text.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let is_import = line.starts_with(b"import ") || (line.starts_with(b"from ") && has(line, b" import "));
    let is_function = line.starts_with(b"def ") && has(line, b"(");
    let is_script = line.starts_with(b"#!") && has(line, b"python");
    let is_mlir = || has(text, b"func") || has(text, b"module");
    is_import || is_function || is_script || (has(text, b"jax.jit") && !is_mlir())
}

/// A length in eight bytes, then JSON.
fn is_safetensors(code: &[u8]) -> bool {
    let Some((length, rest)) = code.split_first_chunk::<8>() else { return false };
    rest.first() == Some(&b'{') && u64::from_le_bytes(*length) <= rest.len() as u64
}

/// A protocol buffer, which text is not. The first field is a version, a name or a message.
fn is_message(start: &[u8]) -> bool {
    matches!(start.first(), Some(0x08 | 0x0a)) && start.iter().any(|&byte| byte < 0x09)
}

fn has(text: &[u8], part: &[u8]) -> bool {
    memmem::find(text, part).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pjrt_ir::hlo::HloComputationProto;

    fn of(code: &[u8]) -> Option<Reason> {
        recognize(code).map(|(_, reason)| reason)
    }

    #[test]
    fn other_formats_are_recognized() {
        assert_eq!(of(b"\n HloModule m, entry_computation_layout={()->f32[]}"), Some(Reason::ProgramOfHlo));
        for python in ["import jax", "\nfrom jax import numpy", "def f(x):\n", "#!/usr/bin/python3\n", "f = jax.jit(g)"]
        {
            assert_eq!(of(python.as_bytes()), Some(Reason::ProgramOfPython), "{python}");
        }
        assert_eq!(of(b"\x80\x04\x95"), Some(Reason::ProgramOfPython));
        assert_eq!(of(b"\x1f\x8b\x08"), Some(Reason::ProgramPacked));
        assert_eq!(of(b"PK\x03\x04"), Some(Reason::ProgramPacked));
        assert_eq!(of(b"\x02\0\0\0\0\0\0\0{}"), Some(Reason::ProgramOfArrays));
        let computations = vec![HloComputationProto::default()];
        let module = HloModuleProto { name: "m".into(), computations, ..Default::default() };
        assert_eq!(of(&module.to_bytes()), Some(Reason::ProgramOfModule));
        assert_eq!(of(b"\n\x08 = foo"), None);
        assert_eq!(of(b"\x08\x01\x12\x05\x0a\x03tensorflow"), Some(Reason::ProgramOfTensorflow));
    }

    #[test]
    fn programs_are_not_mistaken_for_them() {
        for text in [
            "",
            "module  {}",
            "module {\n// import jax: from tensorflow by jax.jit\n}",
            "\n// tensorflow\nfunc.func @main() { return }",
            "#loc = loc(\"jax.jit\")\nmodule {}",
            "from",
            "define",
            "// jax.jit(f)\nfunc.func @main",
        ] {
            assert_eq!(of(text.as_bytes()), None, "{text}");
        }
        assert_eq!(of(b"ML\xefR\x0dMLIR\0"), None);
        assert_eq!(of(b"\x80"), None);
    }
}
