//! What programs call: functions in R, linear algebra, other processes, handlers of other packages.

pub mod custom_call;
pub mod linear_algebra;
pub mod mpi;
pub mod mpi_program;
pub mod r_call;
