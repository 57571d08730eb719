//! Executions: of a program, of a program on several devices, of an operator.

use extendr_api::prelude::*;

pub mod benchmark;
pub mod execute;
pub mod inputs;
pub mod operators;
pub mod shard;
pub mod sharded;

extendr_module! {
    mod execution;
    use benchmark;
    use execute;
    use shard;
}
