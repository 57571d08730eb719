//! Matrices for tests, with plain loops that share nothing with LAPACK.

use crate::scalar::Scalar;

#[derive(Debug, Clone, PartialEq)]
pub struct Matrix<T> {
    pub rows: usize,
    pub columns: usize,
    pub data: Vec<T>,
}

/// Numbers between -1 and 1 that look random.
pub fn random<T: Scalar>(count: usize, seed: u64) -> Vec<T> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    (0..10).for_each(|_| _ = next());
    (0..count).map(|_| T::from_parts(next(), next())).collect()
}

pub fn conjugate<T: Scalar>(value: T) -> T {
    let (re, im) = value.parts();
    T::from_parts(re, -im)
}

pub fn are_nan<T: Scalar>(values: &[T]) -> bool {
    values.iter().all(|value| value.parts().0.is_nan())
}

pub fn real<T: Scalar>(value: f64) -> T {
    T::from_parts(value, 0.0)
}

/// A number in another type.
pub fn cast<A: Scalar, B: Scalar>(value: A) -> B {
    let (re, im) = value.parts();
    B::from_parts(re, im)
}

impl<T: Scalar> Matrix<T> {
    pub fn of(rows: usize, columns: usize, element: impl Fn(usize, usize) -> T) -> Self {
        let data = (0..columns).flat_map(|j| (0..rows).map(move |i| (i, j))).map(|(i, j)| element(i, j)).collect();
        Matrix { rows, columns, data }
    }

    pub fn zeros(rows: usize, columns: usize) -> Self {
        Self::of(rows, columns, |_, _| T::default())
    }

    pub fn random(rows: usize, columns: usize, seed: u64) -> Self {
        Matrix { rows, columns, data: random(rows * columns, seed) }
    }

    /// Symmetric, or Hermitian.
    pub fn hermitian(order: usize, seed: u64) -> Self {
        let half = Self::random(order, order, seed);
        half.plus(&half.adjoint())
    }

    pub fn identity(order: usize) -> Self {
        Self::diagonal(order, order, &vec![1.0; order])
    }

    pub fn diagonal(rows: usize, columns: usize, values: &[f64]) -> Self {
        Self::of(rows, columns, |i, j| if i == j { real(values[i]) } else { T::default() })
    }

    pub fn at(&self, row: usize, column: usize) -> T {
        self.data[row + column * self.rows]
    }

    /// The elements for which the condition holds, and another one elsewhere.
    pub fn where_or(&self, condition: impl Fn(usize, usize) -> bool, other: T) -> Self {
        Self::of(self.rows, self.columns, |i, j| if condition(i, j) { self.at(i, j) } else { other })
    }

    pub fn upper(&self) -> Self {
        self.where_or(|i, j| i <= j, T::default())
    }

    pub fn first_columns(&self, count: usize) -> Self {
        Self::of(self.rows, count, |i, j| self.at(i, j))
    }

    pub fn first_rows(&self, count: usize) -> Self {
        Self::of(count, self.columns, |i, j| self.at(i, j))
    }

    pub fn transpose(&self) -> Self {
        Self::of(self.columns, self.rows, |i, j| self.at(j, i))
    }

    pub fn adjoint(&self) -> Self {
        Self::of(self.columns, self.rows, |i, j| conjugate(self.at(j, i)))
    }

    pub fn plus(&self, other: &Self) -> Self {
        Self::of(self.rows, self.columns, |i, j| self.at(i, j) + other.at(i, j))
    }

    pub fn minus(&self, other: &Self) -> Self {
        Self::of(self.rows, self.columns, |i, j| self.at(i, j) - other.at(i, j))
    }

    pub fn times(&self, other: &Self) -> Self {
        assert_eq!(self.columns, other.rows);
        let mut product = Self::zeros(self.rows, other.columns);
        for j in 0..other.columns {
            for k in 0..self.columns {
                let factor = other.at(k, j);
                for i in 0..self.rows {
                    let at = i + j * self.rows;
                    product.data[at] = product.data[at] + self.at(i, k) * factor;
                }
            }
        }
        product
    }

    /// In another type.
    pub fn cast<B: Scalar>(&self) -> Matrix<B> {
        Matrix { rows: self.rows, columns: self.columns, data: self.data.iter().map(|value| cast(*value)).collect() }
    }

    pub fn norm(&self) -> f64 {
        self.data.iter().map(|value| value.parts()).map(|(re, im)| re * re + im * im).sum::<f64>().sqrt()
    }

    /// The product with I - tau v v^H.
    pub fn reflected(&self, v: &[T], tau: T) -> Self {
        let v = Matrix { rows: v.len(), columns: 1, data: v.to_vec() };
        self.minus(&self.times(&v).times(&Matrix::of(1, v.rows, |_, j| tau * conjugate(v.at(j, 0)))))
    }
}
