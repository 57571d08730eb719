//! Nested lists, and what takes them: functions of R that run programs.

pub mod dispatcher;
pub mod function;
pub mod tensor_names;
pub mod tree;
