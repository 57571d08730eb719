//! The operands and options of a call: all are checked here, and nothing is done before all are right.

use crate::frame::{Array, Failure, Frame, Outcome};
use crate::lapack::parts::{Consumed, InPlace, Input, Output, Stack};
use pjrt_base::error::Error;
use pjrt_data::dtype::DType;
use pjrt_lapack::{Complex, Scalar};

/// A type of elements.
pub(crate) trait Element: Copy + Default + Send + Sync + 'static {
    const DTYPE: DType;
}

macro_rules! elements {
    ($($type:ty: $dtype:ident)*) => { $(impl Element for $type { const DTYPE: DType = DType::$dtype; })* };
}

elements! { i32: I32 f32: F32 f64: F64 Complex<f32>: C64 Complex<f64>: C128 }

/// A type of matrix elements.
pub(super) trait Number: Element + Scalar<Real: Element, Complex: Element> {}

impl<T: Element + Scalar<Real: Element, Complex: Element>> Number for T {}

/// Handlers that call a function for the type of the first argument, `f32` or `f64`.
macro_rules! real_handlers {
    ($($(#[$doc:meta])* $name:ident = $($function:ident)::+;)*) => {$(
        $(#[$doc])*
        pub(crate) fn $name(frame: &Frame<'_>) -> Outcome {
            match frame.argument(0)?.dtype {
                pjrt_data::dtype::DType::F32 => $($function)::+::<f32>(frame),
                pjrt_data::dtype::DType::F64 => $($function)::+::<f64>(frame),
                other => Err($crate::Failure::invalid(format!("The operation only supports f32 and f64, got {other}."))),
            }
        }
    )*};
}

pub(crate) use real_handlers;

/// A type with dimensions, as in `f32[2,3]`.
pub(super) fn typed(dtype: DType, dims: impl IntoIterator<Item = i64>) -> String {
    let dims: Vec<_> = dims.into_iter().map(|dim| dim.to_string()).collect();
    format!("{dtype}[{}]", dims.join(","))
}

/// A stack of matrices: the leading dimensions, and the last two.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Matrices<'a> {
    pub batch: &'a [i64],
    pub rows: usize,
    pub columns: usize,
}

impl Matrices<'_> {
    pub fn least(&self) -> usize {
        self.rows.min(self.columns)
    }

    /// The product of the dimensions of each, and the lesser of them: what factorizations cost, but for a factor.
    pub fn cubed(&self) -> f64 {
        self.rows as f64 * self.columns as f64 * self.least() as f64
    }
}

fn vectors<'a>(array: &Array<'a>) -> Outcome<(&'a [i64], usize)> {
    let Array { name, dtype, dims, .. } = *array;
    match dims {
        [batch @ .., length] => Ok((batch, *length as usize)),
        [] => bail!(InvalidInput, "Expected {name} with at least 1 dimension, got {dtype}[]."),
    }
}

/// The operands of a call, checked.
impl<'a> Frame<'a> {
    /// An option of LAPACK.
    ///
    /// # Errors
    /// If the attribute is missing, or another letter.
    pub(crate) fn letter<T: TryFrom<u8, Error = Error>>(&self, name: &str) -> Outcome<T> {
        let letter = self.integer::<u8>(name)?;
        T::try_from(letter).map_err(|error| Failure::invalid(format!("The attribute '{name}': {}", error.message())))
    }

    /// Whether vectors are to be computed: `V` or `N`.
    ///
    /// # Errors
    /// If the attribute is missing, or another letter.
    pub(crate) fn wants(&self, name: &str) -> Outcome<bool> {
        match self.integer::<u8>(name)? {
            b'V' => Ok(true),
            b'N' => Ok(false),
            other => {
                bail!(InvalidInput, "The attribute '{name}' must be one of 'V', 'N': got '{}'.", other.escape_ascii())
            }
        }
    }

    /// The dimensions of an argument that is one or more matrices.
    ///
    /// # Errors
    /// If it is of another type or has fewer than two dimensions.
    pub(crate) fn matrices<T: Element>(&self, index: usize) -> Outcome<Matrices<'a>> {
        let array = self.argument(index)?;
        let (name, got) = (array.name, || typed(array.dtype, array.dims.iter().copied()));
        ensure!(array.dtype == T::DTYPE, InvalidInput, "Expected {name} of type {}, got {}.", T::DTYPE, got());
        let [batch @ .., rows, columns] = array.dims else {
            bail!(InvalidInput, "Expected {name} with at least 2 dimensions, got {}.", got());
        };
        Ok(Matrices { batch, rows: *rows as usize, columns: *columns as usize })
    }

    /// The same for square matrices: the leading dimensions, and the number of rows.
    ///
    /// # Errors
    /// As [`Frame::matrices`], and for other matrices.
    pub(crate) fn square<T: Element>(&self, index: usize) -> Outcome<(&'a [i64], usize)> {
        let Matrices { batch, rows, columns } = self.matrices::<T>(index)?;
        if rows != columns {
            let array = self.argument(index)?;
            let got = typed(array.dtype, array.dims.iter().copied());
            bail!(InvalidInput, "Expected {} to be a square matrix, got {got}.", array.name);
        }
        Ok((batch, rows))
    }

    /// The first argument of `eigh`.
    ///
    /// # Errors
    /// As [`Frame::matrices`], and for other matrices than square ones.
    pub(crate) fn eigh_matrices<T: Element>(&self) -> Outcome<Matrices<'a>> {
        let a = self.matrices::<T>(0)?;
        let Matrices { rows, columns, .. } = a;
        ensure!(rows == columns, InvalidInput, "eigh requires a square matrix, got {rows} x {columns}.");
        Ok(a)
    }

    /// The operands of `pivots -> permutation` after the number that both count from: the attribute `first`, 1 by default.
    ///
    /// # Errors
    /// As [`Frame::input`] and [`Frame::output`], and for another attribute than a number.
    pub(crate) fn pivots_and_permutation(&self) -> Outcome<(i32, Input<'a, i32>, Output<'a, i32>)> {
        self.expect(1, 1)?;
        let first = self.optional("first", 1, Frame::integer)?;
        let ((batch, pivots), rows) = (self.vectors(0)?, self.result_length(0)?);
        Ok((first, self.input(0, batch, &[pivots])?, self.output(0, batch, &[rows])?))
    }

    /// The last dimension of an argument, and those before it.
    ///
    /// # Errors
    /// If it has no dimension.
    pub(crate) fn vectors(&self, index: usize) -> Outcome<(&'a [i64], usize)> {
        vectors(&self.argument(index)?)
    }

    /// The last dimension of a result.
    ///
    /// # Errors
    /// If it has no dimension.
    pub(crate) fn result_length(&self, index: usize) -> Outcome<usize> {
        Ok(vectors(&self.result(index)?)?.1)
    }

    /// An argument that is only read.
    ///
    /// # Errors
    /// If it has another type or other dimensions than these.
    pub(crate) fn input<T: Element>(&self, index: usize, batch: &[i64], dims: &[usize]) -> Outcome<Input<'a, T>> {
        Stack::new(&self.argument(index)?, batch, dims).map(Input)
    }

    /// An argument that is worked on in a copy.
    ///
    /// # Errors
    /// As [`Frame::input`].
    pub(crate) fn consumed<T: Element>(&self, index: usize, batch: &[i64], dims: &[usize]) -> Outcome<Consumed<'a, T>> {
        Ok(Consumed(self.input(index, batch, dims)?.0))
    }

    /// A result.
    ///
    /// # Errors
    /// If it has another type or other dimensions than these.
    pub(crate) fn output<T: Element>(&self, index: usize, batch: &[i64], dims: &[usize]) -> Outcome<Output<'a, T>> {
        Stack::new(&self.result(index)?, batch, dims).map(Output)
    }

    /// A result that starts as a copy of an argument, which may have the same memory.
    ///
    /// # Errors
    /// As [`Frame::input`] and [`Frame::output`].
    pub(crate) fn in_place<T: Element>(
        &self,
        argument: usize,
        result: usize,
        batch: &[i64],
        dims: &[usize],
    ) -> Outcome<InPlace<'a, T>> {
        Ok(InPlace { from: self.input(argument, batch, dims)?.0, to: self.output(result, batch, dims)?.0 })
    }
}
