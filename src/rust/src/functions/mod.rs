//! Nested lists, and what takes them: functions of R that run programs.

use extendr_api::prelude::*;

pub mod dispatcher;
pub mod function;
pub mod tensor_names;
pub mod tree;

extendr_module! {
    mod functions;
    use function;
    use tensor_names;
}
