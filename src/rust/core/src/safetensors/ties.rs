//! Tied tensors: one array with several names. Files contain it under its first name. Their metadata lead from the other
//! names to this one, as in the files of PyTorch.

use super::Metadata;
use crate::buffer::Buffer;
use pjrt_base::error::Result;
use std::collections::{HashMap, HashSet};

/// The tensors to write, and the ties: other names of theirs.
pub(super) fn split(tensors: &[(String, Buffer)]) -> (Vec<&(String, Buffer)>, Metadata) {
    let mut first = HashMap::new();
    let (mut written, mut ties) = (Vec::new(), Metadata::new());
    for tensor in tensors {
        let (name, buffer) = tensor;
        let stored: &String = first.entry(buffer.place()).or_insert(name);
        if std::ptr::eq(stored, name) {
            written.push(tensor);
        } else {
            ties.push((name.clone(), stored.clone()));
        }
    }
    (written, ties)
}

/// Checks that no entry of the metadata would be read as a tie, or is the name of one.
///
/// # Errors
/// `InvalidInput`.
pub(super) fn check(
    metadata: &[(String, String)],
    written: &[&(String, Buffer)],
    ties: &[(String, String)],
) -> Result<()> {
    let names: HashSet<&str> = written.iter().map(|(name, _)| name.as_str()).collect();
    for (name, text) in metadata {
        if ties.iter().any(|(tie, _)| tie == name) {
            bail!(InvalidInput, "Metadata cannot have an entry \"{name}\", which is the name of a tied tensor.");
        }
        if names.contains(text.as_str()) && !names.contains(name.as_str()) {
            bail!(
                InvalidInput,
                "The metadata entry \"{name}\" cannot be \"{text}\": this would be another name of tensor \"{text}\"."
            );
        }
    }
    Ok(())
}

/// Takes the ties from metadata: names, and the positions of their tensors.
pub(super) fn take(metadata: &mut Option<Metadata>, tensors: &[(String, usize)]) -> Vec<(String, usize)> {
    let Some(entries) = metadata.take() else { return Vec::new() };
    let positions: HashMap<&str, usize> = tensors.iter().enumerate().map(|(i, (name, _))| (name.as_str(), i)).collect();
    let (mut ties, mut others) = (Vec::new(), Metadata::new());
    for (name, text) in entries {
        match positions.get(text.as_str()) {
            Some(&position) if !positions.contains_key(name.as_str()) => ties.push((name, position)),
            _ => others.push((name, text)),
        }
    }
    *metadata = (ties.is_empty() || !others.is_empty()).then_some(others);
    ties
}
