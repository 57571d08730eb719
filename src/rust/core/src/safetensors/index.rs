//! The index of a model in several files: a JSON file that says which file has which tensor.

use super::header::{invalid, shortened, Text, Texts, Unique};
use super::Metadata;
use pjrt_base::error::{Error, Kind, Result};
use pjrt_base::foreign;
use pjrt_base::mmap::MappedFile;
use serde::de::{Deserialize, Deserializer};
use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

/// The suffix of an index's name after a file's.
pub(super) const INDEX: &str = ".index.json";

/// The extension of files.
pub(super) const FILE: &str = ".safetensors";

/// Size in bytes of the longest index.
const LONGEST: u64 = 100_000_000;

/// The entry of an index's metadata with the size of all tensors in bytes.
pub(super) const TOTAL_SIZE: &str = "total_size";

#[derive(Debug)]
pub(super) struct Index {
    /// Without the total size.
    pub(super) metadata: Option<Metadata>,
    /// Names of files, relative to the index, in order of appearance.
    pub(super) files: Vec<String>,
    /// Tensors and the positions of their files.
    pub(super) tensors: Vec<(String, usize)>,
}

#[derive(serde::Deserialize)]
struct IndexEntries {
    metadata: Option<Unique<Value>>,
    weight_map: Unique<Text>,
}

/// Any value as text: a string as it is, others as JSON.
struct Value(String);

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        Ok(Value(match serde_json::Value::deserialize(deserializer)? {
            serde_json::Value::String(text) => text.replace('\0', "\u{fffd}"),
            other => other.to_string(),
        }))
    }
}

impl Index {
    /// Reads an index.
    ///
    /// # Errors
    /// `SafetensorsInvalid`, `Io`.
    pub(super) fn read(path: &Path) -> Result<Index> {
        let file = MappedFile::open(path)?;
        if file.len() > LONGEST {
            return Err(invalid(path, &format!("an index of {} bytes is too long", file.len())));
        }
        let mut text = vec![0; file.len() as usize];
        file.read(0, &mut text)?;
        Index::parse(&text).map_err(|what| foreign::named_file(invalid(path, &what), &file))
    }

    /// Parses an index. The error says what is wrong.
    pub(super) fn parse(text: &[u8]) -> std::result::Result<Index, String> {
        let IndexEntries { metadata, weight_map } = serde_json::from_slice(text)
            .map_err(|error| format!("the index is wrong: {}", shortened(&error.to_string())))?;
        let mut index = Index { metadata: None, files: Vec::new(), tensors: Vec::new() };
        let mut known = HashMap::new();
        for (tensor, Text(file)) in weight_map.0 {
            check_name(&file)?;
            let place = *known.entry(file.clone()).or_insert_with(|| {
                index.files.push(file);
                index.files.len() - 1
            });
            index.tensors.push((tensor, place));
        }
        let texts = metadata.into_iter().flat_map(|all| all.0).filter(|(name, _)| name != TOTAL_SIZE);
        let texts: Metadata = texts.map(|(name, Value(text))| (name, text)).collect();
        index.metadata = (!texts.is_empty()).then_some(texts);
        Ok(index)
    }
}

/// Checks that a file is in the index's folder or below.
fn check_name(name: &str) -> std::result::Result<(), String> {
    let stays = Path::new(name).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if name.is_empty() || !stays {
        return Err(format!("the index names the file '{}', which is not in its folder", shortened(name)));
    }
    Ok(())
}

/// The text of an index.
pub(super) fn written(metadata: &[(String, String)], total: u64, tensors: &[(&str, &str)]) -> Result<Vec<u8>> {
    #[derive(serde::Serialize)]
    struct NewIndex<'a> {
        metadata: NewMetadata<'a>,
        weight_map: Texts<'a, &'a str>,
    }
    #[derive(serde::Serialize)]
    struct NewMetadata<'a> {
        total_size: u64,
        #[serde(flatten)]
        others: Texts<'a, String>,
    }
    let metadata = NewMetadata { total_size: total, others: Texts(metadata) };
    let mut text = serde_json::to_vec_pretty(&NewIndex { metadata, weight_map: Texts(tensors) })
        .map_err(|error| Error::new(Kind::Internal, format!("The index cannot be written: {error}.")))?;
    text.push(b'\n');
    Ok(text)
}

/// The file to load for `path`: a file, an index, or the only one of these in a folder.
///
/// # Errors
/// `Io` if there is none, or several.
pub(super) fn locate(path: &Path) -> Result<PathBuf> {
    if path.is_dir() {
        return in_folder(path);
    }
    let index = with_suffix(path, INDEX);
    if !path.exists() && index.exists() {
        return Ok(index);
    }
    Ok(path.into())
}

fn in_folder(folder: &Path) -> Result<PathBuf> {
    for usual in ["model.safetensors", "model.safetensors.index.json"] {
        let path = folder.join(usual);
        if path.exists() {
            return Ok(path);
        }
    }
    let entries = folder.read_dir().map_err(|error| Error::new(Kind::Io, error.to_string()).about(folder))?;
    let mut names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    let is_model = |name: &&String| is_usual_index(name) || (name.ends_with(FILE) && shard_stem(name).is_none());
    let is_file = |name: &&String| name.ends_with(FILE);
    let is_no_folder = |name: &&String| folder.join(name).is_file();
    let models: Vec<_> = names.iter().filter(is_model).filter(is_no_folder).collect();
    let files: Vec<_> = names.iter().filter(is_file).filter(is_no_folder).collect();
    match (&models[..], &files[..]) {
        ([only], _) | ([], [only]) => Ok(folder.join(only)),
        ([], _) => Err(no_model(folder, "has no safetensors file", &names)),
        _ => Err(no_model(folder, "has several safetensors files; name one", &names)),
    }
}

fn no_model(folder: &Path, what: &str, names: &[String]) -> Error {
    const ENOUGH: usize = 10;
    let more = if names.len() > ENOUGH { format!(", ... ({} in all)", names.len()) } else { String::new() };
    let there = names.iter().take(ENOUGH).map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
    let there = if names.is_empty() { "It is empty.".into() } else { format!("It contains: {there}{more}.") };
    Error::new(Kind::Io, format!("The folder '{}' {what}.", folder.display())).hint(there)
}

/// Whether a file of this name is read as an index.
pub(super) fn is_index(name: &str) -> bool {
    name.ends_with(".json")
}

/// Whether this is an index by its name among other JSON files, such as settings: `<file>.index.json`, or, of a variant of a
/// model, `<file>.index.fp16.json`. PyTorch's own files have such an index, too.
fn is_usual_index(name: &str) -> bool {
    let is_of_file = name.contains(&format!("{FILE}.index."));
    is_index(name) && (is_of_file || name.ends_with(INDEX)) && !name.ends_with(".bin.index.json")
}

/// The start of a shard's name, as in `<stem>-00001-of-00002.safetensors`.
pub(super) fn shard_stem(name: &str) -> Option<&str> {
    let is_number = |text: &str| text.len() >= 5 && text.bytes().all(|b| b.is_ascii_digit());
    let (rest, count) = name.strip_suffix(FILE)?.rsplit_once("-of-")?;
    let (stem, number) = rest.rsplit_once('-')?;
    (is_number(count) && is_number(number)).then_some(stem)
}

/// The path with a suffix.
pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
