//! What belongs to no single object: the ends of objects and of the session, traces, R functions that wait for results, and the
//! interface for C.

pub mod c_interface;
pub mod lifetime;
pub mod on_ready;
pub mod trace;
