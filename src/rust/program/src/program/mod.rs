//! Programs, the input of a compiler: StableHLO as text or bytecode, or a serialized HLO module.

mod content;
mod diagnostic;
pub mod exported_program;
pub mod stablehlo;
mod suggest;

use crate::callable::{self, Callable};
use crate::exported;
use crate::names;
use pjrt_base::error::{Error, Kind, Result};
use pjrt_base::room;
use pjrt_data::dtype::DType;
use pjrt_ir::bytecode::{self, MAGIC};
use pjrt_ir::hlo::{
    AliasEntryProto, BufferDonorProto, DonorEntryProto, HloModuleProto, InputOutputAliasProto, ProgramShapeProto,
    ShapeProto, TUPLE,
};
use pjrt_ir::module::annotations::{self, Annotations, Array};
use pjrt_ir::module::{Module, Type};
use pjrt_ir::text;
use std::sync::Arc;

/// What some editors write in front of text.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// MLIR, as text or bytecode.
    Mlir,
    /// A serialized `HloModuleProto`.
    Hlo,
}

impl Format {
    /// The format's name in PJRT.
    pub fn name(self) -> &'static str {
        match self {
            Format::Mlir => "mlir",
            Format::Hlo => "hlo",
        }
    }
}

/// A program, not yet compiled; clones share its code.
///
/// ```
/// use pjrt_program::program::{Format, Program};
/// let text = "func.func @main(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }";
/// let program = Program::new(text.into(), Format::Mlir)?;
/// assert_eq!((program.input_names(), program.whole_text()?), (vec!["%x".to_owned()], text.to_owned()));
/// # Ok::<(), pjrt_base::error::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Program {
    code: Arc<Vec<u8>>,
    format: Format,
    annotations: Arc<Annotations>,
    /// Names of the inputs that are better than those in the code.
    names: Option<Arc<Vec<String>>>,
}

impl Program {
    /// Checks a program's code for constructs that would crash a compiler. Of an exported function of JAX, takes the
    /// program in it.
    ///
    /// # Errors
    /// `InvalidFile` for empty code, data in other formats and `hlo` programs that are not HLO modules; `InvalidInput` for
    /// exported functions whose program cannot be compiled as it is, and `hlo` programs that are optimized already; and the
    /// errors of the checks of text and bytecode.
    pub fn new(mut code: Vec<u8>, format: Format) -> Result<Program> {
        if format == Format::Mlir && code.starts_with(BYTE_ORDER_MARK) {
            code.drain(..BYTE_ORDER_MARK.len());
        }
        ensure!(!code.is_empty(), InvalidFile, "The program is empty.");
        if format == Format::Mlir && !code.starts_with(MAGIC) {
            if let Some(module) = exported::plain_module(&code)? {
                return Program::new(module.to_vec(), format);
            }
        }
        // A copy of text without its comments; a module as its parts, most of them small.
        let copies = if format == Format::Hlo { 8 } else { 1 };
        room::check_room(copies * code.len(), "to read the program")?;
        let annotations = match format {
            Format::Hlo => {
                let module = HloModuleProto::from_bytes(&code).map_err(|error| {
                    content::check(&code).err().unwrap_or_else(|| {
                        let message = format!("The program is not a serialized HloModuleProto: {error}.");
                        Error::new(Kind::InvalidFile, message).hint("A StableHLO program has format \"mlir\".")
                    })
                })?;
                // XLA may abort on modules that its compiler has made.
                if module.schedule.is_some() || module.has_opcode("fusion") {
                    return Err(Error::new(Kind::InvalidInput, "A compiler has already optimized the HLO module.")
                        .hint("Programs can be optimized only once: use the original program."));
                }
                module.check_sizes()?;
                if !module.has_consistent_shape() {
                    let message =
                        "The HLO module is damaged: its inputs and result do not match its entry computation.";
                    return Err(Error::new(Kind::InvalidFile, message).hint("Export or copy it again."));
                }
                if let Some(ordered) = pjrt_ir::hlo::with_order(&code, &module)? {
                    code = ordered;
                }
                module.annotations()
            }
            Format::Mlir => match code.strip_prefix(MAGIC) {
                Some(bytecode) => bytecode::check(bytecode)?,
                None => {
                    content::check(&code)?;
                    text::check(&code)?
                }
            },
        };
        Ok(Program { code: Arc::new(code), format, annotations: Arc::new(annotations), names: None })
    }

    /// The program with these names for its inputs, instead of those in its code.
    #[must_use]
    pub fn with_input_names(self, names: Vec<String>) -> Program {
        Program { names: Some(Arc::new(names)), ..self }
    }

    /// The names that its inputs were given, if any.
    pub fn given_names(&self) -> Option<&[String]> {
        self.names.as_deref().map(Vec::as_slice)
    }

    /// Its annotations about devices.
    pub fn annotations(&self) -> &Annotations {
        &self.annotations
    }

    pub fn code(&self) -> &[u8] {
        &self.code
    }

    pub fn format(&self) -> Format {
        self.format
    }

    /// The name of its module; `None` without one, and for bytecode that cannot be decoded.
    pub fn name(&self) -> Option<String> {
        let name = match (self.format, self.bytecode()) {
            (Format::Mlir, None) => text::module_name(&self.code)?,
            (Format::Mlir, Some(_)) => self.module().ok()?.root.symbol()?.to_owned(),
            (Format::Hlo, _) => self.hlo()?.name,
        };
        Some(name).filter(|name| !name.is_empty())
    }

    /// Its operations, for readers: without what is not known here.
    ///
    /// # Errors
    /// `InvalidFile` for damage, and `UnsupportedProgram` for bytecode of an encoding that is not known here.
    pub(crate) fn module(&self) -> Result<Module> {
        match (self.format, self.bytecode()) {
            (Format::Mlir, None) => Ok(text::module(&self.code)),
            (Format::Mlir, Some(_)) => bytecode::decode(&self.code, true),
            (Format::Hlo, _) => Ok(self.hlo().unwrap_or_default().to_module()),
        }
    }

    pub(crate) fn hlo(&self) -> Option<HloModuleProto> {
        HloModuleProto::from_bytes(&self.code).ok()
    }

    /// The MLIR bytecode after its magic number, the form of StableHLO's portable artifacts; `None` for text.
    pub fn bytecode(&self) -> Option<&[u8]> {
        self.code.strip_prefix(MAGIC).filter(|_| self.format == Format::Mlir)
    }

    /// The names of the program's inputs, `%x` in MLIR text; empty if they cannot be read, or some have none.
    pub fn input_names(&self) -> Vec<String> {
        match self.format {
            Format::Mlir => {
                let inputs = self.annotations.inputs.iter().flatten();
                inputs.map(|input| input.name.clone()).collect::<Option<_>>().unwrap_or_default()
            }
            Format::Hlo => {
                let names =
                    |module: HloModuleProto| names::of_parameters(module.input_names(), &module.recorded_names());
                self.hlo().map(names).unwrap_or_default()
            }
        }
    }

    /// Its function, if dimensions of its inputs have no sizes: `None` if all have, or are unknown.
    ///
    /// # Errors
    /// As [`Callable::of_names`].
    pub fn function(&self) -> Result<Option<Callable>> {
        let Annotations { inputs: Some(inputs), outputs: Some(outputs), num_replicas, num_partitions } =
            &*self.annotations
        else {
            return Ok(None);
        };
        if inputs.iter().all(|input| input.dynamic.is_none()) {
            return Ok(None);
        }
        let kind = |array: &Array| callable::typed(array.dtype.map_or("", DType::name), &array.shape());
        let input = |array: &Array| callable::Input {
            kind: kind(array),
            kept: true,
            donated: array.is_donated,
            symbolic: array.dynamic.is_some(),
        };
        let named = |array: &Array| (array.name.clone().unwrap_or_default(), input(array));
        let names = names::of_outputs(outputs.iter().map(|output| output.path.as_deref())).unwrap_or_default();
        let output = |(i, array): (usize, &Array)| (names.get(i).cloned().unwrap_or_default(), kind(array));
        let devices = num_replicas.unwrap_or(1).saturating_mul(num_partitions.unwrap_or(1));
        Callable::of_names(
            "main",
            inputs.iter().map(named).collect(),
            outputs.iter().enumerate().map(output).collect(),
            u32::try_from(devices).unwrap_or(u32::MAX),
        )
        .map(Some)
    }

    /// Its inputs, outputs and aliases, as the interface of a compiled module; `None` if they cannot be read or are not arrays
    /// of fixed shapes.
    pub fn interface(&self) -> Option<HloModuleProto> {
        if self.format == Format::Hlo {
            return self.hlo().map(|module| module.interface());
        }
        let (inputs, outputs) = self.annotations.specs()?;
        let mut results: Vec<_> = outputs.iter().map(ShapeProto::of).collect();
        let result = match results.len() {
            1 => results.pop(),
            _ => Some(ShapeProto { element_type: TUPLE, tuple_shapes: results, ..Default::default() }),
        };
        let parameters = inputs.iter().map(ShapeProto::of).collect();
        let arguments = || self.annotations.inputs.iter().flatten().zip(0..);
        let alias = |(input, parameter_number): (&Array, i64)| {
            let output = input.alias?;
            let output_shape_index = if outputs.len() == 1 { Vec::new() } else { vec![output as i64] };
            Some(AliasEntryProto { output_shape_index, parameter_number, ..Default::default() })
        };
        let donated = arguments().filter(|(input, _)| input.alias.is_none() && input.is_donated);
        let donor = |(_, parameter_number)| DonorEntryProto { parameter_number, ..Default::default() };
        Some(HloModuleProto {
            name: self.name().unwrap_or_else(|| "main".into()),
            host_program_shape: Some(ProgramShapeProto { parameters, result, ..Default::default() }),
            input_output_alias: Some(InputOutputAliasProto { entries: arguments().filter_map(alias).collect() }),
            buffer_donor: Some(BufferDonorProto { entries: donated.map(donor).collect() }),
            ..Default::default()
        })
    }

    /// Checks that the arguments of its main function have fixed shapes. A compiler may find out the shapes of results.
    ///
    /// # Errors
    /// `DynamicShape`, which lists the arguments and results without a fixed shape.
    pub fn check_shapes(&self) -> Result<()> {
        let found = self.dynamic_arrays();
        match found.first() {
            Some(first) if first.starts_with("argument") => Err(diagnostic::dynamic_shape(&found)),
            _ => Ok(()),
        }
    }

    /// The arguments and results of its main function without a fixed shape, in words; empty if unknown.
    pub(crate) fn dynamic_arrays(&self) -> Vec<String> {
        self.arrays_in_words(|array| array.dynamic.as_ref())
    }

    /// Those that are of a kind.
    fn arrays_in_words(&self, kind: fn(&Array) -> Option<&Type>) -> Vec<String> {
        let words = |what: &str, arrays: &Option<Vec<Array>>| {
            let arrays = arrays.iter().flatten().enumerate();
            let word = |(i, array): (usize, &Array)| {
                let name = array.name.as_ref().map(|name| format!(" (`{name}`)")).unwrap_or_default();
                Some(format!("{what} {}{name} is {}", i + 1, annotations::shown(kind(array)?)?))
            };
            arrays.filter_map(word).collect::<Vec<_>>()
        };
        [words("argument", &self.annotations.inputs), words("result", &self.annotations.outputs)].concat()
    }

    /// Whether its shardings are Shardy's, not the older GSPMD's.
    pub fn is_for_shardy(&self) -> bool {
        let is_text = self.format == Format::Mlir && self.bytecode().is_none();
        text::names_dialect(&self.code, "sdy", is_text)
    }

    /// The whole program as text, which compiles to the same executable if it is MLIR; bytecode is decoded.
    ///
    /// # Errors
    /// `UnsupportedProgram` for bytecode that cannot be decoded.
    pub fn whole_text(&self) -> Result<String> {
        if self.bytecode().is_none() {
            return Ok(self.text());
        }
        let mut module = Module::decode(&self.code)?;
        module.root.without_regions_of_composites();
        module.text()
    }

    /// The program for a reader: MLIR text as it is, an HLO module as its proto's text form.
    pub fn text(&self) -> String {
        match self.format {
            Format::Mlir if self.bytecode().is_some() => format!("<MLIR bytecode, {} bytes>\n", self.code.len()),
            // A NUL character is a space in MLIR.
            Format::Mlir => String::from_utf8_lossy(&self.code).replace('\0', " "),
            Format::Hlo => self.hlo().map(|module| module.debug_text()).unwrap_or_default().replace('\0', "\u{fffd}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pjrt_data::array::Spec;
    use pjrt_ir::hlo::{HloComputationProto, HloInstructionProto};

    #[test]
    fn programs_that_would_crash_a_compiler_are_refused() {
        let deep = "(".repeat(10_000).into_bytes();
        assert_eq!(Program::new(deep, Format::Mlir).unwrap_err().kind(), Kind::InvalidInput);
        assert_eq!(Program::new(Vec::new(), Format::Mlir).unwrap_err().kind(), Kind::InvalidFile);
        assert_eq!(Program::new(b"module {}".to_vec(), Format::Hlo).unwrap_err().kind(), Kind::InvalidFile);
    }

    #[test]
    fn modules_that_a_compiler_has_made_are_refused() {
        let fusion = HloInstructionProto { opcode: "fusion".into(), ..Default::default() };
        let computation = HloComputationProto { instructions: vec![fusion], ..Default::default() };
        let fused = HloModuleProto { computations: vec![computation], ..Default::default() };
        let scheduled = HloModuleProto { schedule: Some(Default::default()), ..Default::default() };
        for module in [fused, scheduled] {
            let error = Program::new(module.to_bytes(), Format::Hlo).unwrap_err();
            assert_eq!(error.kind(), Kind::InvalidInput);
            assert!(error.message().contains("optimized"), "{error}");
        }
        let plain = HloModuleProto { name: "m".into(), ..Default::default() };
        assert!(Program::new(plain.to_bytes(), Format::Hlo).is_ok());
    }

    #[test]
    fn the_program_is_a_portable_artifact() {
        for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/exported")).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|end| end != "jaxexport") {
                continue;
            }
            let name = path.display();
            let content = std::fs::read(&path).unwrap();
            let exported = exported::Exported::read(&content, 0).unwrap();
            assert_eq!(exported::module_of(&content).unwrap(), &content[exported.program.clone()], "{name}");
            let what = exported.needs_more();
            let program = Program::new(content[exported.program].to_vec(), Format::Mlir).unwrap();
            match (Program::new(content, Format::Mlir), what) {
                (Ok(same), None) => assert_eq!(same.code(), program.code(), "{name}"),
                (Err(error), Some(what)) => assert!(error.message().contains(what), "{name}"),
                (other, _) => panic!("{name}: {other:?}"),
            }
        }
    }

    #[test]
    fn arrays_without_a_fixed_shape_are_listed() {
        let of = |text: &str| match Program::new(text.into(), Format::Mlir) {
            Ok(program) => program.dynamic_arrays(),
            Err(error) => panic!("{text}: {error}"),
        };
        assert_eq!(
            of("func.func public @main(%x: tensor<?x3xf32>, %i: tensor<i32>, %z : tensor<2x?xcomplex<f64>> {a = \"?\"}) \
                -> (tensor<?x3xf32> {b = 1}, tensor<2xf32>) {"),
            ["argument 1 (`%x`) is f32[?x3]", "argument 3 (`%z`) is complex<f64>[2x?]", "result 1 is f32[?x3]"]
        );
        assert_eq!(of("func.func @main() -> tensor<?xi1> { }"), ["result 1 is i1[?]"]);
        for text in [
            "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> { // ?\n}",
            "func.func @f(%x: tensor<?xf32>) { }\nfunc.func @main(%x: tensor<2xf32>) { }",
            "func.func @main(%x: tensor<?xf32, #stablehlo.bounds<4>>) { }",
            "func.func @main(%x: tensor<?xf32>",
            "?",
        ] {
            assert_eq!(of(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn the_types_of_arguments_and_results_are_read() {
        let of = |text: &str| {
            let shown = |specs: Vec<Spec>| specs.iter().map(Spec::to_string).collect::<Vec<_>>().join(" ");
            let program = Program::new(format!("{text} {{ }}").into_bytes(), Format::Mlir).unwrap();
            program.annotations.specs().map(|(inputs, outputs)| (shown(inputs), shown(outputs)))
        };
        let text = "func.func @main(%x: tensor<2x 3xi1>, %y: tensor<complex<f64>> {a = \"tensor<f32>\"}, %z: tensor<0xbf16, #e>) \
            -> (tensor<ui4>, tensor<1xf8E4M3FN>)";
        assert_eq!(of(text).unwrap(), ("pred[2x3] c128[] bf16[0]".into(), "ui4[] f8e4m3fn[1]".into()));
        assert_eq!(of("func.func @main()").unwrap(), (String::new(), String::new()));
        for result in ["tensor<?xf32>", "tensor<*xf32>", "tensor<2xindex>", "!stablehlo.token", "tuple<tensor<f32>>"] {
            assert_eq!(of(&format!("func.func @main(%x: tensor<f32>) -> {result}")), None, "{result}");
        }
    }
}
