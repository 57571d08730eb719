//! The functions of MPI, by their types in C.

use crate::abi::Handle;
use pjrt_base::error::{Error, Kind, Result};
use std::ffi::{c_char, c_int, c_void};

macro_rules! calls {
    ($($field:ident $name:literal ($($argument:ty),*);)*) => {
        /// The functions of one library, whose handles are `H`.
        #[derive(Clone, Copy)]
        pub(crate) struct Calls<H: Handle> {
            $(pub $field: unsafe extern "C" fn($($argument),*) -> c_int,)*
        }

        impl<H: Handle> Calls<H> {
            /// Looks up all functions. The error is the name of one that is missing.
            ///
            /// # Safety
            /// The library's handles must be `H`.
            pub(crate) unsafe fn load(
                find: impl Fn(&str) -> Option<*mut c_void>,
            ) -> std::result::Result<Calls<H>, &'static str> {
                Ok(Calls {
                    $($field: std::mem::transmute::<
                        *mut c_void,
                        unsafe extern "C" fn($($argument),*) -> c_int,
                    >(find(concat!("MPI_", $name)).ok_or(concat!("MPI_", $name))?),)*
                })
            }
        }
    };
}

calls! {
    initialized "Initialized" (*mut c_int);
    finalized "Finalized" (*mut c_int);
    init_thread "Init_thread" (*mut c_int, *mut *mut *mut c_char, c_int, *mut c_int);
    query_thread "Query_thread" (*mut c_int);
    finalize "Finalize" ();
    error_string "Error_string" (c_int, *mut c_char, *mut c_int);
    get_version "Get_version" (*mut c_int, *mut c_int);
    comm_rank "Comm_rank" (H, *mut c_int);
    comm_size "Comm_size" (H, *mut c_int);
    comm_dup "Comm_dup" (H, *mut H);
    comm_group "Comm_group" (H, *mut H);
    comm_create_group "Comm_create_group" (H, H, c_int, *mut H);
    comm_set_errhandler "Comm_set_errhandler" (H, H);
    group_incl "Group_incl" (H, c_int, *const c_int, *mut H);
    group_free "Group_free" (*mut H);
    all_reduce "Allreduce" (*const c_void, *mut c_void, c_int, H, H, H);
    reduce "Reduce" (*const c_void, *mut c_void, c_int, H, H, c_int, H);
    reduce_scatter "Reduce_scatter_block" (*const c_void, *mut c_void, c_int, H, H, H);
    all_gather "Allgather" (*const c_void, c_int, H, *mut c_void, c_int, H, H);
    all_to_all "Alltoall" (*const c_void, c_int, H, *mut c_void, c_int, H, H);
    broadcast "Bcast" (*mut c_void, c_int, H, c_int, H);
    start_all_gather "Iallgather" (*const c_void, c_int, H, *mut c_void, c_int, H, H, *mut H);
    start_broadcast "Ibcast" (*mut c_void, c_int, H, c_int, H, *mut H);
    barrier "Barrier" (H);
    send_receive "Sendrecv" (
        *const c_void, c_int, H, c_int, c_int, *mut c_void, c_int, H, c_int, c_int, H, *mut c_void
    );
    isend "Isend" (*const c_void, c_int, H, c_int, c_int, H, *mut H);
    test "Test" (*mut H, *mut c_int, *mut c_void);
    receive "Recv" (*mut c_void, c_int, H, c_int, c_int, H, *mut c_void);
    get_count "Get_count" (*const c_void, H, *mut c_int);
}

impl<H: Handle> Calls<H> {
    /// The error for a code that a function has returned.
    pub(crate) fn check(&self, name: &str, code: c_int) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        let (mut text, mut length) = ([0u8; 1024], 0);
        // SAFETY: no ABI's longest text is longer.
        unsafe { (self.error_string)(code, text.as_mut_ptr().cast::<c_char>(), &mut length) };
        let text = String::from_utf8_lossy(&text[..usize::try_from(length).unwrap_or(0).min(1024)]).into_owned();
        Err(Error::new(Kind::Pjrt(10), format!("`MPI_{name}()` failed: {}", text.trim())))
    }

    /// The flag that a function returns which may be called at any time.
    pub(crate) fn flag(&self, ask: unsafe extern "C" fn(*mut c_int) -> c_int) -> bool {
        let mut flag = 0;
        // SAFETY: it writes one integer, at any time.
        unsafe { ask(&mut flag) == 0 && flag != 0 }
    }
}
