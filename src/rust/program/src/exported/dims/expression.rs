//! Expressions of dimensions as JAX prints them: sums of products of numbers, variables, powers, and functions of two
//! expressions.

use super::super::damaged;
use super::Values;
use pjrt_base::error::Result;
use std::collections::BTreeSet;

/// The limits of an expression; JAX simplifies sums long before.
const MAX_LENGTH: usize = 10_000;
const MAX_NESTING: usize = 100;
const MAX_POWER: u32 = 64;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Expression {
    Number(i64),
    Variable(String),
    Power(Box<Expression>, u32),
    Of(Function, Vec<Expression>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    Sum,
    Product,
    FloorDiv,
    Mod,
    Max,
    Min,
}

/// `factor * variable + constant`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Linear {
    pub variable: Option<(String, i64)>,
    pub constant: i64,
}

impl Expression {
    pub fn parse(text: &str) -> Result<Expression> {
        if let Ok(number) = text.parse() {
            return Ok(Expression::Number(number));
        }
        ensure!(text.len() <= MAX_LENGTH, damaged("a dimension is too long"));
        let mut parser = Parser { rest: text.trim_start(), depth: 0 };
        match parser.sum() {
            Some(expression) if parser.rest.is_empty() => Ok(expression),
            _ => Err(damaged("a dimension cannot be read")),
        }
    }

    /// The value, if it depends on no variable without a value, and is a number of 64 bits.
    pub fn value(&self, values: &Values) -> Option<i64> {
        self.linear(values)?.known()
    }

    /// The expression with at most one variable that has no value, if it is linear in it.
    pub fn linear(&self, values: &Values) -> Option<Linear> {
        let constant = match self {
            Expression::Number(number) => *number,
            Expression::Variable(name) => match values.get(name) {
                Some(size) => *size,
                None => return Some(Linear { variable: Some((name.clone(), 1)), constant: 0 }),
            },
            Expression::Power(_, 0) => 1,
            Expression::Power(base, power) => base.value(values)?.checked_pow(*power)?,
            Expression::Of(function, parts) => {
                let mut parts = parts.iter().map(|part| part.linear(values));
                let first = parts.next()??;
                return parts.try_fold(first, |result, part| function.apply(result, part?));
            }
        };
        Some(Linear { variable: None, constant })
    }

    pub fn note_variables(&self, found: &mut BTreeSet<String>) {
        match self {
            Expression::Number(_) => {}
            Expression::Variable(name) => {
                found.insert(name.clone());
            }
            Expression::Power(base, _) => base.note_variables(found),
            Expression::Of(_, parts) => parts.iter().for_each(|part| part.note_variables(found)),
        }
    }

    pub fn has(&self, variable: &str) -> bool {
        let mut found = BTreeSet::new();
        self.note_variables(&mut found);
        found.contains(variable)
    }
}

impl Linear {
    /// The number, if there is no variable.
    fn known(&self) -> Option<i64> {
        self.variable.is_none().then_some(self.constant)
    }

    fn plus(self, other: Linear) -> Option<Linear> {
        let variable = match (self.variable, other.variable) {
            (Some((a, x)), Some((b, y))) if a == b => Some((a, x.checked_add(y)?)).filter(|(_, factor)| *factor != 0),
            (Some(_), Some(_)) => return None,
            (one, other) => one.or(other),
        };
        Some(Linear { variable, constant: self.constant.checked_add(other.constant)? })
    }

    fn times(self, other: Linear) -> Option<Linear> {
        let constant = self.constant.checked_mul(other.constant)?;
        let (variable, by) = match (self.variable, other.variable) {
            (Some(_), Some(_)) => return None,
            (Some(variable), None) => (variable, other.constant),
            (None, Some(variable)) => (variable, self.constant),
            (None, None) => return Some(Linear { variable: None, constant }),
        };
        let factor = variable.1.checked_mul(by)?;
        Some(Linear { variable: (factor != 0).then_some((variable.0, factor)), constant })
    }
}

impl Function {
    const NAMED: [(&'static str, Function); 4] =
        [("floordiv", Function::FloorDiv), ("mod", Function::Mod), ("max", Function::Max), ("min", Function::Min)];

    /// Division rounds down, and the rest has the divisor's sign, as in Python.
    fn apply(self, x: Linear, y: Linear) -> Option<Linear> {
        let (a, b) = match self {
            Function::Sum => return x.plus(y),
            Function::Product => return x.times(y),
            _ => (x.known()?, y.known()?),
        };
        let rest = || a.checked_rem(b).map(|rest| if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest });
        let constant = match self {
            Function::FloorDiv => a.checked_sub(rest()?)?.checked_div(b)?,
            Function::Mod => rest()?,
            Function::Max => a.max(b),
            _ => a.min(b),
        };
        Some(Linear { variable: None, constant })
    }
}

/// Reads one part after the other, and the space after it; `None` for errors.
struct Parser<'a> {
    rest: &'a str,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn sum(&mut self) -> Option<Expression> {
        self.depth += 1;
        if self.depth > MAX_NESTING {
            return None;
        }
        let mut terms = Vec::new();
        let mut is_negative = self.skip('-');
        if !is_negative {
            self.skip('+');
        }
        loop {
            let term = self.product()?;
            terms.push(if is_negative {
                Expression::Of(Function::Product, vec![Expression::Number(-1), term])
            } else {
                term
            });
            is_negative = self.skip('-');
            if !is_negative && !self.skip('+') {
                break;
            }
        }
        self.depth -= 1;
        Some(if terms.len() == 1 { terms.pop()? } else { Expression::Of(Function::Sum, terms) })
    }

    fn product(&mut self) -> Option<Expression> {
        let mut factors = Vec::new();
        loop {
            let factor = self.factor()?;
            let power =
                if self.skip('^') { self.number()?.parse().ok().filter(|&power| power <= MAX_POWER)? } else { 1 };
            // Copies of a factor would multiply with each power around it.
            factors.push(if power == 1 { factor } else { Expression::Power(Box::new(factor), power) });
            if !self.skip('*') {
                break;
            }
        }
        Some(if factors.len() == 1 { factors.pop()? } else { Expression::Of(Function::Product, factors) })
    }

    fn factor(&mut self) -> Option<Expression> {
        if self.skip('-') {
            return Some(Expression::Number(self.number()?.parse::<i64>().ok()?.checked_neg()?));
        }
        if self.rest.starts_with(|first: char| first.is_ascii_digit()) {
            return self.number()?.parse().ok().map(Expression::Number);
        }
        let name = self.take(|c| c.is_alphanumeric() || c == '_');
        if name.is_empty() {
            return None;
        }
        let Some((_, function)) = Function::NAMED.into_iter().find(|(known, _)| *known == name) else {
            return Some(Expression::Variable(name.to_owned()));
        };
        let a = self.skip('(').then(|| self.sum())??;
        let b = self.skip(',').then(|| self.sum())??;
        self.skip(')').then(|| Expression::Of(function, vec![a, b]))
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
        for (text, value) in [
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
            assert_eq!(Expression::parse(text).unwrap().value(&values()), Some(value), "{text}");
        }
        for text in ["c", "floordiv(a, 0)", "mod(a, b - 3)", "9223372036854775807*b", "a^64"] {
            assert_eq!(Expression::parse(text).unwrap().value(&values()), None, "{text}");
        }
    }

    #[test]
    fn other_text_is_damage() {
        let deep = format!("{}b, 1{}", "max(".repeat(1000), ")".repeat(1000));
        let long = "b + ".repeat(5000) + "b";
        for text in
            ["", " ", "b +", "2**b", "b c", "floordiv(a)", "mod(a, b", "a^b", "a^65", "b$", "(b)", "2.5", &deep, &long]
        {
            assert!(Expression::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn nested_powers_take_no_more_memory_than_their_text() {
        let text = format!("{}b{}", "max(".repeat(90), ", 1)^64".repeat(90));
        let expression = Expression::parse(&text).unwrap();
        assert_eq!(expression.value(&values()), None);
        assert_eq!(expression.value(&[("b".to_owned(), 1)].into()), Some(1));
        assert!(expression.has("b"));
    }

    #[test]
    fn what_is_linear_in_one_unknown_is_found() {
        let linear = |text: &str| Expression::parse(text).unwrap().linear(&values());
        let of = |factor, constant| Some(Linear { variable: Some(("n".into(), factor)), constant });
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
