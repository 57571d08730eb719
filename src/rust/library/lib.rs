//! The static library that R links: the bridge, with all crates below it. A crate of its own, so that the bridge compiles while the
//! code of core is still being generated.

pub use pjrt_bridge::pjrt_register;
