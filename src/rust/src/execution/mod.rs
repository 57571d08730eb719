//! Executions: of a program, of a program on several devices, of an operator.

pub mod benchmark;
pub mod execute;
pub mod inputs;
pub mod operators;
pub mod shard;
pub mod sharded;
