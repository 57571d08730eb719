//! A run of cuSOLVER: its handle, workspaces, and the calls of routines.

use crate::cuda::device::{CudaDevice, DeviceMemory};
use crate::cuda::library::{self, Pointer, Routines, Solver};
use crate::frame::{Frame, Outcome};
use crate::lapack::Element;
use pjrt_base::sync::Unpoisoned;
use std::ffi::c_int;
use std::marker::PhantomData;
use std::ptr::null_mut;
use std::sync::Mutex;

/// A type that cuSOLVER has routines for here, with the letter in their names.
pub(super) trait Real: Element {
    const LETTER: char;
    const ROUTINES: fn(&Solver) -> &Routines;
}

impl Real for f32 {
    const LETTER: char = 'S';
    const ROUTINES: fn(&Solver) -> &Routines = |solver| &solver.single;
}

impl Real for f64 {
    const LETTER: char = 'D';
    const ROUTINES: fn(&Solver) -> &Routines = |solver| &solver.double;
}

/// Idle handles, by the stream that they were last used on, the latest last.
static IDLE: Mutex<Vec<((usize, usize), usize)>> = Mutex::new(Vec::new());

/// The most idle handles. Streams end with their client, and handles take memory on the device.
const MOST: usize = 16;

/// cuSOLVER for one type of elements, on the device of a call.
pub(super) struct Run<'a, T> {
    pub device: CudaDevice<'a>,
    solver: &'static Solver,
    handle: Pointer,
    elements: PhantomData<T>,
}

impl<'a, T: Real> Run<'a, T> {
    /// Takes an idle handle, or creates one.
    pub fn new(frame: &'a Frame<'a>) -> Outcome<Run<'a, T>> {
        let (device, solver) = (CudaDevice::new(frame)?, library::solver()?);
        let known = {
            let mut idle = IDLE.lock().unpoisoned();
            idle.iter().rposition(|(key, _)| *key == device.key()).map(|at| idle.remove(at).1)
        };
        let mut handle = known.map_or(null_mut(), |handle| handle as Pointer);
        if handle.is_null() {
            // SAFETY: the place for the handle is valid, and the device is current.
            library::check("cusolverDnCreate", unsafe { (solver.common.create)(&mut handle) })?;
        }
        let run = Run { device, solver, handle, elements: PhantomData };
        // SAFETY: nobody else uses this handle, and the stream is the plugin's.
        let status = unsafe { (solver.common.set_stream)(handle, run.device.stream) };
        library::check("cusolverDnSetStream", status).map(|()| run)
    }

    /// Device memory for this number of elements.
    pub fn memory(&self, elements: usize) -> Outcome<DeviceMemory<'_>> {
        self.device.memory(elements * size_of::<T>())
    }

    /// A workspace of the size that the function asks for.
    pub fn workspace(
        &self,
        routine: &str,
        ask: impl FnOnce(&Routines, Pointer, *mut c_int) -> c_int,
    ) -> Outcome<Workspace<'_>> {
        let mut size = 0;
        let status = ask(T::ROUTINES(self.solver), self.handle, &mut size);
        Self::check(status, || format!("{routine}_bufferSize"))?;
        let size = size.max(0);
        Ok(Workspace { memory: self.memory(size as usize)?, size, info: self.device.memory(size_of::<c_int>())? })
    }

    /// Calls a routine.
    pub fn once(&self, routine: &str, call: impl FnOnce(&Routines, Pointer) -> c_int) -> Outcome {
        Self::check(call(T::ROUTINES(self.solver), self.handle), || routine.into())
    }

    /// Calls a routine for each number below `count`.
    pub fn each(&self, routine: &str, count: usize, call: impl Fn(&Routines, Pointer, usize) -> c_int) -> Outcome {
        (0..count).try_for_each(|i| self.once(routine, |routines, handle| call(routines, handle, i)))
    }

    fn check(status: c_int, routine: impl FnOnce() -> String) -> Outcome {
        match status {
            0 => Ok(()),
            _ => library::check(&format!("cusolverDn{}{}", T::LETTER, routine()), status),
        }
    }
}

impl<T> Drop for Run<'_, T> {
    fn drop(&mut self) {
        let oldest = {
            let mut idle = IDLE.lock().unpoisoned();
            idle.push((self.device.key(), self.handle as usize));
            (idle.len() > MOST).then(|| idle.remove(0))
        };
        if let Some(((context, _), handle)) = oldest {
            // SAFETY: nobody uses this handle any more.
            self.device.with_context(context, || unsafe {
                (self.solver.common.destroy)(handle as Pointer);
            });
        }
    }
}

/// A workspace, with its number of elements, and where routines write `info`.
pub(super) struct Workspace<'a> {
    pub memory: DeviceMemory<'a>,
    pub size: c_int,
    pub info: DeviceMemory<'a>,
}
