//! What programs call: functions in R, linear algebra, other processes, handlers of other packages.

use extendr_api::prelude::*;

pub mod custom_call;
pub mod linear_algebra;
pub mod mpi;
pub mod mpi_program;
pub mod r_call;

extendr_module! {
    mod calls;
    use custom_call;
    use linear_algebra;
    use mpi;
    use mpi_program;
    use r_call;
}
