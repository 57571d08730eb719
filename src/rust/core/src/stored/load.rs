//! Loads arrays from files to a device: in place if the device can use the file's memory, otherwise with one copy.

use super::{Form, Progress, Stored};
use crate::buffer::backing::Backing;
use crate::buffer::Buffer;
use crate::client::device::Device;
use crate::host::memory::HostMemory;
use crate::host::pool;
use pjrt_base::counted::counted;
use pjrt_base::error::{Error, Kind, Result, RESOURCE_EXHAUSTED};
use pjrt_base::mmap::MappedFile;
use pjrt_base::parallel::{self, InterruptTimer};
use pjrt_base::process;
use pjrt_base::reason::Reason;
use pjrt_base::room::available_memory;
use pjrt_base::trace::{self, Activity, Details};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// Up to this size, the plugin copies an array during the call. Using it in place would be faster now, but each use
/// would check whether the file has changed.
const SMALL: usize = 2048;

/// The bytes that a thread reads at once.
const PIECE: usize = 1 << 20;

/// The bytes up to which one thread is enough.
const ONE_THREAD: usize = 2 << 20;

/// The bytes up to which memory is not checked beforehand.
const FEW: usize = 64 << 20;

/// Arrays to load: checked for the device, with a chosen route.
#[derive(Debug)]
pub struct Loading<'a> {
    device: &'a Device,
    arrays: Vec<Item<'a>>,
}

#[derive(Debug)]
struct Item<'a> {
    stored: Stored<'a>,
    route: Route,
}

/// How an array reaches the device.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Route {
    /// Read to the stack, and copied by the plugin.
    Small,
    /// The device uses the file's memory, permanently or while it copies.
    Mapped,
    /// Read to new memory, which the device uses. Narrow elements have a byte each there, and the plugin copies them again.
    Copied,
}

impl<'a> Loading<'a> {
    /// Prepares to load arrays. The specs have been checked against the sizes in the files.
    ///
    /// # Errors
    /// `InvalidInput` for a device of another process; `FileChanged`, `Io`.
    pub fn new(arrays: Vec<Stored<'a>>, device: &'a Device) -> Result<Loading<'a>> {
        device.check_addressable()?;
        let shares = device.client().shares_host_memory();
        let item = |stored: Stored<'a>| {
            let route = match stored.form {
                _ if stored.spec.bytes() <= SMALL => Route::Small,
                Form::Plain { in_place: true } if !shares || HostMemory::is_aligned(address(&stored)?) => Route::Mapped,
                _ => Route::Copied,
            };
            Ok(Item { stored, route })
        };
        Ok(Loading { device, arrays: arrays.into_iter().map(item).collect::<Result<_>>()? })
    }

    pub fn len(&self) -> usize {
        self.arrays.len()
    }

    pub fn is_empty(&self) -> bool {
        self.arrays.is_empty()
    }

    /// The memory in bytes that an array's buffer needs besides the file's.
    pub fn own_bytes(&self, array: usize) -> usize {
        if self.stays(&self.arrays[array]) {
            0
        } else {
            self.bytes(array)
        }
    }

    /// The size of an array's buffer in bytes.
    pub fn bytes(&self, array: usize) -> usize {
        self.arrays[array].stored.spec.bytes()
    }

    /// Bytes to read from files or send to the device.
    pub fn moved_bytes(&self) -> u64 {
        let moved = self.arrays.iter().filter(|item| !self.stays(item));
        moved.map(|item| item.stored.bytes as u64).sum()
    }

    /// Whether the device uses an array in the file's memory.
    fn stays(&self, item: &Item) -> bool {
        item.route == Route::Mapped && self.device.client().shares_host_memory()
    }

    /// Loads the arrays. A user's interrupt ends the load.
    ///
    /// # Errors
    /// `FileChanged` if a file changed meanwhile; `Io`, `Interrupted`, and the plugin's own.
    pub fn run(&self, progress: &mut Progress) -> Result<Vec<Buffer>> {
        let mut span = trace::span(Activity::File, || self.details());
        let loaded = self.load(progress);
        span.check(&loaded);
        loaded
    }

    /// The bytes, and how many arrays they are.
    #[cold]
    fn details(&self) -> Details {
        let bytes = (0..self.len()).map(|array| self.bytes(array) as u64).sum();
        Details::named(format!("load {}", counted(self.len(), "array"))).bytes(bytes)
    }

    fn load(&self, progress: &mut Progress) -> Result<Vec<Buffer>> {
        let (memories, mut done) = self.read(progress)?;
        let mut timer = InterruptTimer::start();
        let mut backings: Vec<(&Arc<MappedFile>, Arc<Backing>)> = Vec::new();
        let mut buffers = Vec::with_capacity(self.arrays.len());
        for (item, memory) in self.arrays.iter().zip(memories) {
            let buffer = match &memory {
                Some(memory) => Buffer::from_host(self.device, item.stored.spec.clone(), memory),
                None if item.route == Route::Small => self.small(item),
                None => self.mapped(item, &mut backings),
            };
            buffers.push(buffer.map_err(|error| item.stored.about(error))?);
            if memory.is_none() && !self.stays(item) {
                done += item.stored.bytes as u64;
            }
            if timer.is_due() {
                process::check_interrupt()?;
                progress(done);
            }
        }
        self.check_files()?;
        Ok(buffers)
    }

    /// Memory with the contents of the copied arrays, read by several threads, and the number of bytes read.
    fn read(&self, progress: &mut Progress) -> Result<(Vec<Option<Arc<HostMemory>>>, u64)> {
        let memory =
            |item: &Item| (item.route == Route::Copied).then(|| HostMemory::new(item.stored.spec.bytes())).transpose();
        self.check_memory()?;
        let memories = self.arrays.iter().map(memory).collect::<Result<Vec<_>>>()?;
        let mut todo = Vec::new();
        for (item, memory) in self.arrays.iter().zip(&memories) {
            let Some(memory) = memory else { continue };
            // What is decoded is one piece.
            let step = if let Form::Encoded(_) = item.stored.form { usize::MAX } else { PIECE };
            for offset in (0..item.stored.bytes.max(1)).step_by(step) {
                todo.push(Piece { stored: &item.stored, memory, offset, len: step.min(item.stored.bytes - offset) });
            }
        }
        let total: usize = todo.iter().map(|piece| piece.len).sum();
        let helpers = if total <= ONE_THREAD { 0 } else { parallel::helpers() };
        let done = AtomicU64::new(0);
        let work = |number: usize| {
            let piece: &Piece = &todo[number];
            piece.read()?;
            done.fetch_add(piece.len as u64, Ordering::Relaxed);
            Ok(())
        };
        parallel::run(todo.len(), helpers, work, &mut || {
            process::check_interrupt()?;
            progress(done.load(Ordering::Relaxed));
            Ok(())
        })?;
        progress(total as u64);
        Ok((memories, total as u64))
    }

    fn small(&self, item: &Item) -> Result<Buffer> {
        let mut elements = [0u64; SMALL / 8];
        // SAFETY: the bytes of the words.
        let elements =
            unsafe { std::slice::from_raw_parts_mut(elements.as_mut_ptr().cast(), item.stored.spec.bytes()) };
        item.stored.read(0, item.stored.bytes, elements)?;
        Buffer::from_bytes(self.device, item.stored.spec.clone(), elements)
    }

    fn mapped(&self, item: &Item<'a>, backings: &mut Vec<(&'a Arc<MappedFile>, Arc<Backing>)>) -> Result<Buffer> {
        let file = item.stored.file;
        let backing = if self.stays(item) {
            let known = backings.iter().find(|(other, _)| Arc::ptr_eq(other, file)).map(|(_, backing)| backing.clone());
            known.unwrap_or_else(|| {
                let backing = Arc::new(Backing::new(vec![file.clone()], true));
                backings.push((file, backing.clone()));
                backing
            })
        } else {
            Arc::new(Backing::new(vec![file.clone()], false))
        };
        let data = NonNull::new(address(&item.stored)?.cast_mut()).unwrap_or(NonNull::dangling());
        let kept = file.clone();
        // SAFETY: the mapping is kept until then, and lies within the file, whose size was checked. What others do to the
        // file is in the backing.
        let memory = unsafe { HostMemory::lent(data, item.stored.spec.bytes(), move || drop(kept)) };
        Buffer::from_file(self.device, item.stored.spec.clone(), &memory, Some(backing))
    }

    /// Checks that there is enough memory, without which the system would end the process.
    fn check_memory(&self) -> Result<()> {
        let copied = self.arrays.iter().filter(|item| item.route == Route::Copied);
        let needed: usize = copied.map(|item| item.stored.spec.bytes()).fold(0, usize::saturating_add);
        let free = if needed > FEW { available_memory() } else { None };
        match free {
            Some(free) if needed > free.saturating_add(pool::kept()) => {
                let message = format!("The tensors need {needed} bytes of memory, but only {free} are free.");
                Err(Error::new(Kind::Pjrt(RESOURCE_EXHAUSTED), message).hint(Reason::TensorsTooLarge))
            }
            _ => Ok(()),
        }
    }

    /// Checks that no file changed during the read.
    fn check_files(&self) -> Result<()> {
        let mut files: Vec<_> = self.arrays.iter().map(|item| item.stored.file).collect();
        files.dedup_by(|a, b| Arc::ptr_eq(a, b));
        files.iter().try_for_each(|file| file.check())
    }
}

/// The first of an array's bytes in its file.
fn address(stored: &Stored) -> Result<*const u8> {
    let memory = stored.file.memory()?;
    match usize::try_from(stored.start).ok().and_then(|start| memory.get(start..start.checked_add(stored.bytes)?)) {
        Some(bytes) => Ok(bytes.as_ptr()),
        None => bail!(Internal, "{} lies outside of its file.", stored.label),
    }
}

/// A part of an array that one thread reads.
struct Piece<'a> {
    stored: &'a Stored<'a>,
    memory: &'a HostMemory,
    /// Its offset in bytes from the start of the array's data in the file.
    offset: usize,
    /// Its bytes in the file.
    len: usize,
}

impl Piece<'_> {
    fn read(&self) -> Result<()> {
        let (start, len) = match self.stored.form {
            Form::Encoded(_) => (0, self.memory.len()),
            Form::Packed => (2 * self.offset, 2 * self.len),
            Form::Plain { .. } => (self.offset, self.len),
        };
        // SAFETY: the memory was made for the array's elements, and no other piece has these.
        let target = unsafe { std::slice::from_raw_parts_mut(self.memory.data().add(start), len) };
        self.stored.read(self.offset, self.len, target).map_err(|error| match self.stored.form {
            Form::Encoded(_) => self.stored.about(error),
            _ => error,
        })
    }
}
