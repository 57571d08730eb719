//! Communication between processes with the system's MPI, which is loaded at run time. Must not know PJRT, programs, R.
//!
//! MPI's handles are pointers in Open MPI and in the standard ABI of MPI 5, and integers in MPICH and its relatives. All three
//! are called through one generic table. All calls come from one thread, see [`world`], except the store's, see
//! [`BoardStore`].

mod abi;
mod board;
mod calls;
mod communicator;
mod half_types;
mod library;
mod ordered;
mod rounds;
pub mod world;

pub use board::BoardStore;
pub use communicator::{Communicator, Op};
pub use library::Family;
