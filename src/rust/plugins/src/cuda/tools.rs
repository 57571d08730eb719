//! The files of the CUDA toolkit that XLA's compiler uses: NVIDIA's assembler, and a library of math functions.

use super::libraries;
use super::target::CudaTarget;
use super::Loaded;
use pjrt_base::error::Error;
use pjrt_base::reason::Reason;
use std::path::{Path, PathBuf};

/// The paths of the files in a toolkit.
const FILES: [&str; 2] = ["bin/ptxas", "nvvm/libdevice/libdevice.10.bc"];

/// The places of toolkits in packages, since CUDA 13 and before.
const IN_PACKAGES: [&str; 2] = ["nvidia/cu13", "nvidia/cuda_nvcc"];

/// The toolkit to pass to the compiler as `xla_gpu_cuda_data_dir`, if it would not find one itself. `None` if it would,
/// if there is no toolkit, or if the user names one.
pub fn data_dir(plugin: &Loaded) -> Option<PathBuf> {
    let target = CudaTarget::of_loaded(plugin)?;
    if std::env::var("XLA_FLAGS").is_ok_and(|flags| flags.contains("xla_gpu_cuda_data_dir")) {
        return None;
    }
    choose(plugin.path, libraries::toolkits(target.major))
}

/// The first complete toolkit that XLA does not find: beside the plugin, or the system's.
pub(super) fn choose(plugin: &Path, others: Vec<PathBuf>) -> Option<PathBuf> {
    let beside = plugin.ancestors().skip(2).take(2).flat_map(in_packages);
    if beside.chain([PathBuf::from("/usr/local/cuda")]).any(|toolkit| is_whole(&toolkit)) {
        return None;
    }
    libraries::packages().iter().flat_map(|packages| in_packages(packages)).chain(others).find(|it| is_whole(it))
}

fn in_packages(packages: &Path) -> [PathBuf; 2] {
    IN_PACKAGES.map(|toolkit| packages.join(toolkit))
}

fn is_whole(toolkit: &Path) -> bool {
    FILES.iter().all(|file| toolkit.join(file).is_file())
}

/// Explains the compiler's error if these files are missing.
pub fn explained(error: Error) -> Error {
    if !["ptxas", "libdevice"].iter().any(|file| error.message().contains(file)) {
        return error;
    }
    error
        .hint("The compiler needs 'ptxas' and 'libdevice.10.bc' of the CUDA toolkit.")
        .hint(Reason::LibrariesInPlugin { names: vec!["cuda".into(), "cuda12".into()] })
        .hint("If this machine has a toolkit, set CUDA_HOME to its folder before you create the client.")
}
