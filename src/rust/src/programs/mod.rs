//! Programs, and executables made from them: read, compiled, cached, written, described.

pub mod cache;
pub mod compile;
pub mod compile_options;
pub mod executable;
pub mod exported;
pub mod graph;
pub mod inspect;
pub mod program;
pub mod pytorch;
pub mod refine;
pub mod serialize;
pub mod topology;
