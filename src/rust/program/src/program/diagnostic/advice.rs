//! Advice on a compiler's message: suggestions, and how to write the program.

use super::{name_at, Source};
use crate::program::suggest;
use pjrt_ir::text::{function_names, whole};

/// What to write instead.
pub(super) fn on(message: &str, source: Option<&Source<'_>>, text: &[u8]) -> Option<String> {
    let quoted = || message.split('\'').nth(1).unwrap_or_default();
    let is_unknown = message.starts_with("custom op '") && message.contains("' is unknown");
    if is_unknown || message.contains("unregistered operation '") {
        let known = ["stablehlo.", "chlo."].iter().any(|dialect| quoted().starts_with(dialect));
        let may_be_newer = || known.then(|| "The operation may be newer than the plugin.".to_owned());
        return did_you_mean(suggest::operation(quoted())).or_else(may_be_newer);
    }
    if let Some((_, name)) = message.split_once("not found for custom op '") {
        return did_you_mean(suggest::operation(name.split('\'').next()?));
    }
    if message.contains("requires module with `main` function") {
        return Some(match &function_names(text)[..] {
            [] => "Define a function `@main`: `func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> { ... }`.".into(),
            names if names.iter().any(|name| name == "@main") && has_modules_inside(text) => {
                "The text has several modules: it must have one, with the function `@main`.".into()
            }
            names if names.iter().any(|name| name == "@main") => "`@main` must not be private.".into(),
            names => format!("Compilers run the function `@main`. The program defines {}.", names.join(", ")),
        });
    }
    if memchr::memmem::find(text, b"<__elided__>").is_some() {
        return Some("The text lacks the numbers of its constants: print it without a limit on their elements.".into());
    }
    if message.contains("does not reference a valid function") {
        return Some(format!("The program defines {}.", function_names(text).join(", ")));
    }
    if message.contains("block with no terminator") {
        return Some("A function ends with `return`, such as `return %0 : tensor<2xf32>`.".into());
    }
    if message.contains("undefined symbol alias id '") {
        return Some("Define the name before its use, as in `!t = tensor<2xf32>`, or write the type.".into());
    }
    if let Some((_, types)) = message.split_once("expects different type than prior uses: ") {
        return fitted(quoted(), types);
    }
    if message.contains("requires the same shape for all operands") {
        return Some("Scalars are not repeated by themselves: use `stablehlo.broadcast_in_dim`.".into());
    }
    in_line(message, source?, text)
}

/// Whether modules are in a module, which may be left out around them. Compilers do not look into these.
fn has_modules_inside(text: &[u8]) -> bool {
    whole(text).is_ok_and(|module| module.root.inner().any(|operation| &*operation.name == "builtin.module"))
}

/// How to make a value fit where another type is needed: `'tensor<2xf32>' vs 'tensor<f64>'`.
fn fitted(value: &str, types: &str) -> Option<String> {
    let mut types = types.split('\'').skip(1).step_by(2);
    let (needed, given) = (types.next()?, types.next()?);
    let parts = |text: &str| -> Option<(String, String)> {
        let inner = text.strip_prefix("tensor<")?.strip_suffix('>')?;
        let at = inner.find(|c: char| !c.is_ascii_digit() && c != 'x').unwrap_or(0);
        Some((inner[..at].to_owned(), inner[at..].to_owned()))
    };
    let ((to, wanted), (from, element)) = (parts(needed)?, parts(given)?);
    if wanted != element {
        let converted = format!("tensor<{from}{wanted}>");
        let then = if to == from { "" } else { ", and then repeat it with `stablehlo.broadcast_in_dim`" };
        return Some(format!("Convert it first: `stablehlo.convert {value} : ({given}) -> {converted}`{then}."));
    }
    let is_repeated = from.is_empty() && !to.is_empty();
    is_repeated
        .then(|| format!("Repeat the scalar: `stablehlo.broadcast_in_dim {value}, dims = [] : ({given}) -> {needed}`."))
}

/// The same for messages about a place.
fn in_line(message: &str, source: &Source<'_>, text: &[u8]) -> Option<String> {
    let (before, rest) = source.content.split_at(source.column - 1);
    // Such as `%x` or `float32`.
    let word = name_at(rest);
    if message.contains("undeclared SSA value") {
        return Some(undefined(word, &defined(source, text)));
    }
    if let Some((_, choices)) = message.split_once("to be one of: ") {
        let upper = word.to_ascii_uppercase();
        let meant = choices.split(", ").find(|choice| *choice == upper);
        return did_you_mean(meant.map(str::to_owned));
    }
    if message.contains("expected SSA operand") {
        // The place may be before spaces.
        let value = format!("%{}", name_at(rest.trim_ascii_start()));
        if defined(source, text).contains(&value.as_str()) {
            return did_you_mean(Some(value));
        }
        let is_bracket = rest.starts_with(b"(");
        return is_bracket
            .then(|| "Write operands without brackets, as in `stablehlo.add %x, %y : tensor<2xf32>`.".into());
    }
    if message.starts_with("expected operation name") && text[source.start + before.len()..].trim_ascii().is_empty() {
        return Some("The program ends too early: is a closing bracket `}` missing?".into());
    }
    if let Some(meant) = array_type(before, rest) {
        return did_you_mean(Some(meant));
    }
    match message {
        "expected ':'" => Some("The types follow after a colon, as in `stablehlo.negate %x : tensor<2xf32>`.".into()),
        "expected 'x' in dimension list" => Some("Dimensions end with `x`, as in `tensor<2x3xf32>`.".into()),
        _ => {
            let meant = suggest::element_type(word).filter(|meant| *meant != word)?;
            Some(format!("`{word}` is not a type. Did you mean `{meant}`?"))
        }
    }
}

fn did_you_mean(meant: Option<String>) -> Option<String> {
    meant.map(|meant| format!("Did you mean `{meant}`?"))
}

/// The values defined before a place: not yet the results of its own line.
fn defined<'a>(source: &Source<'_>, text: &'a [u8]) -> Vec<&'a str> {
    let (before, line) = text[..source.start + source.column - 1].split_at(source.start);
    let operands = memchr::memmem::find(line, b" = ").map_or(line, |end| &line[end..]);
    let mut found = names(before);
    found.extend(names(operands).into_iter().filter(|name| !found.contains(name)).collect::<Vec<_>>());
    found
}

/// What to write for a value that is not defined.
fn undefined(name: &str, defined: &[&str]) -> String {
    const MOST: usize = 10;
    let defined: Vec<&str> = defined.iter().copied().filter(|known| *known != name).collect();
    let meant = suggest::closest(name.trim_start_matches('%'), defined.iter().map(|known| &known[1..]));
    let advice = match (meant, defined.len()) {
        (Some(meant), _) => format!("Did you mean `%{meant}`?"),
        (None, 0) => "Nothing is defined before.".into(),
        (None, 1..=MOST) => format!("Defined before: {}.", defined.join(", ")),
        (None, count) => format!("Defined last: {}.", defined[count - MOST..].join(", ")),
    };
    format!("`{name}` is not defined here. {advice}")
}

/// The names of values in a part of a program, such as `%x`, each once.
fn names(text: &[u8]) -> Vec<&str> {
    let mut seen = std::collections::HashSet::new();
    let found = memchr::memchr_iter(b'%', text).map(|start| name_at(&text[start..]));
    found.filter(|name| name.len() > 1 && seen.insert(*name)).collect()
}

/// The array meant by HLO's form of a type, `f32[2,3]`, whose bracket comes next.
fn array_type(before: &[u8], rest: &[u8]) -> Option<String> {
    let dims = rest.strip_prefix(b"[")?;
    let dims = std::str::from_utf8(&dims[..dims.iter().position(|&byte| byte == b']')?]).ok()?;
    let start = before.iter().rposition(|byte| !byte.is_ascii_alphanumeric()).map_or(0, |last| last + 1);
    let element = suggest::element_type(std::str::from_utf8(&before[start..]).ok()?)?;
    let dims: Vec<&str> = dims.split(',').map(str::trim).filter(|dim| !dim.is_empty()).collect();
    let dims = dims.iter().map(|dim| format!("{dim}x"));
    Some(format!("tensor<{}{element}>", dims.collect::<String>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The advice on a message about the place of `^` in a text.
    fn at(message: &str, text: &str) -> Option<String> {
        let place = text.find('^').unwrap();
        let text = text.replace('^', "");
        let line = text[..place].matches('\n').count() + 1;
        let column = place - text[..place].rfind('\n').map_or(0, |end| end + 1) + 1;
        let source = Source::at(text.as_bytes(), (line, column));
        on(message, source.as_ref(), text.as_bytes())
    }

    #[test]
    fn advice_names_what_was_meant() {
        for (message, text, meant) in [
            ("custom op 'add' is unknown (tried 'func.add' as well)", "^", "`stablehlo.add`"),
            ("Dialect `xla' not found for custom op 'xla.exp'", "^", "`stablehlo.exponential`"),
            ("expected non-function type", "%x: tensor<2x^float32>", "`f32`"),
            ("use of undeclared SSA value name", "%x0: t\n ^%x1", "`%x0`"),
            ("use of undeclared SSA value name", "%x: t\n ^%y", "Defined before: %x."),
            ("use of undeclared SSA value name", "^%y", "Nothing is defined"),
            ("use of undeclared SSA value name", "%x: t\n %0 = add %x, ^%y", "Defined before: %x."),
            ("expected SSA operand", "%x: t\n negate^ x", "`%x`"),
            ("expected SSA operand", "add^(%x)", "without brackets"),
            ("expected A to be one of: EQ, LT", "^lt,", "`LT`"),
            ("expected ')'", "%x: f32^[2,3])", "`tensor<2x3xf32>`"),
            ("expected ')'", "%x: f32^[])", "`tensor<f32>`"),
            ("expected operation name in quotes", "return^\n", "closing bracket"),
            ("requires module with `main` function", "func.func @other() {}^", "@other"),
            ("requires module with `main` function", "func.func private @main() {}^", "must not be private"),
            (
                "requires module with `main` function",
                "module @a { func.func @main() { return } }\nmodule @b { func.func @main() { return } }^",
                "several modules",
            ),
            (
                "requires module with `main` function",
                "module @a { func.func private @main() { return } }^",
                "must not be private",
            ),
            ("Only dense elements attr are supported", "dense_resource<__elided__>^", "lacks the numbers"),
            ("custom op 'chlo.scan' is unknown", "^", "newer than the plugin"),
        ] {
            assert!(at(message, text).is_some_and(|advice| advice.contains(meant)), "{:?}", at(message, text));
        }
    }

    #[test]
    fn without_a_guess_there_is_no_advice() {
        for (message, text) in [
            ("custom op 'nonsense' is unknown", "^"),
            ("something else", "%x: tensor<2x^f32>"),
            ("expected SSA operand", "^z"),
            ("expected A to be one of: EQ, LT", "^xx"),
        ] {
            assert_eq!(at(message, text), None);
        }
    }
}
