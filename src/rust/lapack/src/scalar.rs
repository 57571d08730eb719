//! The four types of numbers.

/// A complex number as C and Fortran store it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[repr(C)]
pub struct Complex<R> {
    pub re: R,
    pub im: R,
}

/// A type of matrix elements: `f32`, `f64`, [`Complex<f32>`], [`Complex<f64>`].
pub trait Scalar: Copy + Default + PartialEq + Send + Sync + std::fmt::Debug + 'static {
    /// The type of absolute values: singular values, eigenvalues of Hermitian matrices.
    type Real: Scalar<Real = Self::Real, Complex = Self::Complex>;
    /// The type of eigenvalues of general matrices.
    type Complex: Scalar<Real = Self::Real, Complex = Self::Complex>;
    const IS_COMPLEX: bool;
}

macro_rules! scalars {
    ($($type:ty: $real:ty, $is_complex:literal;)*) => {$(
        impl Scalar for $type {
            type Real = $real;
            type Complex = Complex<$real>;
            const IS_COMPLEX: bool = $is_complex;
        }
    )*};
}

scalars! {
    f32: f32, false;
    f64: f64, false;
    Complex<f32>: f32, true;
    Complex<f64>: f64, true;
}
