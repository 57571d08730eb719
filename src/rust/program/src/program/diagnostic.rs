//! Words a compiler's error about a program for its reader: the message without noise, the place, and a suggestion.

mod advice;

use crate::program::{Format, Program};
use pjrt_base::error::{Error, Kind, INVALID_ARGUMENT, UNIMPLEMENTED, UNKNOWN};
use pjrt_base::reason::{Hint, Reason};

/// A mistake that the compiler found.
#[derive(Debug, Default, PartialEq, Eq)]
struct Diagnostic<'a> {
    message: &'a str,
    /// Where it is in the program's text: line and column, counted from 1 and in bytes.
    place: Option<(usize, usize)>,
    /// Where it is in another file, from which the program was made.
    origin: Option<&'a str>,
    /// What the compiler adds, with its place.
    notes: Vec<(&'a str, Option<(usize, usize)>)>,
}

/// The name of the program's text in the compiler's messages.
const TEXT: &str = "-";

/// The start of XLA's advice about versions, which it adds to every mistake in a program.
const ADVICE: &str = "Failed to parse using StableHLO";

/// How much of a line is kept.
const MOST_OF_LINE: usize = 1000;

/// What helps if XLA cannot turn a fusion into machine code.
const LONG_CHAINS: &str = "Newer compilers of XLA fail like this on long chains of operations on each element. Put a \
                           `stablehlo.optimization_barrier` after every few hundred of them, or write a loop.";

/// The handler that compilers call for arguments whose size is known only at a run, and that XLA's CPU plugin lacks.
const SIZED_AT_RUN: &str = "PadToStatic";

/// Explains an error about a program that the compiler cannot parse or verify; others stay as they are.
pub(crate) fn explain(program: &Program, error: Error) -> Error {
    if error.code() == Some(UNIMPLEMENTED) && error.message().contains(SIZED_AT_RUN) {
        let message = "An argument of the program has a size that is known only at each run (`stablehlo.bounds`).";
        let explained = Error::new(Kind::DynamicShape, message)
            .hint("Take the whole array and its size, as two arguments for `stablehlo.set_dimension_size`.")
            .hint(format!("The compiler said: {}", error.message().trim_end()));
        return called_as(explained, &error);
    }
    if program.format() != Format::Mlir || !matches!(error.code(), Some(UNKNOWN | INVALID_ARGUMENT)) {
        return error;
    }
    if error.message().contains("Unbounded dynamism") {
        return dynamic(program, error);
    }
    if error.message().trim_end() == "Unknown MLIR failure" {
        return error.hint(LONG_CHAINS);
    }
    if error.message().contains("primitive_type_invalid") {
        let arrays = program.arrays_in_words(|array| array.unknown.as_ref());
        let is_unranked = arrays.is_empty() && program.whole_text().is_ok_and(|text| text.contains("tensor<*x"));
        return called_as(if is_unranked { unknown_rank() } else { unknown_type(&arrays) }, &error);
    }
    // About operations that compute with elements narrower than a byte, and give wider ones.
    if error.message().contains("custom element sizes on non-sub-byte types") {
        return error.hint("Convert operands that are narrower than a byte first: `stablehlo.convert` to i8.");
    }
    if error.message().contains(" type for attribute: ") {
        return error.hint(
            "Calls take truth values, numbers, strings, dictionaries and lists of numbers such as `array<i64: 1, 2>`.",
        );
    }
    let Some(found) = Diagnostic::read(error.message()) else { return error };
    let text = if program.bytecode().is_some() { &[] } else { program.code() };
    // Programs that were read from text before say that other text's lines.
    let is_own = memchr::memmem::find(text, b"\"-\":").is_none();
    let source = found.place.filter(|_| is_own).and_then(|place| Source::at(text, place));
    let excerpt = source.as_ref().map(|source| format!("\n{}", source.excerpt())).unwrap_or_default();
    let message = found.sentence() + &excerpt;
    let advice = advice::on(found.message, source.as_ref(), text).into_iter().chain(found.remarks()).map(Hint::Text);
    let hints: Vec<Hint> = advice.chain(error.hints().to_vec()).collect();
    let detail = error.message().trim_end().to_owned();
    let (line, column) = source.as_ref().map(|source| (source.line, source.column)).unzip();
    let start = |line: &[u8]| String::from_utf8_lossy(&line[..line.len().min(MOST_OF_LINE)]).into_owned();
    let source = source.map(|source| start(source.content));
    let explained = Error::new(error.kind(), message).hint(Reason::CompileFailed { line, column, source, detail });
    called_as(hints.into_iter().fold(explained, Error::hint), &error)
}

/// The error about a program whose shapes the compiler does not accept.
fn dynamic(program: &Program, error: Error) -> Error {
    let of_text = program.dynamic_arrays();
    let found = if of_text.is_empty() { vec![shape_of_parameter(error.message())] } else { of_text };
    let explained = dynamic_shape(&found).hint(format!("The compiler said: {}", error.message().trim_end()));
    called_as(explained, &error)
}

/// The error about arrays with elements that compilers lack, in words.
fn unknown_type(arrays: &[String]) -> Error {
    let which = if arrays.is_empty() { "an argument or result".to_owned() } else { arrays.join(", ") };
    let message = format!("The program has elements of a type that the compiler lacks: {which}.");
    Error::new(Kind::UnsupportedDtype, message).hint(if arrays.iter().any(|array| array.contains("!quant.")) {
        "Export the program without quantized types: with integers, and floats that scale them."
    } else {
        "Use a type that it has, with a `stablehlo.convert` where that is needed: i64 for `index` and i128, f64 for f80, \
         f32 for tf32, f8 for f6."
    })
}

/// The error about arrays without a rank, which XLA takes for an element type.
fn unknown_rank() -> Error {
    let message = "The program has arrays of unknown rank, such as `tensor<*xf32>`, which no device runs.";
    Error::new(Kind::DynamicShape, message).hint("Give the rank, as in `tensor<?x?xf32>`.")
}

/// The error about these arrays, in words.
pub(crate) fn dynamic_shape(arrays: &[String]) -> Error {
    let message = format!("The program has no fixed shapes, which compilers need: {}.", arrays.join(", "));
    Error::new(Kind::DynamicShape, message).hint(Reason::ShapeDynamic)
}

/// An argument in the compiler's words: `%Arg_0.1 = f32[?,3]{1,0} parameter(0)`.
fn shape_of_parameter(said: &str) -> String {
    let read = || {
        let (shape, rest) = said.split_once(" = ")?.1.split_once(']')?;
        let (number, _) = rest.split_once("parameter(")?.1.split_once(')')?;
        Some(format!("argument {} is {}]", number.parse::<usize>().ok()? + 1, shape.replace(',', "x")))
    };
    read().unwrap_or_else(|| "an array of the program has an unknown size".into())
}

fn called_as(explained: Error, error: &Error) -> Error {
    error.call_name().into_iter().fold(explained, Error::in_call)
}

impl<'a> Diagnostic<'a> {
    /// The first mistake in what a compiler said.
    fn read(said: &'a str) -> Option<Diagnostic<'a>> {
        let lines = || said.lines().filter(|line| !line.contains(ADVICE));
        let Some((at, message)) = lines().find_map(|line| line.split_once(": error: ")) else {
            let first = lines().find(|line| !line.trim().is_empty())?;
            return said.contains(ADVICE).then(|| Diagnostic { message: first.trim(), ..Diagnostic::default() });
        };
        let (file, place) = place(at);
        let is_text = file == TEXT;
        let is_origin = !is_text && place.is_some();
        let notes = lines().filter_map(|line| line.split_once(": note: "));
        let notes = notes.map(|(at, note)| (named(note).1, self::place(at).1));
        let (name, message) = named(message);
        Some(Diagnostic {
            message: message.trim(),
            place: place.filter(|_| is_text),
            origin: is_origin.then_some(at).or(name),
            notes: notes.collect(),
        })
    }

    /// The message without what the compiler tried and its own names.
    fn sentence(&self) -> String {
        let before = |end| move |message: &'a str| message.split(end).next().unwrap_or(message);
        let message = before(". If this is intended, please call")(before(" (tried '")(self.message));
        let message = message.replace("::mlir::stablehlo::", "");
        let origin = self.origin.map(|origin| format!("{origin}: ")).unwrap_or_default();
        format!("The program does not compile: {origin}{}.", message.trim_end_matches(['.', ' ']))
    }

    /// The notes that help a reader.
    fn remarks(&self) -> Vec<String> {
        const NOISE: [&str; 3] = ["see current operation", "Available dialects", "called from"];
        let useful = self.notes.iter().filter(|(note, _)| !NOISE.iter().any(|noise| note.starts_with(noise)));
        let remark = |&(note, place): &(&str, Option<(usize, usize)>)| match place {
            Some((line, column)) if self.place.is_some_and(|own| own.0 != line) => {
                format!("Line {line}, column {column}: {note}.")
            }
            _ => format!("The compiler adds: {note}."),
        };
        useful.map(remark).collect()
    }
}

/// The name of a location before a message, `loc("name"): `, and the message.
fn named(message: &str) -> (Option<&str>, &str) {
    match message.strip_prefix("loc(").and_then(|rest| rest.split_once("): ")) {
        Some((name, message)) => (Some(name.trim_matches('"')), message),
        None => (None, message),
    }
}

/// The file, and line and column, in a place such as `-:2:8`.
fn place(at: &str) -> (&str, Option<(usize, usize)>) {
    let read = || {
        let mut parts = at.rsplitn(3, ':');
        let (column, line) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        Some((parts.next()?, (line > 0 && column > 0).then_some((line, column))))
    };
    read().unwrap_or((at, None))
}

/// A line of a program, and a column in it.
struct Source<'a> {
    line: usize,
    column: usize,
    /// The position of the line in the text.
    start: usize,
    content: &'a [u8],
}

impl<'a> Source<'a> {
    fn at(text: &'a [u8], (line, column): (usize, usize)) -> Option<Source<'a>> {
        let start = match line {
            1 => 0,
            _ => memchr::memchr_iter(b'\n', text).nth(line - 2)? + 1,
        };
        let rest = text.get(start..)?;
        let content = &rest[..memchr::memchr(b'\n', rest).unwrap_or(rest.len())];
        (column <= content.len() + 1).then_some(Source { line, column, start, content })
    }

    /// The line with a mark under the column; of a long line, the part around it.
    fn excerpt(&self) -> String {
        /// The most characters on each side of the column.
        const MOST: usize = 60;
        // No character of a line moves the mark.
        let plain = |bytes: &[u8]| -> Vec<char> {
            let text = String::from_utf8_lossy(bytes);
            text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
        };
        let (before, after) = self.content.split_at(self.column - 1);
        let before = plain(&before[before.len().saturating_sub(4 * MOST)..]);
        let after = plain(&after[..after.len().min(4 * MOST)]);
        let mut left: String = before[before.len().saturating_sub(MOST)..].iter().collect();
        let mut right: String = after[..after.len().min(MOST)].iter().collect();
        if left.len() < self.column - 1 && before.len() >= MOST {
            left.insert_str(0, "...");
        }
        if after.len() > MOST {
            right.push_str("...");
        }
        let number = self.line.to_string();
        let indent = left.chars().count();
        format!("  {number} | {left}{}\n  {:width$} | {:indent$}^", right.trim_end(), "", "", width = number.len())
    }
}

/// The name at the start of a text.
fn name_at(text: &[u8]) -> &str {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"_.$-".contains(byte);
    let mark = usize::from(text.starts_with(b"%"));
    let len = mark + text[mark..].iter().take_while(|byte| is_part(byte)).count();
    std::str::from_utf8(&text[..len]).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "-:2:8: error: custom op 'stablehlo.exp' is unknown\n<unknown>:0: error: Failed to parse using \
                        StableHLO v1.13.3, this could indicate forward incompatibility\n";

    fn explained(text: &str, said: &str) -> Error {
        let program = Program::new(text.into(), Format::Mlir).unwrap();
        explain(&program, Error::new(Kind::Pjrt(UNKNOWN), said).in_call("PJRT_Client_Compile"))
    }

    #[test]
    fn a_mistake_is_shown_in_its_line() {
        let error = explained("func.func @main() {\n  %0 = stablehlo.exp %x\n}", SAID);
        assert_eq!((error.kind(), error.call_name()), (Kind::Pjrt(UNKNOWN), Some("PJRT_Client_Compile")));
        assert_eq!(
            error.message(),
            "The program does not compile: custom op 'stablehlo.exp' is unknown.\n  2 |   %0 = stablehlo.exp %x\n    |        ^"
        );
        let source = Some("  %0 = stablehlo.exp %x".to_owned());
        let detail = SAID.trim_end().to_owned();
        let reason = Reason::CompileFailed { line: Some(2), column: Some(8), source, detail };
        assert_eq!(error.hints(), [reason.into(), Hint::from("Did you mean `stablehlo.exponential`?")]);
        let error = explained("#loc = loc(\"-\":2:8)\nfunc.func @main() {\n  %0 = stablehlo.exp %x loc(#loc)\n}", SAID);
        assert_eq!(error.message(), "The program does not compile: custom op 'stablehlo.exp' is unknown.");
    }

    #[test]
    fn other_places_and_notes_are_read() {
        let read = |said| Diagnostic::read(said).unwrap();
        let found = read("model.py:12:3: error: 'a' op is wrong\nmodel.py:12:3: note: see current operation: x");
        assert_eq!(found.sentence(), "The program does not compile: model.py:12:3: 'a' op is wrong.");
        assert_eq!((found.place, found.remarks()), (None, Vec::new()));
        let found = read(concat!(
            "<unknown>:0: error: loc(\"q\"): 'a' op is wrong\n",
            "<unknown>:0: note: loc(\"q\"): see current operation: x\n<unknown>:0: note: called from"
        ));
        assert_eq!(found.sentence(), "The program does not compile: q: 'a' op is wrong.");
        assert_eq!(found.remarks(), Vec::<String>::new());
        let found = read("-:2:3: error: twice\n-:1:17: note: previously defined here\n-:2:3: note: add a dot");
        assert_eq!(found.remarks(), ["Line 1, column 17: previously defined here.", "The compiler adds: add a dot."]);
        assert_eq!(read("-:0:0: error: no main").place, None);
        assert_eq!(read("Broken.\n<unknown>:0: error: Failed to parse using StableHLO").message, "Broken.");
        for other in ["", "No such option", "<unknown>:0: error: Failed to parse using StableHLO"] {
            assert_eq!(Diagnostic::read(other), None, "{other}");
        }
    }

    #[test]
    fn a_failure_without_a_reason_gets_the_usual_one() {
        let error = explained("module {}", "Unknown MLIR failure");
        assert_eq!((error.message(), error.hints()), ("Unknown MLIR failure", &[Hint::from(LONG_CHAINS)][..]));
    }

    #[test]
    fn what_calls_and_arguments_cannot_be_is_explained() {
        for said in ["Unsupported attribute type for attribute: b", "Unsupported array element type for attribute: m"] {
            let error = explained("module {}", said);
            assert!(error.message() == said && error.hints()[0].contains("`array<i64: 1, 2>`"), "{error}");
        }
        let program = Program::new(b"module {}".to_vec(), Format::Mlir).unwrap();
        let said = "Custom call target PadToStatic is not implemented.";
        let error = explain(&program, Error::new(Kind::Pjrt(UNIMPLEMENTED), said));
        assert_eq!(error.kind(), Kind::DynamicShape);
        assert!(error.hints()[1].contains(said), "{error}");
    }

    #[test]
    fn errors_about_other_things_stay() {
        let error = explained("module {}", "No such option: 'a'");
        assert_eq!((error.message(), error.hints().len()), ("No such option: 'a'", 0));
    }

    #[test]
    fn dynamic_shapes_are_named() {
        let said = "during context [hlo verifier]: Unbounded dynamism is disabled for instruction: %Arg_1.1 = \
                    f32[?,3]{1,0} parameter(1)";
        let error = explained("module {}", said);
        assert_eq!(error.kind(), Kind::DynamicShape);
        assert!(error.message().ends_with(": argument 2 is f32[?x3]."), "{error}");
        assert!(explained("module {}", "Unbounded dynamism = ").message().contains("unknown size"));
    }

    #[test]
    fn arrays_of_unknown_rank_are_told_from_unknown_elements() {
        let of = |kind: &str| {
            let text =
                format!("func.func @main(%x: tensor<{kind}>) -> tensor<{kind}> {{ return %x : tensor<{kind}> }}");
            explained(&text, "Invalid primitive type: primitive_type_invalid")
        };
        let error = of("*xf32");
        assert_eq!(error.kind(), Kind::DynamicShape);
        assert!(error.message().contains("unknown rank") && error.hints()[0].contains("`tensor<?x?xf32>`"), "{error}");
        let error = of("2xtf32");
        assert_eq!(error.kind(), Kind::UnsupportedDtype);
        assert!(error.message().contains(": argument 1 (`%x`) is tf32[2], "), "{error}");
    }

    #[test]
    fn lines_of_any_kind_are_shown() {
        let excerpt = |text: &str, place| Source::at(text.as_bytes(), place).map(|source| source.excerpt());
        assert_eq!(excerpt("a\n\tü b\n", (2, 5)).as_deref(), Some("  2 |  ü b\n    |    ^"));
        assert_eq!(excerpt("a", (1, 2)).as_deref(), Some("  1 | a\n    |  ^"));
        let long = excerpt(&"x".repeat(1000), (1, 501)).unwrap();
        assert_eq!(long, format!("  1 | ...{}...\n    | {}^", "x".repeat(120), " ".repeat(63)));
        for place in [(1, 3), (3, 1), (2, 2)] {
            assert_eq!(excerpt("a\n", place), None, "{place:?}");
        }
        assert_eq!(excerpt("\n\n", (9, 1)), None);
    }
}
