//! A program for a plugin that is older, or reads other forms of programs: the same in words that the plugin knows. And one for a
//! compiler that misreads constants, or sorts beyond its arrays.

mod barrier;
mod bytes;
mod folding;
mod joined;
mod mulhi;
mod older;
mod placement;
mod portable;
pub mod refine;
mod resources;
mod sorting;

use crate::exported::dims::Given;
use crate::names::{self, normal};
use crate::program::stablehlo::{Version, Versions};
use crate::program::{Format, Program};
use memchr::memmem;
use older::{MESH_AXES, NEWER};
use pjrt_base::error::{Error, Kind, Result, INVALID_ARGUMENT, UNIMPLEMENTED, UNKNOWN};
use pjrt_ir::module::annotations::{is_dynamic, Array};
use pjrt_ir::module::mesh;
use pjrt_ir::module::{Module, Operation};
use pjrt_ir::text::{self, end_of_brackets};
use std::ops::Range;

/// In the error of XLA for an operation of a dynamic size.
const UNTRANSLATED: &str = "can't be translated to XLA HLO";

/// The version that is assumed of a plugin that does not say which it reads.
const OLDEST: Version = Version([1, 0, 0]);

impl Program {
    /// After a compiler has refused the program: the same in words of `versions`, those that the plugin reads, and with fixed
    /// sizes, as text. `None` if the error has another reason.
    ///
    /// # Errors
    /// `ProgramVersion`, which names the operation, for what has no older form, and `DynamicShape` for what has no fixed size.
    #[cold]
    pub fn rewritten(&self, versions: Option<Versions>, error: &Error) -> Result<Option<Program>> {
        if self.format() != Format::Mlir {
            return Ok(None);
        }
        let current = versions.map_or(OLDEST, |versions| versions.current);
        let written = |mut module: Module| {
            older::make_older(&mut module, current, true)?;
            Program::new(module.text()?.into_bytes(), Format::Mlir).map(Some)
        };
        if placement::is_unknown(error) {
            let Ok(mut module) = self.whole_module("") else { return Ok(None) };
            placement::remove(&mut module);
            return written(module);
        }
        if !matches!(error.code(), Some(UNKNOWN | INVALID_ARGUMENT | UNIMPLEMENTED)) {
            return Ok(None);
        }
        let may_be_dynamic = self.bytecode().is_some() || self.code().contains(&b'?');
        let module = may_be_dynamic.then(|| self.whole_module("").ok()).flatten();
        if let Some(fixed) = module.as_ref().map_or(Ok(None), |module| self.with_fixed_sizes(module, error))? {
            return written(fixed);
        }
        let is_read = |version| versions.is_some_and(|v| (v.minimum..=v.current).contains(&version));
        // It does not upgrade everything that it reads, such as an old scatter with an exponential in it.
        let is_old = error.message().contains("Failed to upgrade");
        match self.bytecode() {
            None => older_text(self.code(), current)?.map(|text| Program::new(text, Format::Mlir)).transpose(),
            Some(_) if !is_old && self.stablehlo_version().is_some_and(is_read) => Ok(None),
            Some(_) => module.map_or(Ok(None), written),
        }
    }

    /// The names of its arguments, without `%`; as decoded code names them, where they have none: `arg0`.
    pub fn argument_names(&self) -> Vec<String> {
        let name = |(i, input): (usize, &Array)| match &input.name {
            Some(name) => name.trim_start_matches('%').to_owned(),
            None => format!("arg{i}"),
        };
        self.annotations().inputs.iter().flatten().enumerate().map(name).collect()
    }

    /// The program for arguments of these shapes. Arguments of fixed shapes may be left out.
    ///
    /// # Errors
    /// `InvalidInput` for a name that no argument has, `ShapeMismatch` for a shape that the program refuses, and `DynamicShape`
    /// if sizes cannot be fixed or some are missing.
    pub fn with_shapes(&self, given: &[Given<'_>]) -> Result<Program> {
        ensure!(self.format() == Format::Mlir, InvalidInput, "An HLO module has fixed shapes: no others can be given.");
        let mut sizes: Vec<_> = self.annotations().inputs.iter().flatten().map(|input| input.dims.clone()).collect();
        let names = self.argument_names();
        let arguments: Vec<_> = names.iter().map(String::as_str).collect();
        for Given { name, dims } in given {
            let Some(place) = names::find(&arguments, name) else {
                bail!(InvalidInput, "The program has no argument `{}`, but {}.", normal(name), arguments.join(", "));
            };
            sizes[place] = Some(dims.to_vec());
        }
        let missing: Vec<_> =
            arguments.iter().zip(&sizes).filter(|(_, size)| size.is_none()).map(|(&name, _)| name).collect();
        if !missing.is_empty() {
            bail!(DynamicShape, "`shapes` lacks the shape of some of these arguments: {}.", missing.join(", "));
        }
        let sizes: Vec<_> = sizes.into_iter().flatten().collect();
        let module = self.whole_module("A program is written again with the shapes of its arguments")?;
        let text = refine::refine(&module, &sizes, &[])?.text()?;
        Program::new(text.into_bytes(), Format::Mlir)
    }

    /// The program as it is to be written again, from MLIR. Errors about a line of its text begin with `why`.
    ///
    /// # Errors
    /// `UnsupportedProgram` for what is not known here, and `InvalidFile` for damage.
    fn whole_module(&self, why: &str) -> Result<Module> {
        if self.bytecode().is_some() {
            return Module::decode(self.code());
        }
        let numbers = resources::inline(self.code());
        let inlined = if numbers.is_empty() { None } else { changed(self.code(), numbers) };
        text::whole(inlined.as_deref().unwrap_or(self.code())).map_err(|error| {
            let message = format!("{why}, and {}", error.message());
            error.reworded(message)
        })
    }

    /// Its module with fixed sizes inside, which follow from the arguments' sizes; `None` if all are fixed already.
    fn with_fixed_sizes(&self, module: &Module, error: &Error) -> Result<Option<Module>> {
        if !module.types.iter().any(is_dynamic) {
            return Ok(None);
        }
        let inputs = self.annotations().inputs.iter().flatten().map(|input| input.dims.clone());
        let Some(sizes) = inputs.collect::<Option<Vec<_>>>() else { return Ok(None) };
        match refine::refine(module, &sizes, &[]) {
            Ok(refined) => Ok(Some(refined)),
            Err(unfixed) if unfixed.kind() == Kind::DynamicShape && error.message().contains(UNTRANSLATED) => {
                Err(unfixed)
            }
            Err(_) => Ok(None),
        }
    }
}

/// Replaces each operation in the regions of another one, the innermost first, by those that `replace` adds to its block.
fn replace_each(operation: &mut Operation, replace: &mut impl FnMut(Operation, &mut Vec<Operation>)) {
    for block in operation.blocks_mut() {
        for mut operation in std::mem::take(&mut block.operations) {
            replace_each(&mut operation, replace);
            replace(operation, &mut block.operations);
        }
    }
}

/// Text without what is newer; `None` if nothing is.
fn older_text(text: &[u8], current: Version) -> Result<Option<Vec<u8>>> {
    let mut changes = bits_of_bytes(text);
    changes.extend(resources::inline(text));
    if current < MESH_AXES {
        changes.extend(explicit_groups(text));
    }
    let changed = if changes.is_empty() { None } else { changed(text, changes) };
    let text = changed.as_deref().unwrap_or(text);
    if NEWER.iter().any(|word| memmem::find(text, word.as_bytes()).is_some()) {
        if let Ok(mut module) = text::whole(text) {
            let is_older = older::make_older(&mut module, current, true)?;
            return if is_older { module.text().map(|text| Some(text.into_bytes())) } else { Ok(changed) };
        }
    }
    Ok(changed)
}

/// Text with these changes.
fn changed(text: &[u8], mut changes: Vec<Change>) -> Option<Vec<u8>> {
    changes.sort_by_key(|(range, _)| range.start);
    let mut out = Vec::with_capacity(text.len());
    let mut done = 0;
    for (range, new) in changes {
        out.extend_from_slice(text.get(done..range.start)?);
        out.extend_from_slice(new.as_bytes());
        done = range.end;
    }
    out.extend_from_slice(text.get(done..)?);
    Some(out)
}

/// A part of a text, and what stands there instead.
type Change = (Range<usize>, String);

/// Constants of truth values with a byte for each: older MLIR expects a bit.
fn bits_of_bytes(text: &[u8]) -> Vec<Change> {
    const START: &[u8] = b"dense<\"0x";
    let constant = |at: usize| {
        let from = at + START.len();
        let len = memchr::memchr(b'"', &text[from..])?;
        let digits = &text[from..from + len];
        let kind = text[from + len + 1..].strip_prefix(b"> : tensor<")?;
        let kind = std::str::from_utf8(&kind[..memchr::memchr(b'>', kind)?]).ok()?;
        let mut sizes = kind.strip_suffix("xi1")?.split('x').map(|size| size.parse::<usize>().ok());
        let count = sizes.try_fold(1usize, |count, size| count.checked_mul(size?))?;
        if count < 2 || Some(len) != count.checked_mul(2) {
            return None;
        }
        let values: Vec<bool> = digits.chunks_exact(2).map(|digits| digits != b"00").collect();
        let byte = |bits: &[bool]| bits.iter().rev().fold(0u8, |byte, &bit| byte << 1 | u8::from(bit));
        let bytes: String = values.chunks(8).map(|bits| format!("{:02X}", byte(bits))).collect();
        Some((from..from + len, bytes))
    };
    memmem::find_iter(text, START).filter_map(constant).collect()
}

/// Groups along axes of a mesh, as lists of devices.
fn explicit_groups(text: &[u8]) -> Vec<Change> {
    let change = |at: usize| {
        let rest = std::str::from_utf8(&text[at..]).ok()?;
        let attribute = &rest[..end_of_brackets(rest.as_bytes())?];
        let groups = mesh::explicit_groups(attribute, |name| mesh_of(text, name))?;
        Some((at..at + attribute.len(), groups))
    };
    memmem::find_iter(text, mesh::GROUPS).filter_map(change).collect()
}

/// The text of the mesh of this name: `sdy.mesh @name = <["x"=2]>`, or with
/// `"sdy.mesh"() {mesh = #sdy.mesh<["x"=2]>, sym_name = "name"}`.
fn mesh_of<'a>(text: &'a [u8], name: &str) -> Option<&'a str> {
    const OPERATION: &[u8] = b"sdy.mesh";
    let symbol = format!("sym_name = \"{name}\"");
    let found = memmem::find_iter(text, OPERATION).find_map(|at| {
        let rest = &text[at + OPERATION.len()..];
        if let Some(rest) = rest.trim_ascii_start().strip_prefix(b"@") {
            let rest = rest.strip_prefix(name.as_bytes())?.trim_ascii_start();
            return rest.strip_prefix(b"=").map(<[u8]>::trim_ascii_start);
        }
        let line = &rest[..memchr::memchr(b'\n', rest).unwrap_or(rest.len())];
        memmem::find(line, symbol.as_bytes())?;
        memmem::find(line, OPERATION).map(|at| &line[at..])
    })?;
    std::str::from_utf8(&found[..end_of_brackets(found)?]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLUGIN: Versions = Versions { minimum: Version([0, 9, 0]), current: Version([1, 13, 3]) };

    fn rewritten(code: Vec<u8>) -> Result<Option<String>> {
        let refused = Error::new(Kind::Pjrt(UNKNOWN), "Unknown attribute code: 23.");
        let program = Program::new(code, Format::Mlir)?.rewritten(Some(PLUGIN), &refused)?;
        Ok(program.map(|program| program.text()))
    }

    fn fixture(name: &str) -> Vec<u8> {
        std::fs::read(format!("{}/fixtures/newer/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
    }

    #[test]
    fn what_has_an_older_form_is_rewritten() {
        let groups = "dense<[[0, 6, 1, 7, 2, 8], [3, 9, 4, 10, 5, 11]]> : tensor<2x6xi64>";
        for name in ["mesh.artifact", "mesh.mlirbc", "own-mesh.artifact"] {
            let text = rewritten(fixture(name)).unwrap().unwrap();
            assert!(text.contains(&format!("replica_groups = {groups}")) && !text.contains("stablehlo.mesh"), "{text}");
        }
        let text = rewritten(fixture("composite.artifact")).unwrap().unwrap();
        assert!(text.contains("call @g(%arg0)") && !text.contains("composite"), "{text}");
        let text = rewritten(fixture("chlo.mlirbc")).unwrap().unwrap();
        assert!(text.contains("chlo.erf") && text.contains("#chlo<comparison_direction GE>"), "{text}");
        let text = rewritten(fixture("types.mlirbc")).unwrap().unwrap();
        for kind in ["f8E4M3B11FNUZ", "f4E2M1FN", "f6E3M2FN", "f8E8M0FNU", "ui2"] {
            assert!(text.contains(&format!("tensor<2x{kind}>")), "{kind}");
        }
    }

    #[test]
    fn what_has_no_older_form_is_named() {
        let text = Module::decode(&fixture("reduction.artifact")).unwrap().text().unwrap();
        for code in [fixture("reduction.artifact"), text.into()] {
            let error = rewritten(code).unwrap_err();
            assert_eq!(error.kind(), Kind::ProgramVersion);
            assert!(error.message().contains("`stablehlo.collective_reduce` in function `main`"), "{error}");
        }
    }

    #[test]
    fn operations_that_begin_and_end_apart_are_joined() {
        let text = |begin: &str, end: &str| {
            format!(
                "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{\n  %0 = \"stablehlo.async_start\"(%x) ({{\n  ^bb0(%y: \
                 tensor<4xf32>):\n    {begin}\n    stablehlo.return %r : tensor<4xf32>\n  }}) : (tensor<4xf32>) -> \
                 !stablehlo.future<tensor<4xf32>>\n  %1 = stablehlo.negate %x : tensor<4xf32>\n  {end}\n  return %3 : \
                 tensor<4xf32>\n}}"
            )
        };
        let done = "\"stablehlo.async_done\"(%0) : (!stablehlo.future<tensor<4xf32>>) -> tensor<4xf32>";
        let cosine = "%r = stablehlo.cosine %y : tensor<4xf32>";
        let whole = text(cosine, &format!("%2 = {done}\n  %3 = stablehlo.add %1, %2 : tensor<4xf32>"));
        let found = rewritten(whole.into()).unwrap().unwrap();
        let order = ["stablehlo.cosine %x", "stablehlo.negate %x", "stablehlo.add"].map(|part| found.find(part));
        assert!(order.is_sorted() && order[0].is_some() && !found.contains("async"), "{found}");
        let found = rewritten(fixture("../newer.mlirbc")).unwrap().unwrap();
        assert!(found.contains("\"stablehlo.all_gather\"(%arg0)") && !found.contains("future"), "{found}");
        // One in another, and one whose result another takes.
        let nested = format!(
            "%a = \"stablehlo.async_start\"(%y) ({{\n  ^bb0(%z: tensor<4xf32>):\n  %r = stablehlo.sine %z : \
             tensor<4xf32>\n  stablehlo.return %r : tensor<4xf32>\n  }}) : (tensor<4xf32>) -> \
             !stablehlo.future<tensor<4xf32>>\n  %b = {}\n  %r = stablehlo.tanh %b : tensor<4xf32>",
            done.replace("%0", "%a")
        );
        let found = rewritten(text(&nested, &format!("%3 = {done}")).into()).unwrap().unwrap();
        let order = ["stablehlo.sine %x", "stablehlo.tanh"].map(|part| found.find(part));
        assert!(order.is_sorted() && order[0].is_some() && !found.contains("async"), "{found}");
        // The future goes elsewhere.
        let kept = "%4 = stablehlo.optimization_barrier %0 : !stablehlo.future<tensor<4xf32>>\n  %3 = ".to_owned();
        let error = rewritten(text(cosine, &(kept + &done.replace("%0", "%4"))).into()).unwrap_err();
        assert!(error.message().contains("no `stablehlo.async_start` in function `main`"), "{error}");
    }

    #[test]
    fn upper_halves_of_products_are_multiplied_out() {
        let text = |kind: &str| {
            format!(
                "func.func @main(%x: {kind}, %y: {kind}) -> {kind} {{\n  %0 = chlo.mulhi %x, %y : {kind}, {kind} -> {kind}\n  \
                 %1 = \"chlo.mulhi\"(%0, %y) : ({kind}, {kind}) -> {kind}\n  return %1 : {kind}\n}}"
            )
        };
        for (kind, shift) in [("tensor<2x3xi64>", "arithmetic"), ("tensor<ui8>", "logical")] {
            let found = rewritten(text(kind).into()).unwrap().unwrap();
            assert_eq!(found.matches("stablehlo.multiply").count(), 2 * 4, "{found}");
            let logical = if shift == "logical" { 2 * 5 } else { 2 };
            assert_eq!(found.matches("stablehlo.shift_right_logical").count(), logical, "{found}");
            assert!(found.contains(&format!("stablehlo.shift_right_{shift}")) && !found.contains("chlo"), "{found}");
        }
        // The compiler says what is wrong with others.
        for kind in ["tensor<2xf32>", "tensor<2xi1>"] {
            assert!(rewritten(text(kind).into()).unwrap().is_none(), "{kind}");
        }
    }

    #[test]
    fn programs_without_properties_are_read() {
        let text = Module::decode(&fixture("uniform.artifact")).unwrap().text().unwrap();
        assert!(text.contains("#stablehlo<rng_distribution UNIFORM>"), "{text}");
    }

    #[test]
    fn a_program_that_the_plugin_should_read_stays() {
        assert!(rewritten(fixture("uniform.artifact")).unwrap().is_none());
        let text = "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }";
        assert!(rewritten(text.into()).unwrap().is_none());
        let exhausted = Error::new(Kind::Pjrt(8), "Out of memory.");
        let program = Program::new(fixture("mesh.artifact"), Format::Mlir).unwrap();
        assert!(program.rewritten(Some(PLUGIN), &exhausted).unwrap().is_none());
    }

    #[test]
    fn sizes_that_follow_from_the_arguments_become_fixed() {
        let text = |operation: &str| {
            format!(
                "func.func @main(%x: tensor<3x4xf32>) -> tensor<3x4xf32> {{\n  %0 = stablehlo.convert %x : (tensor<3x4xf32>) -> \
                 tensor<?x4xf32>\n  %1 = call @f(%0) : (tensor<?x4xf32>) -> tensor<?x4xf32>\n  %2 = stablehlo.convert %1 : \
                 (tensor<?x4xf32>) -> tensor<3x4xf32>\n  return %2 : tensor<3x4xf32>\n}}\nfunc.func private @f(%x: \
                 tensor<?x4xf32>) -> tensor<?x4xf32> {{\n  {operation}\n  return %r : tensor<?x4xf32>\n}}"
            )
        };
        let text = rewritten(text("%r = stablehlo.add %x, %x : tensor<?x4xf32>").into()).unwrap().unwrap();
        assert!(text.contains("stablehlo.add") && !text.contains('?'), "{text}");
        assert!(rewritten(b"func.func @main(%x: tensor<3xf32>) -> tensor<?xf32> { }".to_vec()).unwrap().is_none());
    }

    #[test]
    fn text_says_groups_and_truth_values_in_older_words() {
        let text = |groups: &str, bytes: &str| {
            format!(
                "sdy.mesh @mesh = <[\"x\"=2, \"y\"=2]>\nfunc.func @main() {{\n  \"stablehlo.all_reduce\"() {{replica_groups = \
                 {groups}}}\n  stablehlo.constant dense<\"0x{bytes}\"> : tensor<5x2xi1>\n  stablehlo.constant dense<\"0x01\"> : \
                 tensor<1xi8>\n  return\n}}\n"
            )
        };
        let new = "#stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [#stablehlo.axis_ref<name = \"y\">]>";
        let found = rewritten(text(new, "01000001000000010100").into()).unwrap().unwrap();
        assert_eq!(found, text("dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>", "8901"));
        // The text that this package writes.
        let written = Module::decode(&fixture("mesh.mlirbc")).unwrap().text().unwrap();
        let found = rewritten(written.into()).unwrap().unwrap();
        assert!(found.contains("replica_groups = dense<[[0, 6, 1, 7, 2, 8], [3, 9,"), "{found}");
        // With a bit for each, it is what older MLIR reads.
        assert!(rewritten(text("dense<0> : tensor<1x1xi64>", "8901").into()).unwrap().is_none());
    }
}
