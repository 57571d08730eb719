//! Expressions of dimensions as JAX prints them: sums of products of numbers, variables, powers, and functions of two
//! expressions. They are computed while they are read.

use super::super::damaged;
use super::Values;
use pjrt_base::error::Result;
use std::collections::BTreeSet;

/// The limits of an expression; JAX simplifies sums long before.
const MAX_LENGTH: usize = 10_000;
const MAX_NESTING: usize = 100;
const MAX_POWER: u32 = 64;

/// `factor * variable + constant`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Linear<'a> {
    pub variable: Option<(&'a str, i64)>,
    pub constant: i64,
}

/// What a part of an expression is; `None` if that is not known.
type Term<'a> = Option<Linear<'a>>;

/// The value of an expression, if it depends on no variable without a value, and is a number of 64 bits.
pub(super) fn value(text: &str, values: &Values) -> Result<Option<i64>> {
    Ok(linear(text, values)?.and_then(|found| found.known()))
}

/// An expression with at most one variable that has no value, if it is linear in it.
pub(super) fn linear<'a>(text: &'a str, values: &Values) -> Result<Term<'a>> {
    read(text, values).map(|(term, _)| term)
}

/// The variables in an expression.
pub(super) fn variables(text: &str) -> Result<BTreeSet<&str>> {
    read(text, &Values::new()).map(|(_, variables)| variables)
}

fn read<'a>(text: &'a str, values: &Values) -> Result<(Term<'a>, BTreeSet<&'a str>)> {
    if let Ok(number) = text.parse() {
        return Ok((Some(Linear::number(number)), BTreeSet::new()));
    }
    ensure!(text.len() <= MAX_LENGTH, damaged("a dimension is too long"));
    let mut parser = Parser { rest: text.trim_start(), depth: 0, values, variables: BTreeSet::new() };
    match parser.sum() {
        Some(sum) if parser.rest.is_empty() => Ok((sum, parser.variables)),
        _ => Err(damaged("a dimension cannot be read")),
    }
}

impl Linear<'_> {
    fn number(constant: i64) -> Self {
        Linear { variable: None, constant }
    }

    /// The number, if there is no variable.
    fn known(&self) -> Option<i64> {
        self.variable.is_none().then_some(self.constant)
    }

    fn plus(self, other: Self) -> Option<Self> {
        let variable = match (self.variable, other.variable) {
            (Some((a, x)), Some((b, y))) if a == b => Some((a, x.checked_add(y)?)).filter(|(_, factor)| *factor != 0),
            (Some(_), Some(_)) => return None,
            (one, other) => one.or(other),
        };
        Some(Linear { variable, constant: self.constant.checked_add(other.constant)? })
    }

    fn times(self, other: Self) -> Option<Self> {
        let constant = self.constant.checked_mul(other.constant)?;
        let (variable, by) = match (self.variable, other.variable) {
            (Some(_), Some(_)) => return None,
            (Some(variable), None) => (variable, other.constant),
            (None, Some(variable)) => (variable, self.constant),
            (None, None) => return Some(Linear::number(constant)),
        };
        let factor = variable.1.checked_mul(by)?;
        Some(Linear { variable: (factor != 0).then_some((variable.0, factor)), constant })
    }
}

/// Rounds down, as in Python.
fn floor_div(a: i64, b: i64) -> Option<i64> {
    a.checked_sub(modulo(a, b)?)?.checked_div(b)
}

/// The rest has the divisor's sign, as in Python.
fn modulo(a: i64, b: i64) -> Option<i64> {
    a.checked_rem(b).map(|rest| if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest })
}

/// Reads one part after the other, and the space after it; `None` for errors.
struct Parser<'a, 'v> {
    rest: &'a str,
    depth: usize,
    values: &'v Values,
    /// Those that it has read.
    variables: BTreeSet<&'a str>,
}

impl<'a> Parser<'a, '_> {
    fn sum(&mut self) -> Option<Term<'a>> {
        self.depth += 1;
        if self.depth > MAX_NESTING {
            return None;
        }
        let mut sum = Some(Linear::number(0));
        let mut sign = Some(self.sign().unwrap_or(1));
        while let Some(factor) = sign {
            let term = self.product()?;
            sum = sum.zip(term).and_then(|(sum, term)| sum.plus(term.times(Linear::number(factor))?));
            sign = self.sign();
        }
        self.depth -= 1;
        Some(sum)
    }

    fn sign(&mut self) -> Option<i64> {
        if self.skip('-') {
            return Some(-1);
        }
        self.skip('+').then_some(1)
    }

    fn product(&mut self) -> Option<Term<'a>> {
        let mut product = Some(Linear::number(1));
        loop {
            let factor = self.factor()?;
            let power =
                if self.skip('^') { self.number()?.parse().ok().filter(|&power| power <= MAX_POWER)? } else { 1 };
            let factor = match power {
                0 => Some(Linear::number(1)),
                1 => factor,
                _ => factor.and_then(|factor| factor.known()?.checked_pow(power)).map(Linear::number),
            };
            product = product.zip(factor).and_then(|(product, factor)| product.times(factor));
            if !self.skip('*') {
                return Some(product);
            }
        }
    }

    fn factor(&mut self) -> Option<Term<'a>> {
        if self.skip('-') {
            return Some(Some(Linear::number(self.number()?.parse::<i64>().ok()?.checked_neg()?)));
        }
        if self.rest.starts_with(|first: char| first.is_ascii_digit()) {
            return Some(Some(Linear::number(self.number()?.parse().ok()?)));
        }
        let name = self.take(|c| c.is_alphanumeric() || c == '_');
        let function = match name {
            "" => return None,
            "floordiv" => floor_div,
            "mod" => modulo,
            "max" => |a: i64, b| Some(a.max(b)),
            "min" => |a: i64, b| Some(a.min(b)),
            _ => {
                self.variables.insert(name);
                let unknown = Linear { variable: Some((name, 1)), constant: 0 };
                return Some(Some(self.values.get(name).map_or(unknown, |&size| Linear::number(size))));
            }
        };
        let a = self.skip('(').then(|| self.sum())??;
        let b = self.skip(',').then(|| self.sum())??;
        let known = a.zip(b).and_then(|(a, b)| Some((a.known()?, b.known()?)));
        self.skip(')').then(|| known.and_then(|(a, b)| function(a, b)).map(Linear::number))
    }

    fn number(&mut self) -> Option<&'a str> {
        Some(self.take(|c| c.is_ascii_digit())).filter(|digits| !digits.is_empty())
    }

    fn take(&mut self, is_part: impl Fn(char) -> bool) -> &'a str {
        let (part, rest) = self.rest.split_at(self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len()));
        self.rest = rest.trim_start();
        part
    }

    fn skip(&mut self, what: char) -> bool {
        let rest = self.rest.strip_prefix(what);
        self.rest = rest.map_or(self.rest, str::trim_start);
        rest.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values() -> Values {
        [("a", 7), ("b", 3)].map(|(name, value)| (name.to_owned(), value)).into()
    }

    #[test]
    fn expressions_have_the_values_of_python() {
        for (text, expected) in [
            ("5", 5),
            ("b", 3),
            ("2*b", 6),
            ("b + 1", 4),
            ("a - b", 4),
            ("-b + 4", 1),
            ("- b + 4", 1),
            ("-1*b + 4", 1),
            ("4 + -2*b", -2),
            ("b^2*a", 63),
            ("c^0", 1),
            ("a^1", 7),
            ("floordiv(a, 2)", 3),
            ("floordiv(-1*a, 2)", -4),
            ("mod(a, b)", 1),
            ("mod(-1*a, b)", 2),
            ("max(a, b) - min(a, 2*b)", 1),
            ("2*floordiv(a + 1, max(b, 2)) + 1", 5),
        ] {
            assert_eq!(value(text, &values()).unwrap(), Some(expected), "{text}");
        }
        for text in ["c", "floordiv(a, 0)", "mod(a, b - 3)", "9223372036854775807*b", "a^64"] {
            assert_eq!(value(text, &values()).unwrap(), None, "{text}");
        }
    }

    #[test]
    fn other_text_is_damage() {
        let deep = format!("{}b, 1{}", "max(".repeat(1000), ")".repeat(1000));
        let long = "b + ".repeat(5000) + "b";
        for text in [
            "",
            " ",
            "b +",
            "-+b",
            "2**b",
            "b c",
            "floordiv(a)",
            "mod(a, b",
            "a^b",
            "a^65",
            "b$",
            "(b)",
            "2.5",
            &deep,
            &long,
        ] {
            assert!(variables(text).is_err(), "{text}");
        }
    }

    #[test]
    fn nested_powers_take_no_more_memory_than_their_text() {
        let text = format!("{}b{}", "max(".repeat(90), ", 1)^64".repeat(90));
        assert_eq!(value(&text, &values()).unwrap(), None);
        assert_eq!(value(&text, &[("b".to_owned(), 1)].into()).unwrap(), Some(1));
        assert!(variables(&text).unwrap().contains("b"));
    }

    #[test]
    fn what_is_linear_in_one_unknown_is_found() {
        let values = values();
        let linear = |text| linear(text, &values).unwrap();
        let of = |factor, constant| Some(Linear { variable: Some(("n", factor)), constant });
        assert_eq!(linear("2*n + 1"), of(2, 1));
        assert_eq!(linear("n*b - a + n"), of(4, -7));
        assert_eq!(linear("-n + floordiv(a, 2)"), of(-1, 3));
        assert_eq!(linear("n - n"), Some(Linear { variable: None, constant: 0 }));
        assert_eq!(linear("n*b^2 + n^0"), of(9, 1));
        assert_eq!(linear("n^1"), of(1, 0));
        for text in ["n*m", "n + m", "n^2", "floordiv(n, 2)", "max(n, b)"] {
            assert_eq!(linear(text), None, "{text}");
        }
    }
}
