//! Uses folders as fake machines, independent of the real machine.

use super::*;
use std::os::unix::fs::{symlink, PermissionsExt};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::OnceLock;

/// A folder that acts as a machine, deleted at the end of the test.
struct Invented {
    root: PathBuf,
    machine: Machine,
}

impl Invented {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("pjrt-find-test-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let root = std::env::temp_dir().canonicalize().unwrap().join(name);
        std::fs::create_dir_all(root.join("home")).unwrap();
        let machine = Machine { variables: Default::default(), root: root.clone(), folder: root.join("work") };
        Invented { root, machine }.with("HOME", "home")
    }

    /// Sets a variable to a path.
    fn with(self, name: &str, path: &str) -> Self {
        let path = self.path(path);
        self.with_text(name, path.to_str().unwrap())
    }

    fn with_text(mut self, name: &str, text: &str) -> Self {
        self.machine.variables.insert(name.into(), text.into());
        self
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    fn file(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    fn folder(&self, name: &str) {
        std::fs::create_dir_all(self.path(name)).unwrap();
    }

    fn link(&self, name: &str, target: &str) {
        std::fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        symlink(target, self.path(name)).unwrap();
    }

    fn plugin(&self, name: &str) -> PathBuf {
        self.file(name, library_with("GetPjrtApi"))
    }

    /// A package with an entry point for the module `jax_plugins.<module>`, which contains a plugin.
    fn wheel(&self, site: &str, package: &str, module: &str) -> PathBuf {
        let entry = format!("[jax_plugins]\n{module} = jax_plugins.{module}\n");
        self.file(&format!("{site}/{package}.dist-info/entry_points.txt"), entry);
        self.plugin(&format!("{site}/jax_plugins/{module}/xla_{module}_plugin.so"))
    }

    fn look(&self) -> Findings {
        look(&self.machine)
    }

    /// The platforms found, with their paths below the machine's root.
    fn found(&self) -> Vec<(String, String)> {
        let below = |path: PathBuf| path.strip_prefix(&self.root).unwrap().to_str().unwrap().to_string();
        self.look().found.into_iter().map(|found| (found.platform, below(found.path))).collect()
    }

    fn platforms(&self) -> Vec<String> {
        self.found().into_iter().map(|(platform, _)| platform).collect()
    }

    /// The packages of the plugins found, in order.
    fn sources(&self) -> Vec<String> {
        self.look().found.into_iter().map(|found| found.source.replace("Python package ", "")).collect()
    }

    fn reasons(&self) -> Vec<String> {
        self.look().skipped.into_iter().map(|skipped| skipped.reason).collect()
    }
}

impl Drop for Invented {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

/// A small library that exports this function.
fn library_with(function: &str) -> Vec<u8> {
    static PLUGIN: OnceLock<Vec<u8>> = OnceLock::new();
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let build = || {
        let name = format!("pjrt-find-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let (code, library) = (folder.join("a.c"), folder.join("a.so"));
        std::fs::write(&code, format!("int {function}(void) {{ return 1; }}")).unwrap();
        let flags = ["-shared", "-fPIC", "-nostdlib", "-o"];
        assert!(Command::new("cc").args(flags).arg(&library).arg(&code).status().unwrap().success());
        let bytes = std::fs::read(&library).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        bytes
    };
    if function == "GetPjrtApi" {
        PLUGIN.get_or_init(build).clone()
    } else {
        build()
    }
}

fn pair(platform: &str, path: &str) -> (String, String) {
    (platform.into(), path.into())
}

#[test]
fn a_plugin_in_a_virtual_environment_is_found_with_its_package() {
    let machine = Invented::new().with("VIRTUAL_ENV", "venv");
    machine.file("venv/pyvenv.cfg", "home = /nowhere/bin\nversion = 3.11.7\n");
    let path = machine.wheel("venv/lib/python3.11/site-packages", "jax_cuda13_pjrt-0.9.0.1", "xla_cuda13");
    let findings = machine.look();
    let folder = machine.path("venv/lib/python3.11/site-packages");
    let expected = FoundPlugin {
        platform: "cuda".into(),
        path,
        source: "Python package jax-cuda13-pjrt".into(),
        folder: folder.clone(),
        version: Some("0.9.0.1".into()),
    };
    assert_eq!(findings.found, [expected]);
    assert_eq!(findings.skipped, []);
    assert_eq!(findings.places.iter().map(|place| &place.path).collect::<Vec<_>>(), [&folder]);
}

#[test]
fn an_empty_machine_has_no_plugins() {
    assert_eq!(Invented::new().look(), Findings::default());
}

#[test]
fn the_newer_of_two_packages_comes_first() {
    let machine = Invented::new().with("CONDA_PREFIX", "conda");
    let site = "conda/lib/python3.9/site-packages";
    machine.wheel(site, "jax_cuda12_pjrt-0.9.9", "xla_cuda12");
    machine.wheel(site, "jax_cuda13_pjrt-0.9.0", "xla_cuda13");
    machine.wheel("conda/lib/python3.10/site-packages", "jax_cuda11_pjrt-0.1", "xla_cuda11");
    assert_eq!(machine.sources(), ["jax-cuda11-pjrt", "jax-cuda13-pjrt", "jax-cuda12-pjrt"]);
}

#[test]
fn places_count_in_their_order() {
    let machine = Invented::new()
        .with("PJRT_PLUGIN_PATH", "mine")
        .with("TPU_LIBRARY_PATH", "tpu/libtpu.so")
        .with("VIRTUAL_ENV", "venv")
        .with("RETICULATE_PYTHON", "reticulate/bin/python")
        .with("RETICULATE_PYTHON_ENV", "renv")
        .with("CONDA_PREFIX", "conda")
        .with("PATH", "python/bin");
    machine.plugin("mine/pjrt_plugin_p0.so");
    machine.plugin("tpu/libtpu.so");
    for (prefix, module) in [
        ("venv", "p2"),
        ("reticulate", "p3"),
        ("renv", "p4"),
        ("conda", "p5"),
        ("python", "p6"),
        ("home/.local", "p7"),
        ("home/.virtualenvs/r-reticulate", "p8"),
        ("home/.local/share/r-miniconda/envs/r-reticulate", "p9"),
        ("usr", "pa"),
        ("opt/aws_neuronx_venv_jax", "pb"),
    ] {
        machine.wheel(&format!("{prefix}/lib/python3.11/site-packages"), &format!("{module}-1"), module);
    }
    machine.file("reticulate/bin/python", "");
    machine.file("python/bin/python3", "");
    machine.plugin("usr/lib/libpjrt_pc.so");
    let expected = ["p0", "tpu", "p2", "p3", "p4", "p5", "p6", "p7", "p8", "p9", "pa", "pb", "pc"];
    assert_eq!(machine.platforms(), expected);
    let only_named = machine.with_text("PJRT_DISCOVER", "0");
    assert_eq!(only_named.platforms(), ["p0", "tpu"]);
}

#[test]
fn an_environment_may_see_the_packages_of_its_base() {
    let machine = Invented::new().with("RETICULATE_PYTHON", "venv/bin/python");
    machine.file("base/bin/python3.12", "");
    machine.link("venv/bin/python", "../../base/bin/python3.12");
    machine.wheel("base/lib/python3.12/site-packages", "a-1", "a");
    let config = |system: &str| {
        let home = machine.path("base/bin");
        let text =
            format!("home = {}\ninclude-system-site-packages = {system}\nversion_info = 3.12.1\n", home.display());
        machine.file("venv/pyvenv.cfg", text);
    };
    config("false");
    assert_eq!(machine.platforms(), [""; 0]);
    config("true");
    assert_eq!(machine.platforms(), ["a"]);
}

#[test]
fn an_interpreter_is_followed_to_its_packages() {
    let machine = Invented::new().with("PATH", "bin");
    machine.link("bin/python3", "python3.11");
    machine.link("bin/python3.11", "../opt/python/bin/python3.11");
    machine.file("opt/python/bin/python3.11", "");
    machine.wheel("opt/python/lib/python3.11/site-packages", "a-1", "a");
    // Packages for another version do not belong to this interpreter.
    machine.wheel("opt/python/lib/python3.12/site-packages", "b-1", "b");
    machine.wheel("opt/python/lib/python3/dist-packages", "c-1", "c");
    machine.wheel("opt/python/local/lib/python3.11/dist-packages", "d-1", "d");
    assert_eq!(machine.platforms(), ["d", "a", "c"]);
}

#[test]
fn pyenv_shims_are_resolved() {
    let machine = Invented::new().with("PATH", "pyenv/shims");
    machine.file("pyenv/shims/python3", "#!/bin/sh\n");
    for version in ["3.9.1", "3.11.2", "3.11.10", "named"] {
        machine.link(&format!("pyenv/versions/{version}/bin/python3"), "python3.11");
        machine.file(&format!("pyenv/versions/{version}/bin/python3.11"), "");
        let module = format!("p{}", version.replace('.', "_"));
        machine.wheel(&format!("pyenv/versions/{version}/lib/python3.11/site-packages"), "p-1", &module);
    }
    assert_eq!(machine.platforms(), [""; 0]);
    machine.file("pyenv/version", "system\n3.9.1\n");
    assert_eq!(machine.platforms(), ["p3_9_1"]);
    machine.file("work/.python-version", "# mine\n3.11\n");
    assert_eq!(machine.platforms(), ["p3_11_10"]);
    let machine = machine.with_text("PYENV_VERSION", "none:named");
    assert_eq!(machine.platforms(), ["pnamed"]);
    let machine = machine.with_text("PYENV_VERSION", "../../opt");
    assert_eq!(machine.platforms(), [""; 0]);
}

#[test]
fn user_packages_are_found_as_python_finds_them() {
    let machine = Invented::new();
    machine.wheel("home/.local/lib/python3.11/site-packages", "a-1", "a");
    assert_eq!(machine.platforms(), ["a"]);
    machine.wheel("base/lib/python3.9/site-packages", "b-1", "b");
    let machine = machine.with("PYTHONUSERBASE", "base");
    assert_eq!(machine.platforms(), ["b"]);
    let machine = machine.with_text("PYTHONNOUSERSITE", "1");
    assert_eq!(machine.platforms(), [""; 0]);
}

#[test]
fn reticulates_environments_are_found_by_name() {
    let machine = Invented::new().with("WORKON_HOME", "envs").with_text("RETICULATE_PYTHON_ENV", "mine");
    machine.wheel("envs/mine/lib/python3.11/site-packages", "a-1", "a");
    machine.wheel("envs/r-reticulate/lib/python3.11/site-packages", "b-1", "b");
    assert_eq!(machine.platforms(), ["a", "b"]);
    let machine = machine.with_text("RETICULATE_PYTHON", "managed");
    assert_eq!(machine.platforms(), ["a", "b"]);
}

#[test]
fn packages_without_entry_points_are_found() {
    let machine = Invented::new().with("VIRTUAL_ENV", "venv");
    let site = "venv/lib/python3.11/site-packages";
    machine.folder(&format!("{site}/intel_extension_for_openxla-0.7.0.dist-info"));
    machine.plugin(&format!("{site}/jax_plugins/intel_extension_for_openxla/pjrt_plugin_xpu.so"));
    machine.folder(&format!("{site}/libtpu_nightly-0.1.dist-info"));
    machine.plugin(&format!("{site}/libtpu/libtpu.so"));
    machine.plugin(&format!("{site}/libtpu/sdk.so"));
    machine.plugin(&format!("{site}/libneuronxla/libneuronpjrt.so"));
    machine.plugin(&format!("{site}/xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so"));
    machine.folder(&format!("{site}/jax_plugins/__pycache__"));
    let findings = machine.look();
    let facts = |found: &FoundPlugin| (found.platform.clone(), found.source.clone(), found.version.clone());
    let expected = [
        ("cpu", "xla_plugins.xla_cpu_pjrt", None),
        ("intel", "intel-extension-for-openxla", Some("0.7.0")),
        ("tpu", "libtpu-nightly", Some("0.1")),
        ("neuron", "libneuronxla", None),
    ];
    let mut found: Vec<_> = findings.found.iter().map(facts).collect();
    found.sort_by_key(|(platform, ..)| expected.iter().position(|(expected, ..)| expected == platform));
    let expected = expected.map(|(platform, package, version)| {
        (platform.to_string(), format!("Python package {package}"), version.map(str::to_string))
    });
    assert_eq!(found, expected);
    assert_eq!(findings.skipped, []);
}

#[test]
fn a_plugin_elsewhere_in_its_package_is_found() {
    let machine = Invented::new().with("VIRTUAL_ENV", "venv");
    let site = "venv/lib/python3.11/site-packages";
    let info = format!("{site}/my_accel-2.0.dist-info");
    machine.file(&format!("{info}/entry_points.txt"), "[jax_plugins]\nMy-Accel = accel_jax:start\n");
    machine.file(&format!("{info}/RECORD"), "../../bad.so,,\nother/lib/a.so,,\nother/lib/b.so,sha256=x,1\n");
    machine.file(&format!("{site}/accel_jax.py"), "");
    machine.file(&format!("{site}/other/lib/a.so"), library_with("something_else"));
    machine.plugin("venv/lib/bad.so");
    machine.plugin(&format!("{site}/other/lib/b.so"));
    assert_eq!(machine.found(), [pair("my-accel", &format!("{site}/other/lib/b.so"))]);
}

#[test]
fn editable_installs_are_followed_and_no_code_is_run() {
    let machine = Invented::new().with("VIRTUAL_ENV", "venv");
    let site = "venv/lib/python3.11/site-packages";
    machine.file(&format!("{site}/mine-1.dist-info/entry_points.txt"), "[xla_plugins]\nmine = mine.plugin\n");
    let text = format!("# a comment\nimport os; os.abort()\n/nowhere\n{}\n", machine.path("source").display());
    machine.file(&format!("{site}/mine.pth"), text);
    machine.file("source/mine/plugin.py", "");
    machine.plugin("source/mine/lib/mine.so");
    assert_eq!(machine.found(), [pair("mine", "source/mine/lib/mine.so")]);
}

#[test]
fn a_package_without_its_library_is_reported() {
    let machine = Invented::new().with("VIRTUAL_ENV", "venv");
    let site = "venv/lib/python3.11/site-packages";
    machine.file(&format!("{site}/a-1.dist-info/entry_points.txt"), "[jax_plugins]\na = jax_plugins.a\n");
    machine.wheel(site, "b-1", "b");
    machine.file(&format!("{site}/jax_plugins/b/xla_b_plugin.so"), "no library");
    let skipped = machine.look().skipped;
    assert_eq!(skipped.len(), 2);
    let reasons = ["a", "b"].map(|platform| {
        let skipped = skipped.iter().find(|skipped| skipped.platform.as_deref() == Some(platform));
        skipped.unwrap().reason.clone()
    });
    assert_eq!(reasons[0], "no library was found");
    assert!(reasons[1].contains("a text file"), "{}", reasons[1]);
}

#[test]
fn folders_of_plugins_hold_them_by_name() {
    let machine = Invented::new();
    for name in
        ["pjrt_c_api_cpu_plugin.so", "libpjrt_metal.dylib", "pjrt-plugin-tt.so", "tpu/libtpu.so", "abc/plugin.so"]
    {
        machine.plugin(&format!("plugins/{name}"));
    }
    machine.plugin("plugins/deep/er/pjrt_plugin_no.so");
    machine.file("plugins/other.so", library_with("something_else"));
    machine.file("plugins/readme.txt", "");
    let file = machine.plugin("one/pjrt_plugin_xpu.so");
    let paths = format!("~/none:relative:{}:{}:", machine.path("plugins").display(), file.display());
    let machine = machine.with_text("PJRT_PLUGIN_PATH", &paths);
    assert_eq!(machine.platforms(), ["metal", "tt", "cpu", "abc", "tpu", "intel"]);
    assert_eq!(machine.reasons(), ["entries of PJRT_PLUGIN_PATH must be absolute paths", "the file does not exist"]);
    machine.plugin("home/mine/libpjrt_cuda.so");
    let machine = machine.with_text("PJRT_PLUGIN_PATH", "~/mine");
    assert_eq!(machine.platforms(), ["cuda"]);
}

#[test]
fn folders_of_plugins_may_hold_python_packages() {
    let machine = Invented::new().with("PJRT_PLUGIN_PATH", "shared").with_text("PJRT_DISCOVER", "0");
    machine.wheel("shared", "jax_rocm7_pjrt-0.9.2", "xla_rocm7");
    assert_eq!(machine.platforms(), ["rocm"]);
    assert_eq!(machine.sources(), ["jax-rocm7-pjrt"]);
}

#[test]
fn files_that_others_can_write_are_not_used() {
    let machine = Invented::new().with("VIRTUAL_ENV", "venv");
    let site = "venv/lib/python3.11/site-packages";
    let library = machine.wheel(site, "a-1", "a");
    let allow = |path: &Path, mode: u32| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    for (path, safe) in [(library.as_path(), 0o755), (library.parent().unwrap(), 0o755), (&machine.path("venv"), 0o755)]
    {
        allow(path, 0o777);
        let findings = machine.look();
        assert_eq!(findings.found, []);
        assert_eq!(findings.skipped[0].reason, format!("every user can write to '{}'", path.display()));
        assert_eq!(findings.skipped[0].platform.as_deref(), Some("a"));
        allow(path, safe);
    }
    assert_eq!(machine.platforms(), ["a"]);
    // In a folder like /tmp, nobody can replace another user's files.
    allow(&machine.path("venv"), 0o1777);
    assert_eq!(machine.platforms(), ["a"]);
    allow(library.parent().unwrap(), 0o1777);
    assert_eq!(machine.platforms(), [""; 0]);
}

#[test]
fn another_users_library_is_used_only_from_a_folder_that_the_user_named() {
    let machine = Invented::new().with("VIRTUAL_ENV", "venv");
    let library = machine.wheel("venv/lib/python3.11/site-packages", "a-1", "a");
    if std::os::unix::fs::chown(&library, Some(12345), None).is_err() {
        // Only root can give files away.
        return;
    }
    assert_eq!(machine.reasons(), [format!("another user owns '{}'", library.display())]);
    let machine = machine.with("PJRT_PLUGIN_PATH", "venv/lib/python3.11/site-packages/jax_plugins");
    assert_eq!(machine.platforms(), ["a"]);
}

#[test]
fn links_lead_to_one_library() {
    let machine = Invented::new().with("VIRTUAL_ENV", "venv").with("CONDA_PREFIX", "link");
    machine.wheel("venv/lib/python3.11/site-packages", "a-1", "a");
    machine.link("link", "venv");
    machine.plugin("store/plugin.so");
    let linked = "venv/lib/python3.11/site-packages/jax_plugins/b/b.so";
    machine.link(linked, machine.path("store/plugin.so").to_str().unwrap());
    assert_eq!(
        machine.found(),
        [pair("a", "venv/lib/python3.11/site-packages/jax_plugins/a/xla_a_plugin.so"), pair("b", "store/plugin.so")]
    );
}

#[test]
fn nothing_odd_on_disk_stops_the_search() {
    use std::os::unix::ffi::OsStrExt;
    let machine = Invented::new().with("VIRTUAL_ENV", "venv").with("PJRT_PLUGIN_PATH", "plugins");
    let site = "venv/lib/python3.11/site-packages";
    machine.wheel(site, "a-1", "a");
    let pipe = |name: &str| {
        std::fs::create_dir_all(machine.path(name).parent().unwrap()).unwrap();
        assert!(Command::new("mkfifo").arg(machine.path(name)).status().unwrap().success());
    };
    pipe("venv/pyvenv.cfg");
    pipe(&format!("{site}/pipe.pth"));
    pipe(&format!("{site}/pipe-1.dist-info/entry_points.txt"));
    pipe("plugins/pipe.so");
    machine.link("plugins/broken.so", "nowhere");
    machine.link("plugins/loop.so", "loop.so");
    machine.link("plugins/self", ".");
    machine.folder("plugins/folder.so");
    machine.file(&format!("{site}/odd-1.dist-info/entry_points.txt"), b"[jax_plugins]\n\xff = \xfe\n=\n");
    let odd = machine.path("plugins").join(std::ffi::OsStr::from_bytes(b"pjrt_plugin_\xff.so"));
    std::fs::write(&odd, library_with("GetPjrtApi")).unwrap();
    assert_eq!(machine.platforms(), ["a"]);
    assert_eq!(machine.reasons(), ["its path is not valid UTF-8"]);
}

#[test]
fn the_platform_is_read_from_the_name() {
    for (file, platform) in [
        ("pjrt_c_api_cpu_plugin.so", "cpu"),
        ("libpjrt_cpu.dylib", "cpu"),
        ("xla_cuda_plugin.so", "cuda"),
        ("pjrt_c_api_gpu_plugin.so", "cuda"),
        ("pjrt_plugin_metal_14.dylib", "metal"),
        ("libtpu.so", "tpu"),
        ("pjrt_plugin_xpu.so", "intel"),
        ("libneuronpjrt.so", "neuron"),
        ("pjrt-plugin-tt.so", "tt"),
        ("pjrt_plugin_iree_cpu.so", "iree_cpu"),
        ("PJRT_CPU.dll", "cpu"),
        ("a b\u{e9}.so", "a_b_"),
    ] {
        assert_eq!(names::of_library(Path::new(file), &[]), platform, "{file}");
    }
    let needed = ["libamdhip64.so.6".to_string()];
    assert_eq!(names::of_library(Path::new("pjrt_c_api_gpu_plugin.so"), &needed), "rocm");
    assert_eq!(names::of_library(Path::new("ROCm/plugin.so"), &[]), "rocm");
    for (entry, platform) in [
        ("xla_cuda12", "cuda"),
        ("xla_rocm7", "rocm"),
        ("metal_plugin", "metal"),
        ("xla_cpu_pjrt", "cpu"),
        ("intel_extension_for_openxla", "intel"),
        ("MyAccel", "myaccel"),
        ("iree-cpu", "iree-cpu"),
    ] {
        assert_eq!(names::of_entry_point(entry), platform, "{entry}");
    }
}
