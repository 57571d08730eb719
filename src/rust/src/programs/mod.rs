//! Programs, and executables made from them: read, compiled, cached, written, described.

use extendr_api::prelude::*;

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

extendr_module! {
    mod programs;
    use cache;
    use compile;
    use compile_options;
    use executable;
    use exported;
    use graph;
    use inspect;
    use program;
    use pytorch;
    use refine;
    use serialize;
    use topology;
}
