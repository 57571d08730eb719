//! Saves tensors from a device to files: writes them under temporary names, and renames them when all are complete.

use super::header::{dtype_named, NewHeader, METADATA};
use super::index::{self, is_index, shard_stem, with_suffix, Index, FILE, INDEX, TOTAL_SIZE};
use super::ties;
use super::Metadata;
use crate::buffer::read::{HostView, Transfer};
use crate::buffer::Buffer;
use crate::host::array::HostOrder;
use crate::host::pool::ALIGNMENT;
use crate::stored::packed::pack;
use crate::stored::Progress;
use ::safetensors::tensor::TensorInfo;
use ::safetensors::Dtype;
use pjrt_base::counted::counted;
use pjrt_base::error::{Error, Kind, Result};
use pjrt_base::parallel::InterruptTimer;
use pjrt_base::private_fs::{close, keep_permissions, target, temporary, write_all};
use pjrt_base::process;
use pjrt_base::trace::{self, Activity, Details};
use std::cmp::Reverse;
use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// Bytes to write at once.
const PIECE: usize = 4 << 20;

/// Where and how tensors are saved.
#[derive(Debug)]
pub struct Saving<'a> {
    /// The file's path, or the start of the names of several.
    pub path: &'a Path,
    pub metadata: &'a [(String, String)],
    /// The most bytes of tensors in one file, unless a single tensor has more.
    pub max_shard_size: Option<u64>,
}

/// Saves tensors by name, and returns the path to load them from: the file, or the index of several. Files with these
/// names are replaced as a whole or, if saving fails, not at all. A buffer with several names is written once.
///
/// # Errors
/// `InvalidInput` for names that the format does not allow, `UnsupportedDtype`, `Io`, `Interrupted`; and errors of the
/// buffers.
pub fn save(tensors: &[(String, Buffer)], how: &Saving, progress: &mut Progress) -> Result<PathBuf> {
    let _span = trace::span(Activity::File, || {
        let bytes = tensors.iter().map(|(_, buffer)| buffer.spec().bytes() as u64).sum();
        Details::named(format!("save {}", counted(tensors.len(), "array"))).bytes(bytes)
    });
    let path = file_path(how.path)?;
    let path = target(&path).map_err(|error| unwritten(&path, error))?;
    check_names(tensors)?;
    let (tensors, ties) = ties::split(tensors);
    ties::check(how.metadata, &tensors, &ties)?;
    let items = tensors.iter().map(|(name, buffer)| Item::new(name, buffer)).collect::<Result<Vec<_>>>()?;
    items.iter().try_for_each(Item::wait)?;
    let shards = divide(&items, how.max_shard_size);
    let earlier = earlier_files(&path);
    let mut writer = Writer { progress, done: 0, timer: InterruptTimer::start() };
    let mut drafts = Drafts(Vec::new());
    let main = if let [only] = shards[..] {
        drafts.add(&path, |file| writer.write(file, only, &[how.metadata, &ties].concat()))?;
        path
    } else {
        write_shards(&path, &shards, how.metadata, &ties, &mut writer, &mut drafts)?
    };
    (writer.progress)(writer.done);
    let written = drafts.publish()?;
    remove(earlier.iter().filter(|path| !written.contains(path)))?;
    Ok(main)
}

/// The number of bytes that [`save`] writes of these tensors.
pub fn saved_bytes(tensors: &[(String, Buffer)]) -> u64 {
    let bits = |buffer: &Buffer| buffer.spec().len() * buffer.dtype().info().bits as usize;
    ties::split(tensors).0.iter().map(|(_, buffer)| bits(buffer) as u64 / 8).sum()
}

/// Writes several files and their index, and returns the index's path.
fn write_shards(
    path: &Path,
    shards: &[&[Item]],
    metadata: &[(String, String)],
    ties: &[(String, String)],
    writer: &mut Writer,
    drafts: &mut Drafts,
) -> Result<PathBuf> {
    if metadata.iter().any(|(name, _)| name == TOTAL_SIZE) {
        bail!(InvalidInput, "Metadata of several files cannot have an entry \"{TOTAL_SIZE}\": their index has one.");
    }
    let (stem, count) = (stem(path), shards.len());
    let names: Vec<_> = (1..=count).map(|number| format!("{stem}-{number:05}-of-{count:05}{FILE}")).collect();
    let mut places = Vec::new();
    for (&shard, name) in shards.iter().zip(&names) {
        let is_inside = |(_, stored): &&(String, String)| shard.iter().any(|item| item.name == stored);
        let inside: Metadata = ties.iter().filter(is_inside).cloned().collect();
        drafts.add(&path.with_file_name(name), |file| writer.write(file, shard, &[metadata, &inside].concat()))?;
        places.extend(shard.iter().map(|item| (item.name, name.as_str())));
    }
    let total = shards.iter().flat_map(|shard| shard.iter()).map(|item| item.bytes as u64).sum();
    let text = index::written(&[metadata, ties].concat(), total, &places)?;
    let index = with_suffix(path, INDEX);
    drafts.add(&index, |file| write_all(file, &text))?;
    Ok(index)
}

/// A tensor to save.
struct Item<'a> {
    name: &'a str,
    buffer: &'a Buffer,
    dtype: Dtype,
    /// Size in bytes in the file, where several elements narrower than a byte share one.
    bytes: usize,
}

impl<'a> Item<'a> {
    fn new(name: &'a str, buffer: &'a Buffer) -> Result<Self> {
        let spec = buffer.spec();
        let Some(dtype) = spec.dtype.info().safetensors.and_then(dtype_named) else {
            bail!(UnsupportedDtype, "Tensor \"{name}\": the safetensors format has no type for {}.", spec.dtype)
        };
        let bits = spec.len() * spec.dtype.info().bits as usize;
        if bits % 8 != 0 {
            bail!(InvalidInput, "Tensor \"{name}\": the safetensors format needs an even number of {}.", spec.dtype);
        }
        Ok(Item { name, buffer, dtype, bytes: bits / 8 })
    }

    /// Waits for the content.
    fn wait(&self) -> Result<()> {
        self.buffer.wait().map(drop).map_err(|error| self.about(error))
    }

    fn about(&self, error: Error) -> Error {
        error.within(&format!("Tensor \"{}\"", self.name))
    }

    fn info(&self, start: usize) -> TensorInfo {
        let shape = self.buffer.dims().iter().map(|&dim| dim as usize).collect();
        TensorInfo { dtype: self.dtype, shape, data_offsets: (start, start + self.bytes) }
    }

    /// Starts to fetch the content if it is not on the host already.
    fn fetch(&self) -> Result<Fetched> {
        let fetched = if self.buffer.client().shares_host_memory() && !self.buffer.dtype().is_packed() {
            self.buffer.read().map(Fetched::Here)
        } else {
            self.buffer.start_read().map(Fetched::Coming)
        };
        fetched.map_err(|error| self.about(error))
    }
}

/// The content of a tensor, or its transfer.
enum Fetched {
    Here(HostView),
    Coming(Transfer),
}

impl Fetched {
    fn wait(self) -> Result<HostView> {
        match self {
            Fetched::Here(view) => Ok(view),
            Fetched::Coming(transfer) => Ok(transfer.wait()?.view()),
        }
    }
}

/// Divides the tensors, in their order, into parts of at most this number of bytes.
fn divide<'a, 'b>(items: &'b [Item<'a>], most: Option<u64>) -> Vec<&'b [Item<'a>]> {
    let most = most.unwrap_or(u64::MAX);
    let mut shards = Vec::new();
    let (mut first, mut bytes) = (0, 0u64);
    for (i, item) in items.iter().enumerate() {
        if i > first && bytes + item.bytes as u64 > most {
            shards.push(&items[first..i]);
            (first, bytes) = (i, 0);
        }
        bytes += item.bytes as u64;
    }
    shards.push(&items[first..]);
    shards
}

/// Writes files, and reports the progress.
struct Writer<'a, 'b> {
    progress: &'a mut Progress<'b>,
    done: u64,
    timer: InterruptTimer,
}

impl Writer<'_, '_> {
    /// Writes a whole file. The data start at the alignment that devices need to use memory in place. Tensors whose
    /// size is a multiple of that come first, so they are all aligned. The others are in order of their elements'
    /// width, so that each starts at a multiple of it.
    fn write(&mut self, file: &mut File, items: &[Item], metadata: &[(String, String)]) -> io::Result<()> {
        let mut order: Vec<usize> = (0..items.len()).collect();
        let width = |item: &Item| Reverse(item.buffer.dtype().info().bits);
        order.sort_by_key(|&i| {
            let item = &items[i];
            let fills = item.bytes % ALIGNMENT == 0;
            (!fills, (!fills).then(|| (width(item), Reverse(item.bytes))))
        });
        let mut starts = vec![0; items.len()];
        let mut end = 0;
        for &i in &order {
            starts[i] = end;
            end += items[i].bytes;
        }
        let tensors = items.iter().zip(&starts).map(|(item, &start)| (item.name, item.info(start))).collect();
        write_all(file, &NewHeader { metadata, tensors }.bytes(ALIGNMENT)?)?;
        // While one tensor is written, the next is fetched.
        let mut fetches = order.iter().map(|&i| Ok::<_, Error>((&items[i], items[i].fetch()?)));
        let mut coming = fetches.next().transpose()?;
        while let Some((item, fetched)) = coming {
            coming = fetches.next().transpose()?;
            self.write_tensor(file, item, fetched)?;
        }
        Ok(())
    }

    fn write_tensor(&mut self, file: &mut File, item: &Item, fetched: Fetched) -> io::Result<()> {
        let view = fetched.wait().map_err(|error| item.about(error))?;
        let elements = view.in_order(item.buffer.spec(), HostOrder::RowMajor).map_err(|error| item.about(error))?;
        let written = if item.buffer.dtype().is_packed() {
            let mut packed = vec![0; item.bytes];
            pack(elements.bytes(), &mut packed);
            self.write_bytes(file, &packed)
        } else {
            self.write_bytes(file, elements.bytes())
        };
        // Memory of a file that has shrunk cannot be written; that is the better error.
        elements.check().map_err(|error| item.about(error))?;
        written
    }

    fn write_bytes(&mut self, file: &mut File, bytes: &[u8]) -> io::Result<()> {
        for piece in bytes.chunks(PIECE) {
            write_all(file, piece)?;
            self.done += piece.len() as u64;
            if self.timer.is_due() {
                process::check_interrupt()?;
                (self.progress)(self.done);
            }
        }
        Ok(())
    }
}

/// An error of writing: ours, or the system's, which lacks the file's name.
fn unwritten(path: &Path, error: io::Error) -> Error {
    error
        .downcast()
        .unwrap_or_else(|error| Error::new(Kind::Io, format!("Cannot write '{}': {error}.", path.display())))
}

/// Files with temporary names, which are removed unless they are published: their final paths, and these.
struct Drafts(Vec<(PathBuf, PathBuf)>);

impl Drafts {
    /// Creates one more file.
    fn add(&mut self, path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> Result<()> {
        let draft = temporary(path.parent().unwrap_or(Path::new("")));
        let written = OpenOptions::new().write(true).create_new(true).open(&draft);
        let written = written.and_then(|mut file| {
            self.0.push((path.into(), draft));
            keep_permissions(&file, path)?;
            write(&mut file)?;
            close(file)
        });
        written.map_err(|error| unwritten(path, error))
    }

    /// Renames the files, one after the other, and returns their final names.
    fn publish(mut self) -> Result<Vec<PathBuf>> {
        let mut published = Vec::new();
        while !self.0.is_empty() {
            let (path, draft) = &self.0[0];
            fs::rename(draft, path).map_err(|error| unwritten(path, error))?;
            published.push(self.0.remove(0).0);
        }
        Ok(published)
    }
}

impl Drop for Drafts {
    fn drop(&mut self) {
        for (_, draft) in &self.0 {
            // If a file cannot be removed, it stays.
            let _ = fs::remove_file(draft);
        }
    }
}

/// The file that a path names, or its index.
fn file_path(path: &Path) -> Result<PathBuf> {
    let file = path.to_str().and_then(|text| text.strip_suffix(INDEX)).map_or(path, Path::new);
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    if is_index(&name) {
        let message = format!("Tensors cannot be saved as '{}': a JSON file is loaded as an index.", path.display());
        return Err(Error::new(Kind::InvalidInput, message).hint("Give the file a name such as `model.safetensors`."));
    }
    Ok(file.into())
}

fn check_names(tensors: &[(String, Buffer)]) -> Result<()> {
    let mut seen = HashSet::new();
    for (name, _) in tensors {
        ensure!(!name.is_empty(), InvalidInput, "Every tensor must have a name.");
        if name == METADATA {
            bail!(InvalidInput, "A tensor must not have the name \"{METADATA}\", which the format uses for metadata.");
        }
        ensure!(seen.insert(name), InvalidInput, "There are two tensors \"{name}\".");
    }
    Ok(())
}

/// The start of the names of a model's files.
fn stem(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.strip_suffix(FILE).unwrap_or(&name).into()
}

/// The files of an earlier save to this path: a file, or an index and the files that it names.
fn earlier_files(path: &Path) -> Vec<PathBuf> {
    let (index, stem) = (with_suffix(path, INDEX), stem(path));
    // An index that we did not write names no files of ours.
    let named = Index::read(&index).map_or(Vec::new(), |index| index.files);
    let shards = named.iter().filter(|name| shard_stem(name) == Some(&stem)).map(|name| path.with_file_name(name));
    // The name of an index may be too long for the file system, which then has none.
    [path.into(), index].into_iter().chain(shards).filter(|path| fs::symlink_metadata(path).is_ok()).collect()
}

fn remove<'a>(paths: impl Iterator<Item = &'a PathBuf>) -> Result<()> {
    for path in paths {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                let message = format!(
                    "The tensors are saved, but an earlier '{}' could not be removed: {error}.",
                    path.display()
                );
                return Err(Error::new(Kind::Io, message));
            }
            _ => {}
        }
    }
    Ok(())
}
