//! The routines that are used, with their names for each type of numbers, and addresses of them.

use std::ffi::c_void;
use std::ptr::NonNull;

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

/// The address of a routine in a library that is never unloaded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Address(NonNull<c_void>);

// SAFETY: code may be called from any thread, and LAPACK keeps no state.
unsafe impl Send for Address {}
// SAFETY: as above.
unsafe impl Sync for Address {}

impl Address {
    pub(crate) fn new(address: *mut c_void) -> Option<Address> {
        NonNull::new(address).map(Address)
    }

    /// The address as a function.
    ///
    /// # Safety
    /// `F` is a function pointer of the routine's type.
    pub(crate) unsafe fn function<F: Copy>(self) -> F {
        const { assert!(size_of::<F>() == size_of::<NonNull<c_void>>()) };
        // SAFETY: both are one address; the caller vouches for the type.
        unsafe { std::mem::transmute_copy(&self.0) }
    }
}

/// Calls a routine: each value with the type of the routine's argument. Fortran takes everything by reference; the
/// lengths of letters come last, by value. After the type of numbers, `complex` and `real` stand before arguments that
/// only the routines for such types have.
macro_rules! call {
    ($address:expr, $($value:expr => $type:ty),* $(,)?) => {{
        let function: unsafe extern "C" fn($($type),*) = $address.function();
        function($($value),*)
    }};
    ($address:expr, $scalar:ident; $($argument:tt)*) => {
        call!(@split $address, $scalar [] [] $($argument)*)
    };
    (@split $address:expr, $scalar:ident [$($complex:tt)*] [$($real:tt)*]) => {
        if $scalar::IS_COMPLEX { call!($address, $($complex)*) } else { call!($address, $($real)*) }
    };
    (@split $address:expr, $scalar:ident [$($c:tt)*] [$($r:tt)*] complex $value:expr => $type:ty, $($rest:tt)*) => {
        call!(@split $address, $scalar [$($c)* $value => $type,] [$($r)*] $($rest)*)
    };
    (@split $address:expr, $scalar:ident [$($c:tt)*] [$($r:tt)*] real $value:expr => $type:ty, $($rest:tt)*) => {
        call!(@split $address, $scalar [$($c)*] [$($r)* $value => $type,] $($rest)*)
    };
    (@split $address:expr, $scalar:ident [$($c:tt)*] [$($r:tt)*] $value:expr => $type:ty, $($rest:tt)*) => {
        call!(@split $address, $scalar [$($c)* $value => $type,] [$($r)* $value => $type,] $($rest)*)
    };
}

pub(crate) use call;
