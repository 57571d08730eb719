//! The four types of numbers.

use std::fmt::Debug;
use std::ops::{Add, Div, Mul, Neg, Sub};

/// A complex number as C and Fortran store it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[repr(C)]
pub struct Complex<R> {
    pub re: R,
    pub im: R,
}

/// The position of a type in tables of four.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScalarKind {
    F32,
    F64,
    C64,
    C128,
}

/// A type of matrix elements: `f32`, `f64`, [`Complex<f32>`], [`Complex<f64>`].
pub trait Scalar: sealed::Sealed + Copy + Default + PartialEq + Send + Sync + Debug + 'static {
    /// The type of absolute values: singular values, eigenvalues of Hermitian matrices.
    type Real: Scalar<Real = Self::Real, Complex = Self::Complex> + PartialOrd;
    /// The type of eigenvalues of general matrices.
    type Complex: Scalar<Real = Self::Real, Complex = Self::Complex>;
    /// The same in double precision.
    type Wide: Scalar<Wide = Self::Wide>;
    const KIND: ScalarKind;
    const IS_COMPLEX: bool;
    /// The distance from 1 to the next number.
    const EPSILON: f64 = Self::Real::EPSILON;
    /// The smallest positive number of full precision.
    const SMALLEST: f64 = Self::Real::SMALLEST;
    /// The largest finite number.
    const LARGEST: f64 = Self::Real::LARGEST;

    /// The real and the imaginary part.
    fn parts(self) -> (f64, f64);

    /// Real types ignore the imaginary part.
    fn from_parts(re: f64, im: f64) -> Self;

    /// Whether the number is finite, and so is its absolute value.
    #[inline]
    fn is_finite(self) -> bool {
        self.size() <= Self::LARGEST
    }

    /// The sum of the parts' absolute values: a cheap size for pivots.
    #[inline]
    fn size(self) -> f64 {
        let (re, im) = self.parts();
        re.abs() + im.abs()
    }

    fn nan() -> Self {
        Self::from_parts(f64::NAN, f64::NAN)
    }

    /// Whether there is a type of higher precision.
    fn is_narrow() -> bool {
        matches!(Self::KIND, ScalarKind::F32 | ScalarKind::C64)
    }
}

mod sealed {
    use super::*;

    /// Numbers for which every pattern of bits is valid, with an alignment of at most 8 bytes, and arithmetic for the few
    /// operations that are done here.
    pub trait Sealed:
        Sized + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Div<Output = Self> + Neg<Output = Self>
    {
    }
}

macro_rules! scalars {
    ($($real:ident: $kind:ident $complex_kind:ident;)*) => {$(
        impl sealed::Sealed for $real {}

        impl Scalar for $real {
            type Real = $real;
            type Complex = Complex<$real>;
            type Wide = f64;
            const KIND: ScalarKind = ScalarKind::$kind;
            const IS_COMPLEX: bool = false;
            const EPSILON: f64 = $real::EPSILON as f64;
            const SMALLEST: f64 = $real::MIN_POSITIVE as f64;
            const LARGEST: f64 = $real::MAX as f64;

            #[inline]
            fn parts(self) -> (f64, f64) {
                (f64::from(self), 0.0)
            }

            #[inline]
            fn from_parts(re: f64, _: f64) -> Self {
                re as $real
            }
        }

        impl sealed::Sealed for Complex<$real> {}

        impl Scalar for Complex<$real> {
            type Real = $real;
            type Complex = Complex<$real>;
            type Wide = Complex<f64>;
            const KIND: ScalarKind = ScalarKind::$complex_kind;
            const IS_COMPLEX: bool = true;

            #[inline]
            fn parts(self) -> (f64, f64) {
                (f64::from(self.re), f64::from(self.im))
            }

            #[inline]
            fn from_parts(re: f64, im: f64) -> Self {
                Complex { re: re as $real, im: im as $real }
            }
        }

        impl Add for Complex<$real> {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Complex { re: self.re + other.re, im: self.im + other.im }
            }
        }

        impl Sub for Complex<$real> {
            type Output = Self;
            fn sub(self, other: Self) -> Self {
                Complex { re: self.re - other.re, im: self.im - other.im }
            }
        }

        impl Mul for Complex<$real> {
            type Output = Self;
            fn mul(self, other: Self) -> Self {
                Complex {
                    re: self.re * other.re - self.im * other.im,
                    im: self.re * other.im + self.im * other.re,
                }
            }
        }

        impl Div for Complex<$real> {
            type Output = Self;
            /// Smith's method, which avoids overflow of the squares.
            fn div(self, other: Self) -> Self {
                if other.re.abs() >= other.im.abs() {
                    let ratio = other.im / other.re;
                    let scale = other.re + other.im * ratio;
                    Complex { re: (self.re + self.im * ratio) / scale, im: (self.im - self.re * ratio) / scale }
                } else {
                    let ratio = other.re / other.im;
                    let scale = other.re * ratio + other.im;
                    Complex { re: (self.re * ratio + self.im) / scale, im: (self.im * ratio - self.re) / scale }
                }
            }
        }

        impl Neg for Complex<$real> {
            type Output = Self;
            fn neg(self) -> Self {
                Complex { re: -self.re, im: -self.im }
            }
        }
    )*};
}

scalars! {
    f32: F32 C64;
    f64: F64 C128;
}
