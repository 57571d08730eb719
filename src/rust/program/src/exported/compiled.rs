//! What an exported function needs before its program can be compiled: a platform, and sizes of symbolic dimensions.

use super::dims::{self, Given, Input};
use super::{Exported, Framework, Value};
use crate::names::{in_r, normal};
use pjrt_base::error::{Error, Kind, Result};
use pjrt_data::tree::add_step;
use std::sync::Arc;

/// The calling conventions of JAX that are known.
const CONVENTIONS: std::ops::RangeInclusive<u16> = 9..=10;

impl Exported {
    /// Why it cannot be compiled on any platform, and what to do; `None` if it can.
    pub fn refusal(&self) -> Option<(String, &'static str)> {
        if !self.ordered_effects.is_empty() || self.inputs.iter().chain(&self.outputs).any(|value| value.is_token) {
            let effects = self.ordered_effects.join(", ");
            let reason = format!("has ordered effects, which are not supported: {effects}.");
            return Some((reason, "Export a function without them."));
        }
        if self.framework != Framework::Jax || CONVENTIONS.contains(&self.calling_convention) {
            return None;
        }
        let reason = format!("has calling convention {}, but only 9 and 10 are supported.", self.calling_convention);
        Some((reason, "Export it with another version of JAX."))
    }

    /// # Errors
    /// `InvalidInput` for a function that no platform can compile.
    pub fn check(&self) -> Result<()> {
        self.refusal().map_or(Ok(()), |(reason, hint)| Err(self.error(Kind::InvalidInput, &reason).hint(hint)))
    }

    /// The number of a platform, from 0, that the program takes; `None` if it takes none.
    ///
    /// # Errors
    /// `InvalidInput` for platforms that it was not exported for.
    pub fn platform_number(&self, platform: &str) -> Result<Option<usize>> {
        let index = self.platforms.iter().position(|known| known == platform);
        let is_checked = !self.disabled_checks.iter().any(|check| check == "platform");
        if index.is_none() && is_checked && !self.platforms.is_empty() {
            let known = self.platforms.join("\", \"");
            let what = format!("is for the platform \"{known}\", not for \"{platform}\".");
            return Err(self.error(Kind::InvalidInput, &what).hint(format!(
                "Export it for this platform: jax.export.export(jax.jit(f), platforms=[\"{platform}\"])(*args)."
            )));
        }
        Ok((self.platforms.len() > 1).then(|| index.unwrap_or(0)))
    }

    /// The names of the symbolic dimensions.
    ///
    /// # Errors
    /// As [`dims::variables`].
    pub fn dimensions(&self) -> Result<Vec<String>> {
        Ok(dims::variables(self.inputs.iter().map(|input| input.shape.as_slice()))?.into_iter().collect())
    }

    /// The shapes of the inputs that the program takes, which follow from given ones.
    ///
    /// # Errors
    /// As [`dims::solve`] and [`dims::evaluate`], and `InvalidInput` if nothing is given where it is needed.
    pub fn kept_shapes(&self, given: &[Given<'_>]) -> Result<Vec<Vec<i64>>> {
        if given.is_empty() && self.is_symbolic() {
            return Err(self.no_sizes()?);
        }
        let mut shapes = self.input_shapes(given)?;
        let kept = self.kept.iter().map(|&i| {
            let mut shape = std::mem::take(&mut shapes[i]);
            // The last dimension of a PRNG key's data.
            match &*self.inputs[i].dtype {
                "key<fry>" => shape.push(2),
                dtype if dtype.starts_with("key<") => shape.push(4),
                _ => {}
            }
            shape
        });
        Ok(kept.collect())
    }

    /// The shapes of all inputs; empty for those that nothing determines and the program does not take.
    fn input_shapes(&self, given: &[Given<'_>]) -> Result<Vec<Vec<i64>>> {
        // Messages have R's spelling.
        let names: Vec<String> = self.input_names.iter().map(|name| in_r(&normal(name))).collect();
        let paths = self.input_paths();
        let inputs = names.iter().zip(&paths).zip(&self.inputs);
        let inputs: Vec<_> = inputs.map(|((name, path), input)| Input { name, path, shape: &input.shape }).collect();
        // The file of a PyTorch model does not relate its outputs' sizes to the inputs' sizes.
        let outputs = if self.framework == Framework::Jax { &self.outputs[..] } else { &[] };
        let kept = self.kept.iter().map(|&input| &self.inputs[input]);
        let needed = kept.chain(outputs).map(|value| value.shape.as_slice());
        let values = dims::solve(&inputs, given, needed)?;
        outputs.iter().try_for_each(|output| dims::evaluate(&output.shape, &values).map(drop))?;
        // The program does not take the others.
        let shape = |(i, input): (usize, &Arc<Value>)| match dims::evaluate(&input.shape, &values) {
            Err(_) if !self.is_kept(i) => Ok(Vec::new()),
            shape => shape,
        };
        self.inputs.iter().enumerate().map(shape).collect()
    }

    #[cold]
    fn no_sizes(&self) -> Result<Error> {
        let symbolic = self.dimensions()?;
        let what = format!("has symbolic dimensions, whose sizes are not known: {}.", symbolic.join(", "));
        let mut error = self.error(Kind::InvalidInput, &what);
        let given: Vec<_> = symbolic.iter().map(|name| Given { name, dims: &[32] }).collect();
        let example = self.inputs.iter().position(|input| input.is_symbolic());
        // Not every function has arrays of these sizes.
        if let (Some(i), Ok(shapes)) = (example, self.input_shapes(&given)) {
            let shape = shapes[i].iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
            let mut name = String::new();
            add_step(&mut name, &self.input_names[i], i);
            error = error.hint(format!("Give the shapes of inputs: shapes = list({name} = c({shape}))."));
        }
        let sizes = symbolic.first().map(|first| format!("Give the sizes: shapes = list({first} = 32)."));
        Ok(sizes.into_iter().fold(error, Error::hint))
    }

    /// The error for a program that cannot be written without what `problem` says.
    #[cold]
    pub fn unresolved(&self, problem: &Error) -> Error {
        let what = if self.is_symbolic() { "its symbolic dimensions" } else { "its platforms" };
        let message = format!("cannot be compiled here: {what} cannot be resolved. {}", problem.message());
        let error = self.error(Kind::DynamicShape, &message);
        if self.framework == Framework::PyTorch {
            error.hint("Export it without `dynamic_shapes`, once for each shape: torch.export.export(model, args).")
        } else if self.is_symbolic() {
            error.hint(
                "Export it with fixed shapes, once for each shape: \
                jax.export.export(jax.jit(f))(jax.ShapeDtypeStruct((32, 4), \"float32\")).",
            )
        } else {
            let platform = self.platforms.first().map_or("", String::as_str);
            error.hint(format!("Export it for one: jax.export.export(jax.jit(f), platforms=[\"{platform}\"])(*args)."))
        }
    }

    fn error(&self, kind: Kind, what: &str) -> Error {
        Error::new(kind, format!("The exported function `{}` {what}", self.function))
    }
}
