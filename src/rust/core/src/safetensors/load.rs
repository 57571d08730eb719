//! Loads tensors from files to a device: in place if the device can use the file's memory, otherwise with one copy.

use super::header::Tensor;
use super::model::{Model, Opened};
use super::packed::unpack;
use super::Progress;
use crate::buffer::backing::Backing;
use crate::buffer::Buffer;
use crate::client::device::Device;
use crate::host::memory::HostMemory;
use crate::host::pool;
use pjrt_base::error::{Error, Kind, Result, RESOURCE_EXHAUSTED};
use pjrt_base::mmap::MappedFile;
use pjrt_base::parallel::{self, Lookout};
use pjrt_base::process;
use pjrt_base::reason::Reason;
use pjrt_base::room::available_memory;
use pjrt_data::array::Spec;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// Up to this size, the plugin copies a tensor during the call. Using it in place would be faster now, but each use
/// would check whether the file has changed.
const SMALL: usize = 2048;

/// The bytes that a thread reads at once.
const PIECE: usize = 1 << 20;

/// The bytes up to which one thread is enough.
const ONE_THREAD: usize = 2 << 20;

/// The bytes up to which memory is not checked beforehand.
const FEW: usize = 64 << 20;

/// Tensors to load: checked for the device, with a chosen route.
#[derive(Debug)]
pub struct Loading<'a> {
    device: &'a Device,
    tensors: Vec<Item<'a>>,
}

#[derive(Debug)]
struct Item<'a> {
    opened: &'a Opened,
    tensor: &'a Tensor,
    spec: Spec,
    route: Route,
}

/// How a tensor reaches the device.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Route {
    /// Read to the stack, and copied by the plugin.
    Small,
    /// The device uses the file's memory, permanently or while it copies.
    Mapped,
    /// Read to new memory, which the device uses.
    Copied,
    /// As `Copied`, with narrow elements one per byte; the plugin copies them again.
    Unpacked,
}

impl<'a> Loading<'a> {
    /// Prepares to load tensors of a model, given by their positions.
    ///
    /// # Errors
    /// `UnsupportedDtype`, `InvalidInput` for tensors that no buffer can hold; `SafetensorsInvalid`, `FileChanged`, `Io`.
    pub fn new(model: &'a Model, device: &'a Device, tensors: &[usize]) -> Result<Loading<'a>> {
        let tensors = tensors.iter().map(|&position| model.find(position)).collect::<Result<Vec<_>>>()?;
        Loading::of(&tensors, device)
    }

    /// The same for a tensor in an open file, or a part of one.
    pub(super) fn one(opened: &'a Opened, tensor: &'a Tensor, device: &'a Device) -> Result<Loading<'a>> {
        Loading::of(&[(opened, tensor)], device)
    }

    fn of(tensors: &[(&'a Opened, &'a Tensor)], device: &'a Device) -> Result<Loading<'a>> {
        device.check_addressable()?;
        let shares = device.client().shares_host_memory();
        let item = |&(opened, tensor): &(&'a Opened, &'a Tensor)| {
            let spec = tensor.spec()?;
            let route = if spec.bytes() <= SMALL {
                Route::Small
            } else if spec.dtype.is_packed() {
                Route::Unpacked
            } else if !shares || HostMemory::is_aligned(address(opened, tensor)?) {
                Route::Mapped
            } else {
                Route::Copied
            };
            Ok(Item { opened, tensor, spec, route })
        };
        Ok(Loading { device, tensors: tensors.iter().map(item).collect::<Result<_>>()? })
    }

    /// The memory in bytes that a tensor's buffer needs besides the file's.
    pub fn own_bytes(&self, tensor: usize) -> usize {
        let item = &self.tensors[tensor];
        if self.stays(item) {
            0
        } else {
            item.spec.bytes()
        }
    }

    /// The size of a tensor's buffer in bytes.
    pub fn bytes(&self, tensor: usize) -> usize {
        self.tensors[tensor].spec.bytes()
    }

    /// Bytes to read from files or send to the device.
    pub fn moved_bytes(&self) -> u64 {
        let moved = self.tensors.iter().filter(|item| !self.stays(item));
        moved.map(|item| item.tensor.bytes as u64).sum()
    }

    /// Whether the device uses a tensor in the file's memory.
    fn stays(&self, item: &Item) -> bool {
        item.route == Route::Mapped && self.device.client().shares_host_memory()
    }

    /// Loads the tensors. A user's interrupt ends the load.
    ///
    /// # Errors
    /// `FileChanged` if a file changed meanwhile; `Io`, `Interrupted`, and the plugin's own.
    pub fn run(&self, progress: &mut Progress) -> Result<Vec<Buffer>> {
        let (memories, mut done) = self.read(progress)?;
        let mut lookout = Lookout::start();
        let mut backings: Vec<(&Arc<MappedFile>, Arc<Backing>)> = Vec::new();
        let mut buffers = Vec::with_capacity(self.tensors.len());
        for (item, memory) in self.tensors.iter().zip(memories) {
            let buffer = match item.route {
                Route::Small => self.small(item),
                Route::Mapped => self.mapped(item, &mut backings),
                Route::Copied | Route::Unpacked => match &memory {
                    Some(memory) => Buffer::from_host(self.device, item.spec.clone(), memory),
                    None => bail!(Internal, "A tensor was not read."),
                },
            };
            buffers.push(buffer.map_err(|error| item.tensor.about(error))?);
            if memory.is_none() && !self.stays(item) {
                done += item.tensor.bytes as u64;
            }
            if lookout.is_due() {
                process::check_interrupt()?;
                progress(done);
            }
        }
        self.check_files()?;
        Ok(buffers)
    }

    /// Memory with the contents of the copied tensors, read by several threads, and the number of bytes read.
    fn read(&self, progress: &mut Progress) -> Result<(Vec<Option<Arc<HostMemory>>>, u64)> {
        let memory = |item: &Item| match item.route {
            Route::Copied | Route::Unpacked => HostMemory::new(item.spec.bytes()).map(Some),
            _ => Ok(None),
        };
        self.check_memory()?;
        let memories = self.tensors.iter().map(memory).collect::<Result<Vec<_>>>()?;
        let mut todo = Vec::new();
        for (item, memory) in self.tensors.iter().zip(&memories) {
            let Some(memory) = memory else { continue };
            let pieces = (0..item.tensor.bytes).step_by(PIECE);
            todo.extend(pieces.map(|offset| Piece { item, memory, offset }));
        }
        let total: usize = todo.iter().map(Piece::len).sum();
        let helpers = if total <= ONE_THREAD { 0 } else { parallel::helpers() };
        let done = AtomicU64::new(0);
        let work = |number: usize| {
            let piece: &Piece = &todo[number];
            piece.read()?;
            done.fetch_add(piece.len() as u64, Ordering::Relaxed);
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
        let (mut elements, mut packed) = ([0u64; SMALL / 8], [0; SMALL / 2]);
        // SAFETY: the bytes of the words.
        let elements = unsafe { std::slice::from_raw_parts_mut(elements.as_mut_ptr().cast(), item.spec.bytes()) };
        if item.spec.dtype.is_packed() {
            let packed = &mut packed[..item.tensor.bytes];
            item.opened.file.read(item.tensor.start, packed)?;
            unpack(packed, elements);
        } else {
            item.opened.file.read(item.tensor.start, elements)?;
        }
        Buffer::from_bytes(self.device, item.spec.clone(), elements)
    }

    fn mapped(&self, item: &Item<'a>, backings: &mut Vec<(&'a Arc<MappedFile>, Arc<Backing>)>) -> Result<Buffer> {
        let file = &item.opened.file;
        let backing = if self.stays(item) {
            let known = backings.iter().find(|(other, _)| Arc::ptr_eq(other, file)).map(|(_, backing)| backing.clone());
            known.unwrap_or_else(|| {
                let backing = Arc::new(Backing::in_place(file));
                backings.push((file, backing.clone()));
                backing
            })
        } else {
            Arc::new(Backing::passing(file))
        };
        let data = NonNull::new(address(item.opened, item.tensor)?.cast_mut()).unwrap_or(NonNull::dangling());
        let kept = file.clone();
        // SAFETY: the mapping is kept until then, and lies within the file, whose size was checked. What others do to the
        // file is in the backing.
        let memory = unsafe { HostMemory::lent(data, item.spec.bytes(), move || drop(kept)) };
        Buffer::from_file(self.device, item.spec.clone(), &memory, backing)
    }

    /// Checks that there is enough memory, without which the system would end the process.
    fn check_memory(&self) -> Result<()> {
        let copied = self.tensors.iter().filter(|item| matches!(item.route, Route::Copied | Route::Unpacked));
        let needed: usize = copied.map(|item| item.spec.bytes()).fold(0, usize::saturating_add);
        let free = |needed| if needed > FEW { available_memory() } else { None };
        match free(needed) {
            Some(free) if needed > free.saturating_add(pool::kept()) => {
                let message = format!("The tensors need {needed} bytes of memory, but only {free} are free.");
                Err(Error::new(Kind::Pjrt(RESOURCE_EXHAUSTED), message).hint(Reason::TensorsTooLarge))
            }
            _ => Ok(()),
        }
    }

    /// Checks that no file changed during the read.
    fn check_files(&self) -> Result<()> {
        let mut last: Option<&Arc<MappedFile>> = None;
        for item in &self.tensors {
            let file = &item.opened.file;
            if !last.is_some_and(|last| Arc::ptr_eq(last, file)) {
                file.check()?;
            }
            last = Some(file);
        }
        Ok(())
    }
}

/// The range of a tensor's bytes in its file.
fn address(opened: &Opened, tensor: &Tensor) -> Result<*const u8> {
    let memory = opened.file.memory()?;
    match usize::try_from(tensor.start).ok().and_then(|start| memory.get(start..start.checked_add(tensor.bytes)?)) {
        Some(bytes) => Ok(bytes.as_ptr()),
        None => bail!(Internal, "Tensor \"{}\" lies outside of its file.", tensor.name),
    }
}

/// A part of a tensor that one thread reads.
struct Piece<'a> {
    item: &'a Item<'a>,
    memory: &'a HostMemory,
    /// Its offset in bytes from the start of the tensor's data in the file.
    offset: usize,
}

impl Piece<'_> {
    fn len(&self) -> usize {
        PIECE.min(self.item.tensor.bytes - self.offset)
    }

    fn read(&self) -> Result<()> {
        let file = &self.item.opened.file;
        let start = self.item.tensor.start + self.offset as u64;
        // SAFETY: the memory was made for the tensor's elements, and no other piece has these.
        let target = |offset, len| unsafe { std::slice::from_raw_parts_mut(self.memory.data().add(offset), len) };
        if self.item.route == Route::Unpacked {
            let mut packed = vec![0; self.len()];
            file.read(start, &mut packed)?;
            unpack(&packed, target(2 * self.offset, 2 * self.len()));
            return Ok(());
        }
        file.read(start, target(self.offset, self.len()))
    }
}
