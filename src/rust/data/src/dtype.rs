//! Element types: the one table that supplies codes, names, widths and host types to all other code.

use pjrt_base::counted::shortened;
use pjrt_base::error::{Error, Kind, Result};
use std::fmt;

/// The type of host vector that holds elements of a dtype.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostType {
    Logical,
    Integer,
    Double,
    Integer64,
    Complex,
}

/// One row of the table.
#[derive(Debug)]
pub struct Info {
    /// The user-visible name, e.g. `"f32"`.
    pub name: &'static str,
    /// Other names accepted for it.
    pub aliases: &'static [&'static str],
    /// Code in PJRT's C API.
    pub code: u32,
    /// Code in XLA's `PrimitiveType`, as used in HLO modules.
    pub xla_code: i32,
    /// Width of one element on the device, in bits.
    pub bits: u32,
    /// Host type that [`crate::convert`] reads it into by default.
    pub host_type: HostType,
    /// Name in a safetensors header, if the format has the type.
    pub safetensors: Option<&'static str>,
    /// Name in StableHLO text.
    pub mlir: &'static str,
    /// Code of its kind in DLPack, which distinguishes types of one kind by their width.
    pub dlpack: u8,
}

macro_rules! dtypes {
    ($($variant:ident, $name:literal, [$($alias:literal),*], $code:literal, $xla:literal, $bits:literal, $r:ident,
       $st:expr, $mlir:literal, $dlpack:literal;)*) => {
        /// The type of a buffer's elements.
        ///
        /// ```
        /// use pjrt_data::dtype::DType;
        /// let dtype = DType::parse("bfloat16")?;
        /// assert_eq!((dtype, dtype.name(), dtype.info().bits), (DType::BF16, "bf16", 16));
        /// assert!(dtype.is_float() && DType::parse("float17").is_err());
        /// # Ok::<(), pjrt_base::error::Error>(())
        /// ```
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum DType { $($variant),* }

        static TABLE: &[Info] = &[$(Info {
            name: $name, aliases: &[$($alias),*], code: $code, xla_code: $xla, bits: $bits,
            host_type: HostType::$r, safetensors: $st, mlir: $mlir,
            dlpack: $dlpack,
        }),*];

        /// Every dtype, in the order of the table.
        pub const ALL: &[DType] = &[$(DType::$variant),*];
    };
}

dtypes! {
    Pred, "pred", ["i1", "bool"], 1, 1, 8, Logical, Some("BOOL"), "i1", 6;
    I8, "i8", ["s8", "int8"], 2, 2, 8, Integer, Some("I8"), "i8", 0;
    I16, "i16", ["s16", "int16"], 3, 3, 16, Integer, Some("I16"), "i16", 0;
    I32, "i32", ["s32", "int32"], 4, 4, 32, Integer, Some("I32"), "i32", 0;
    I64, "i64", ["s64", "int64"], 5, 5, 64, Integer64, Some("I64"), "i64", 0;
    U8, "ui8", ["u8", "uint8"], 6, 6, 8, Integer, Some("U8"), "ui8", 1;
    U16, "ui16", ["u16", "uint16"], 7, 7, 16, Integer, Some("U16"), "ui16", 1;
    U32, "ui32", ["u32", "uint32"], 8, 8, 32, Integer64, Some("U32"), "ui32", 1;
    U64, "ui64", ["u64", "uint64"], 9, 9, 64, Integer64, Some("U64"), "ui64", 1;
    F16, "f16", ["float16", "half"], 10, 10, 16, Double, Some("F16"), "f16", 2;
    F32, "f32", ["float32", "float"], 11, 11, 32, Double, Some("F32"), "f32", 2;
    F64, "f64", ["float64", "double"], 12, 12, 64, Double, Some("F64"), "f64", 2;
    BF16, "bf16", ["bfloat16"], 13, 16, 16, Double, Some("BF16"), "bf16", 4;
    C64, "c64", ["complex64"], 14, 15, 64, Complex, Some("C64"), "complex<f32>", 5;
    C128, "c128", ["complex128"], 15, 18, 128, Complex, None, "complex<f64>", 5;
    F8E5M2, "f8e5m2", ["float8_e5m2"], 16, 19, 8, Double, Some("F8_E5M2"), "f8E5M2", 12;
    F8E4M3FN, "f8e4m3fn", ["float8_e4m3fn"], 17, 20, 8, Double, Some("F8_E4M3"), "f8E4M3FN", 10;
    F8E4M3B11FNUZ, "f8e4m3b11fnuz", ["float8_e4m3b11fnuz"], 18, 23, 8, Double, None, "f8E4M3B11FNUZ", 9;
    F8E5M2FNUZ, "f8e5m2fnuz", ["float8_e5m2fnuz"], 19, 24, 8, Double, Some("F8_E5M2FNUZ"), "f8E5M2FNUZ", 13;
    F8E4M3FNUZ, "f8e4m3fnuz", ["float8_e4m3fnuz"], 20, 25, 8, Double, Some("F8_E4M3FNUZ"), "f8E4M3FNUZ", 11;
    F8E4M3, "f8e4m3", ["float8_e4m3"], 26, 28, 8, Double, None, "f8E4M3", 8;
    F8E3M4, "f8e3m4", ["float8_e3m4"], 27, 29, 8, Double, None, "f8E3M4", 7;
    F8E8M0FNU, "f8e8m0fnu", ["float8_e8m0fnu"], 28, 33, 8, Double, Some("F8_E8M0"), "f8E8M0FNU", 14;
    F4E2M1FN, "f4e2m1fn", ["float4_e2m1fn"], 29, 32, 4, Double, Some("F4"), "f4E2M1FN", 17;
    I2, "i2", ["s2", "int2"], 24, 26, 2, Integer, None, "i2", 0;
    I4, "i4", ["s4", "int4"], 21, 21, 4, Integer, None, "i4", 0;
    U2, "ui2", ["u2", "uint2"], 25, 27, 2, Integer, None, "ui2", 1;
    U4, "ui4", ["u4", "uint4"], 22, 22, 4, Integer, None, "ui4", 1;
}

impl DType {
    /// The table's row for this dtype.
    pub fn info(self) -> &'static Info {
        &TABLE[self as usize]
    }

    pub fn name(self) -> &'static str {
        self.info().name
    }

    /// The dtype of this name or alias.
    ///
    /// # Errors
    /// `UnsupportedDtype` for any other string; the message lists the valid names.
    pub fn parse(name: &str) -> Result<Self> {
        let found = ALL.iter().copied().find(|d| d.name() == name || d.info().aliases.contains(&name));
        found.ok_or_else(|| {
            let names: Vec<_> = ALL.iter().map(|d| d.name()).collect();
            Error::new(Kind::UnsupportedDtype, format!("Unsupported type: {}", shortened(name, 100)))
                .hint(format!("Known types: {}.", names.join(", ")))
        })
    }

    /// The dtype with this code in PJRT's C API.
    ///
    /// # Errors
    /// `UnsupportedDtype` for a token or a code newer than the table.
    pub fn from_code(code: u32) -> Result<Self> {
        let found = ALL.iter().copied().find(|d| d.info().code == code);
        found.ok_or_else(|| {
            Error::new(Kind::UnsupportedDtype, format!("The plugin uses an unknown element type (code {}).", code))
        })
    }

    /// The dtype with this code in XLA's `PrimitiveType`; `None` if it is not an array type.
    pub fn from_xla_code(code: i32) -> Option<Self> {
        ALL.iter().copied().find(|d| d.info().xla_code == code)
    }

    /// The dtype with this name in StableHLO text, if there is one.
    pub fn from_mlir(name: &str) -> Option<Self> {
        ALL.iter().copied().find(|d| d.info().mlir == name)
    }

    /// The dtype with this name in a safetensors header, if there is one.
    pub fn from_safetensors(name: &str) -> Option<Self> {
        ALL.iter().copied().find(|d| d.info().safetensors == Some(name))
    }

    /// The dtype with this code and width in DLPack, if there is one.
    pub fn from_dlpack(code: u8, bits: u8) -> Option<Self> {
        ALL.iter().copied().find(|d| d.info().dlpack == code && d.info().bits == u32::from(bits))
    }

    /// Whether the elements are integers.
    pub fn is_integer(self) -> bool {
        matches!(self.info().host_type, HostType::Integer | HostType::Integer64)
    }

    /// Whether the elements are integers that can be negative.
    pub fn is_signed(self) -> bool {
        matches!(self, DType::I2 | DType::I4 | DType::I8 | DType::I16 | DType::I32 | DType::I64)
    }

    /// The integer in the lowest bits of a number, as many as an element has.
    pub fn wrapped(self, bits: u64) -> i64 {
        let unused = 64 - self.info().bits;
        if self.is_signed() {
            (bits as i64) << unused >> unused
        } else {
            (bits << unused >> unused) as i64
        }
    }

    /// The dtype whose elements take a byte each, for integers that are narrower; any other is itself.
    pub fn in_bytes(self) -> DType {
        match self {
            DType::I2 | DType::I4 => DType::I8,
            DType::U2 | DType::U4 => DType::U8,
            other => other,
        }
    }

    /// Whether the elements are complex.
    pub fn is_complex(self) -> bool {
        self.info().host_type == HostType::Complex
    }

    /// Whether the elements are real floats.
    pub fn is_float(self) -> bool {
        self.info().host_type == HostType::Double
    }

    /// Whether elements are narrower than a byte: several share one on the device, and each takes one on the host.
    pub fn is_packed(self) -> bool {
        self.info().bits < 8
    }

    /// Bytes of one element on the host; types narrower than a byte take one.
    #[inline]
    pub fn host_bytes(self) -> usize {
        (self.info().bits as usize).div_ceil(8)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
