//! A model: the tensors of one file, or of the files of an index.

use super::header::{invalid, Header, Tensor};
use super::index::{is_index, locate, Index};
use super::{ties, Metadata};
use crate::stored::Stored;
use once_cell::unsync::OnceCell;
use pjrt_base::error::Result;
use pjrt_base::mmap::MappedFile;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The tensors of a file or of the files of an index. Headers are read when they are first needed.
///
/// ```
/// # use pjrt_core::safetensors::{save, Model, Saving};
/// # use pjrt_core::stored::Loading;
/// # use pjrt_core::{Buffer, Client, Plugin};
/// # use pjrt_data::{array::Spec, dtype::DType};
/// # let path = std::env::var("PJRT_PLUGIN_PATH_CPU").expect("PJRT_PLUGIN_PATH_CPU names the CPU plugin's library");
/// # let client = Client::create(Plugin::load(path.as_ref())?, &[])?;
/// # let device = client.devices().next().unwrap();
/// # let folder = std::env::temp_dir().join(format!("pjrt-model-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder).unwrap();
/// let weight = Buffer::from_bytes(&device, Spec::new(DType::U8, &[2])?, &[1, 2])?;
/// let how = Saving { path: &folder.join("model.safetensors"), metadata: &[], max_shard_size: None };
/// let path = save(&[("weight".into(), weight)], &how, &mut |_| {})?;
///
/// let model = Model::open(&path)?;
/// assert_eq!(model.names().collect::<Vec<_>>(), ["weight"]);
/// let buffers = Loading::new(model.stored(&[0])?, &device)?.run(&mut |_| {})?;
/// assert_eq!(buffers[0].read()?.bytes(), [1, 2]);
/// # std::fs::remove_dir_all(folder).unwrap();
/// # Ok::<(), pjrt_base::error::Error>(())
/// ```
#[derive(Debug)]
pub struct Model {
    path: PathBuf,
    is_index: bool,
    metadata: Option<Metadata>,
    /// Names of tensors and the positions of their files.
    tensors: Vec<(String, usize)>,
    /// Other names of tensors, and their positions. They are numbered after the tensors.
    ties: Vec<(String, usize)>,
    files: Vec<ModelFile>,
}

#[derive(Debug)]
struct ModelFile {
    path: PathBuf,
    /// Its name in the index.
    name: String,
    opened: OnceCell<Opened>,
}

/// A file and its header.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) file: Arc<MappedFile>,
    metadata: Option<Metadata>,
    tensors: Vec<Tensor>,
    positions: HashMap<String, usize>,
}

impl Opened {
    fn new(path: &Path) -> Result<Opened> {
        let file = MappedFile::open(path)?;
        let Header { metadata, tensors } = Header::read(&file)?;
        let positions = tensors.iter().enumerate().map(|(i, tensor)| (tensor.name.clone(), i)).collect();
        Ok(Opened { file, metadata, tensors, positions })
    }
}

impl Model {
    /// Opens a file, an index, or a folder with one of them.
    ///
    /// # Errors
    /// `SafetensorsInvalid`, `Io`.
    pub fn open(path: &Path) -> Result<Model> {
        let path = locate(path)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if is_index(&name) {
            let mut index = Index::read(&path)?;
            let ties = ties::take(&mut index.metadata, &index.tensors);
            let folder = path.parent().unwrap_or(Path::new(""));
            let file = |name: String| ModelFile { path: folder.join(&name), name, opened: OnceCell::new() };
            let files = index.files.into_iter().map(file).collect();
            return Ok(Model { path, is_index: true, metadata: index.metadata, tensors: index.tensors, ties, files });
        }
        let opened = Opened::new(&path)?;
        let mut metadata = opened.metadata.clone();
        let tensors: Vec<_> = opened.tensors.iter().map(|tensor| (tensor.name.clone(), 0)).collect();
        let ties = ties::take(&mut metadata, &tensors);
        let files = vec![ModelFile { path: path.clone(), name, opened: opened.into() }];
        Ok(Model { path, is_index: false, metadata, tensors, ties, files })
    }

    /// The file that was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn is_index(&self) -> bool {
        self.is_index
    }

    /// The metadata of the file or, if there are several, of the index and of all files that can be read.
    pub fn metadata(&self) -> Option<Metadata> {
        if !self.is_index {
            return self.metadata.clone();
        }
        let mut all = self.metadata.clone().unwrap_or_default();
        let opened = self.files.iter().filter_map(|file| file.open().ok());
        for (name, text) in opened.filter_map(|opened| opened.metadata.as_ref()).flatten() {
            let is_known = |(other, _): &(String, String)| other == name;
            if !all.iter().any(is_known) && !self.ties.iter().any(|(tie, _)| tie == name) {
                all.push((name.clone(), text.clone()));
            }
        }
        (!all.is_empty()).then_some(all)
    }

    /// The number of names of tensors.
    pub fn len(&self) -> usize {
        self.tensors.len() + self.ties.len()
    }

    pub fn is_empty(&self) -> bool {
        self.tensors.is_empty()
    }

    pub fn files(&self) -> usize {
        self.files.len()
    }

    /// The names of the tensors, and last their other names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.iter().chain(&self.ties).map(|(name, _)| name.as_str())
    }

    /// The position of the tensor with this name: another one for a tied tensor.
    pub fn stored_at(&self, tensor: usize) -> usize {
        match tensor.checked_sub(self.tensors.len()) {
            Some(tie) => self.ties[tie].1,
            None => tensor,
        }
    }

    /// The name of a tensor's file in the index.
    pub fn file_name(&self, tensor: usize) -> &str {
        &self.files[self.tensors[self.stored_at(tensor)].1].name
    }

    /// The header's description of a tensor.
    ///
    /// # Errors
    /// `SafetensorsInvalid`, also if the index is wrong about the tensor; `Io`.
    pub fn tensor(&self, tensor: usize) -> Result<&Tensor> {
        Ok(self.find(tensor)?.1)
    }

    /// Tensors by their positions, as arrays in their files.
    ///
    /// # Errors
    /// As [`Model::tensor`]; `UnsupportedDtype`, `InvalidInput` for tensors that no buffer can hold.
    pub fn stored(&self, tensors: &[usize]) -> Result<Vec<Stored<'_>>> {
        let stored = |&position: &usize| {
            let (opened, tensor) = self.find(position)?;
            tensor.stored(&opened.file)
        };
        tensors.iter().map(stored).collect()
    }

    /// A tensor and its file.
    pub(super) fn find(&self, tensor: usize) -> Result<(&Opened, &Tensor)> {
        let tensor = self.stored_at(tensor);
        let (name, file) = &self.tensors[tensor];
        let opened = self.files[*file].open()?;
        // For a single file, the header's order of tensors is the model's.
        let position = if self.is_index { opened.positions.get(name).copied() } else { Some(tensor) };
        let found = position.and_then(|position| opened.tensors.get(position));
        match found {
            Some(found) => Ok((opened, found)),
            None => {
                let file = &self.files[*file].name;
                Err(invalid(&self.path, &format!("it places tensor \"{name}\" in '{file}', which does not have it")))
            }
        }
    }
}

impl ModelFile {
    fn open(&self) -> Result<&Opened> {
        self.opened.get_or_try_init(|| Opened::new(&self.path))
    }
}
