//! The routines that are used, with their names for each type of numbers, and addresses of them.

use crate::scalar::Scalar;

macro_rules! routines {
    ($($routine:ident: $s:literal $d:literal $c:literal $z:literal;)*) => {
        /// A routine of LAPACK or BLAS.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Routine {
            $($routine,)*
        }

        impl Routine {
            pub(crate) const ALL: &'static [Routine] = &[$(Routine::$routine),*];
            pub(crate) const COUNT: usize = Self::ALL.len();

            /// The names in the order of `Scalar::KIND`, empty where there is none.
            pub(crate) fn names(self) -> [&'static str; 4] {
                match self {
                    $(Routine::$routine => [$s, $d, $c, $z],)*
                }
            }
        }
    };
}

routines! {
    Potrf: "spotrf" "dpotrf" "cpotrf" "zpotrf";
    Getrf: "sgetrf" "dgetrf" "cgetrf" "zgetrf";
    Geqrf: "sgeqrf" "dgeqrf" "cgeqrf" "zgeqrf";
    Geqp3: "sgeqp3" "dgeqp3" "cgeqp3" "zgeqp3";
    Orgqr: "sorgqr" "dorgqr" "cungqr" "zungqr";
    Ormqr: "sormqr" "dormqr" "cunmqr" "zunmqr";
    Gesdd: "sgesdd" "dgesdd" "cgesdd" "zgesdd";
    Gesvd: "sgesvd" "dgesvd" "cgesvd" "zgesvd";
    Syevd: "ssyevd" "dsyevd" "cheevd" "zheevd";
    Heev: "" "" "cheev" "zheev";
    Geev: "sgeev" "dgeev" "cgeev" "zgeev";
    Gees: "sgees" "dgees" "cgees" "zgees";
    Gehrd: "sgehrd" "dgehrd" "cgehrd" "zgehrd";
    Unghr: "" "" "cunghr" "zunghr";
    Hseqr: "" "" "chseqr" "zhseqr";
    Sytrd: "ssytrd" "dsytrd" "chetrd" "zhetrd";
    Trsm: "strsm" "dtrsm" "ctrsm" "ztrsm";
    Gtsv: "sgtsv" "dgtsv" "cgtsv" "zgtsv";
}

/// A routine in a library that is never unloaded, whose arguments are others. LAPACK keeps no state, so any thread may call it.
pub(crate) type Address = unsafe extern "C" fn();

/// The type of a routine's argument. Fortran takes everything by reference; the lengths of letters come last, by value.
pub(crate) trait Argument {}

impl Argument for &u8 {}
impl Argument for *const u8 {}
impl Argument for &i32 {}
impl Argument for &mut i32 {}
impl Argument for *mut i32 {}
impl<T: Scalar> Argument for &T {}
impl<T: Scalar> Argument for *const T {}
impl<T: Scalar> Argument for *mut T {}
impl Argument for usize {}

pub(crate) fn argument<A: Argument>(value: A) -> A {
    value
}

/// Calls a routine with values of its arguments' types. After the type of numbers, `complex` and `real` stand before arguments
/// that only the routines for such types have.
macro_rules! call {
    (@type $value:expr) => { _ };
    ($address:expr; $($value:expr),* $(,)?) => {{
        type Address = $crate::routine::Address;
        let function = std::mem::transmute::<Address, unsafe extern "C" fn($(call!(@type $value)),*)>($address);
        function($($crate::routine::argument($value)),*)
    }};
    ($address:expr, $scalar:ident; $($argument:tt)*) => {
        call!(@split $address, $scalar [] [] $($argument)*)
    };
    (@split $address:expr, $scalar:ident [$($complex:tt)*] [$($real:tt)*]) => {
        if $scalar::IS_COMPLEX { call!($address; $($complex)*) } else { call!($address; $($real)*) }
    };
    (@split $address:expr, $scalar:ident [$($c:tt)*] [$($r:tt)*] complex $value:expr, $($rest:tt)*) => {
        call!(@split $address, $scalar [$($c)* $value,] [$($r)*] $($rest)*)
    };
    (@split $address:expr, $scalar:ident [$($c:tt)*] [$($r:tt)*] real $value:expr, $($rest:tt)*) => {
        call!(@split $address, $scalar [$($c)*] [$($r)* $value,] $($rest)*)
    };
    (@split $address:expr, $scalar:ident [$($c:tt)*] [$($r:tt)*] $value:expr, $($rest:tt)*) => {
        call!(@split $address, $scalar [$($c)* $value,] [$($r)* $value,] $($rest)*)
    };
}

pub(crate) use call;
