//! Explains errors of exhausted memory: what was requested, and what holds memory.

use crate::client::Client;
use pjrt_base::counted::counted;
use pjrt_base::error::{Error, RESOURCE_EXHAUSTED};
use pjrt_base::reason::Reason;
use pjrt_base::room::size;
use pjrt_data::array::Spec;
use std::sync::Arc;

/// Adds the use of memory to an error of exhausted memory; returns all others unchanged. `asked` says what the memory
/// was for.
#[cold]
pub fn explain(error: Error, asked: impl FnOnce() -> String) -> Error {
    if error.code() != Some(RESOURCE_EXHAUSTED) || !error.hints().is_empty() {
        return error;
    }
    explained(error, &asked())
}

/// What needs no type, compiled once.
fn explained(error: Error, asked: &str) -> Error {
    let error = error.hint(format!("Asked for {asked}."));
    super::all().iter().fold(error, |error, client| error.hint(holdings(client))).hint(Reason::OutOfMemory)
}

/// A short list of arrays with their sizes: the first ones, and the number of others.
pub fn arrays<'a>(specs: impl IntoIterator<Item = &'a Spec>) -> String {
    const FEW: usize = 3;
    let all: Vec<&Spec> = specs.into_iter().collect();
    let mut listed: Vec<String> = all.iter().take(FEW).map(|spec| format!("{spec} ({})", size(spec.bytes()))).collect();
    if all.len() > FEW {
        listed.push(format!("{} more", all.len() - FEW));
    }
    match listed.split_last() {
        None => "nothing that has a size".into(),
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
    }
}

/// The memory that a client's buffers use.
fn holdings(client: &Client) -> String {
    let mut specs: Vec<Arc<Spec>> = client.buffers().all().iter().filter_map(|buffer| buffer.array()).collect();
    if specs.is_empty() {
        return format!("The {} client has no buffers.", client.platform());
    }
    specs.sort_by_key(|spec| std::cmp::Reverse(spec.bytes()));
    let total = specs.iter().map(|spec| spec.bytes()).fold(0, usize::saturating_add);
    let (count, largest) = (counted(specs.len(), "buffer"), arrays(specs.iter().map(|spec| &**spec)));
    format!("The {} client has {count} of {} in all: {largest}.", client.platform(), size(total))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pjrt_base::error::Kind;
    use pjrt_data::dtype::DType;

    #[test]
    fn sizes_are_read_by_people() {
        let said: Vec<_> = [0, 1, 999, 1000, 999_949, 999_950, 1_500_000_000, usize::MAX].map(size).into();
        assert_eq!(said, ["0 bytes", "1 byte", "999 bytes", "1.0 kB", "999.9 kB", "1.0 MB", "1.5 GB", "18.4 EB"]);
    }

    #[test]
    fn a_few_arrays_are_named() {
        let specs: Vec<Spec> = (1..=5).map(|n| Spec::new(DType::F32, &[n, 1000]).unwrap()).collect();
        assert_eq!(arrays(&specs[..0]), "nothing that has a size");
        assert_eq!(arrays(&specs[..1]), "f32[1x1000] (4.0 kB)");
        assert_eq!(arrays(&specs[..2]), "f32[1x1000] (4.0 kB) and f32[2x1000] (8.0 kB)");
        assert!(arrays(&specs).ends_with(", f32[3x1000] (12.0 kB) and 2 more"), "{}", arrays(&specs));
    }

    #[test]
    fn only_errors_of_memory_are_explained_and_only_once() {
        let other = explain(Error::new(Kind::Internal, "Broken."), || unreachable!());
        assert!(other.hints().is_empty());
        let error = explain(Error::new(Kind::Pjrt(RESOURCE_EXHAUSTED), "Full."), || "a lot".into());
        let hints = error.hints().to_vec();
        assert_eq!(hints[0], "Asked for a lot.".into());
        assert_eq!(explain(error, || "more".into()).hints(), hints);
    }
}
