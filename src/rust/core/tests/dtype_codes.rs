//! The codes of element types in `pjrt-data` are PJRT's codes.

use pjrt_data::dtype::{DType, ALL};
use pjrt_sys::PJRT_Buffer_Type;

#[test]
fn every_dtype_has_its_code_in_pjrt() {
    let codes = [
        ("pred", PJRT_Buffer_Type::PJRT_Buffer_Type_PRED),
        ("i2", PJRT_Buffer_Type::PJRT_Buffer_Type_S2),
        ("i4", PJRT_Buffer_Type::PJRT_Buffer_Type_S4),
        ("i8", PJRT_Buffer_Type::PJRT_Buffer_Type_S8),
        ("i16", PJRT_Buffer_Type::PJRT_Buffer_Type_S16),
        ("i32", PJRT_Buffer_Type::PJRT_Buffer_Type_S32),
        ("i64", PJRT_Buffer_Type::PJRT_Buffer_Type_S64),
        ("ui2", PJRT_Buffer_Type::PJRT_Buffer_Type_U2),
        ("ui4", PJRT_Buffer_Type::PJRT_Buffer_Type_U4),
        ("ui8", PJRT_Buffer_Type::PJRT_Buffer_Type_U8),
        ("ui16", PJRT_Buffer_Type::PJRT_Buffer_Type_U16),
        ("ui32", PJRT_Buffer_Type::PJRT_Buffer_Type_U32),
        ("ui64", PJRT_Buffer_Type::PJRT_Buffer_Type_U64),
        ("f16", PJRT_Buffer_Type::PJRT_Buffer_Type_F16),
        ("f32", PJRT_Buffer_Type::PJRT_Buffer_Type_F32),
        ("f64", PJRT_Buffer_Type::PJRT_Buffer_Type_F64),
        ("bf16", PJRT_Buffer_Type::PJRT_Buffer_Type_BF16),
        ("c64", PJRT_Buffer_Type::PJRT_Buffer_Type_C64),
        ("c128", PJRT_Buffer_Type::PJRT_Buffer_Type_C128),
        ("f8e5m2", PJRT_Buffer_Type::PJRT_Buffer_Type_F8E5M2),
        ("f8e4m3", PJRT_Buffer_Type::PJRT_Buffer_Type_F8E4M3),
        ("f8e4m3fn", PJRT_Buffer_Type::PJRT_Buffer_Type_F8E4M3FN),
        ("f8e4m3b11fnuz", PJRT_Buffer_Type::PJRT_Buffer_Type_F8E4M3B11FNUZ),
        ("f8e5m2fnuz", PJRT_Buffer_Type::PJRT_Buffer_Type_F8E5M2FNUZ),
        ("f8e4m3fnuz", PJRT_Buffer_Type::PJRT_Buffer_Type_F8E4M3FNUZ),
        ("f8e3m4", PJRT_Buffer_Type::PJRT_Buffer_Type_F8E3M4),
        ("f8e8m0fnu", PJRT_Buffer_Type::PJRT_Buffer_Type_F8E8M0FNU),
        ("f4e2m1fn", PJRT_Buffer_Type::PJRT_Buffer_Type_F4E2M1FN),
    ];
    assert_eq!(codes.len(), ALL.len());
    for (name, code) in codes {
        assert_eq!(DType::from_code(code.0).unwrap().info().name, name);
    }
}
