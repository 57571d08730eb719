//! Uses fake folders, with tiny libraries that the tests compile.

use super::driver::DriverSearch;
use super::*;
use pjrt_base::reason::Hint;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder that is deleted at the end of the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("pjrt-nv-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Folder(path.canonicalize().unwrap())
    }

    /// A subfolder.
    fn sub(&self, name: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(&path).unwrap();
        path
    }

    fn search(&self) -> LibrarySearch {
        LibrarySearch { folders: vec![self.0.clone()] }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Compiles `code` to a library with this name, linked to others in the folder, with more options for the linker.
fn compile(folder: &Path, name: &str, code: &str, linked: &[&str], options: &[&str]) -> PathBuf {
    let library = folder.join(name);
    let source = folder.join(format!("{name}.c"));
    fs::write(&source, code).unwrap();
    let done = Command::new("cc")
        .args(["-shared", "-fPIC", &format!("-Wl,-soname,{name}"), "-Wl,--no-as-needed"])
        .args(options)
        .arg("-o")
        .args([&library, &source])
        .args(linked.iter().map(|name| folder.join(name)))
        .status();
    assert!(done.unwrap().success());
    library
}

fn fake_driver(folder: &Path, version: u32) {
    let code = format!("int cuDriverGetVersion(int *version) {{ *version = {version}; return 0; }}");
    compile(folder, driver::LIBRARY, &code, &[], &[]);
}

/// The driver in this folder.
fn driver_in(folder: &Folder) -> Driver {
    let module = folder.0.join("version");
    DriverSearch { by_name: false, folders: vec![folder.0.clone()], module }.run()
}

fn target(major: u32) -> CudaTarget {
    CudaTarget { major: Some(major), library: Default::default() }
}

fn refused<T>(result: Result<T>, kind: Kind) -> String {
    let error = result.err().unwrap();
    assert_eq!(error.kind(), kind, "{error}");
    error.to_string()
}

#[test]
fn a_missing_driver_raises_an_error_with_advice() {
    let folder = Folder::new();
    assert_eq!(driver_in(&folder), Driver { cuda: None, module: None });
    let text = refused(check_driver(&driver_in(&folder), &target(13)), Kind::DriverMissing);
    assert!(text.contains("no NVIDIA driver") && text.contains("580.65") && text.contains("--gpus all"), "{text}");
    fs::write(folder.0.join("version"), "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.14  Thu\n").unwrap();
    let text = refused(check_driver(&driver_in(&folder), &target(13)), Kind::DriverMissing);
    assert!(text.contains("has the NVIDIA driver 550.54.14") && text.contains("DriverHidden"), "{text}");
    for broken in ["", "no library"] {
        fs::write(folder.0.join(driver::LIBRARY), broken).unwrap();
        assert_eq!(driver_in(&folder).cuda, None);
    }
    compile(&folder.0, driver::LIBRARY, "int other(void) { return 0; }", &[], &[]);
    assert_eq!(driver_in(&folder).cuda, None);
}

#[test]
fn a_drivers_version_is_compared_with_what_the_plugin_needs() {
    let folder = Folder::new();
    fs::write(folder.0.join("version"), "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.14  Thu\n").unwrap();
    fake_driver(&folder.0, 12040);
    let driver = driver_in(&folder);
    assert_eq!(driver, Driver { cuda: Some(Version(12, 4)), module: Some("550.54.14".into()) });
    check_driver(&driver, &target(12)).unwrap();
    check_driver(&driver, &CudaTarget { major: None, library: Default::default() }).unwrap();
    let text = refused(check_driver(&driver, &target(13)), Kind::DriverTooOld);
    assert!(
        text.starts_with("The NVIDIA driver 550.54.14 supports CUDA 12.4, but this plugin needs CUDA 13.0."),
        "{text}"
    );
    assert!(text.contains("580.65") && text.contains("DriverRunsOlder { name: \"cuda12\" }"), "{text}");
    let old = Driver { cuda: Some(Version(11, 8)), module: None };
    let text = refused(check_driver(&old, &target(12)), Kind::DriverTooOld);
    assert!(text.contains("525.60") && !text.contains("cuda12"), "{text}");
}

const fn wanted(name: &'static str, only_for: Option<&'static str>) -> Wanted {
    Wanted { name, package: "a-package", only_for }
}

#[test]
fn each_library_comes_after_those_that_it_needs() {
    static CHAIN: [Wanted; 3] =
        [wanted("libpjrt-a.so.1", None), wanted("libpjrt-b.so.1", None), wanted("libpjrt-c.so.1", None)];
    let folder = Folder::new();
    compile(&folder.0, "libpjrt-c.so.1", "int c(void) { return 3; }", &[], &[]);
    compile(&folder.0, "libpjrt-b.so.1", "int c(void); int b(void) { return c(); }", &["libpjrt-c.so.1"], &[]);
    compile(&folder.0, "libpjrt-a.so.1", "int b(void); int a(void) { return b(); }", &["libpjrt-b.so.1"], &[]);
    let found = preload::find(&CHAIN, &folder.search());
    assert_eq!(preload::in_order(&found), [2, 1, 0]);
    // No library shows the loader where the others are.
    load(&CHAIN, &folder.search(), Some(13)).unwrap();
    assert!(CHAIN.iter().all(|wanted| preload::is_loaded(wanted.name)));

    // A library that is loaded already is kept, whatever other files exist.
    let other = Folder::new();
    fs::write(other.0.join("libpjrt-a.so.1"), "broken").unwrap();
    assert_eq!(preload::find(&CHAIN[..1], &other.search())[0].place, LibraryOrigin::Loaded);
    load(&CHAIN, &other.search(), Some(13)).unwrap();
}

#[test]
fn libraries_that_need_each_other_come_in_some_order() {
    static RING: [Wanted; 2] = [wanted("x", None), wanted("y", None)];
    let found = |index: usize, needs: &str| preload::FoundLibrary {
        wanted: &RING[index],
        place: LibraryOrigin::Missing,
        needs: Ok(vec![needs.into(), "unknown".into()]),
    };
    assert_eq!(preload::in_order(&[found(0, "y"), found(1, "x")]), [1, 0]);
}

#[test]
fn a_missing_library_is_named_with_the_way_to_get_it() {
    static SOME: [Wanted; 2] = [wanted("libpjrt-none.so.1", None), wanted("libpjrt-spare.so.1", Some("luxury"))];
    let folder = Folder::new();
    let text = refused(load(&SOME, &folder.search(), Some(12)), Kind::LibraryMissing);
    assert!(text.contains("'libpjrt-none.so.1'") && !text.contains("spare"), "{text}");
    assert!(
        text.contains("LibrariesInPlugin { names: [\"cuda12\"] }") && text.contains("pip install a-package"),
        "{text}"
    );

    // A missing optional library is only mentioned if the plugin fails.
    let unavailable = load(&SOME[1..], &folder.search(), Some(12)).unwrap();
    let error = explained(Error::new(Kind::Pjrt(9), "No visible GPU devices."), &unavailable);
    assert!(error.to_string().contains("'libpjrt-spare.so.1' was not found; it is needed for luxury."), "{error}");
}

#[test]
fn a_file_that_is_not_a_library_is_never_mapped() {
    static BROKEN: [Wanted; 1] = [wanted("libpjrt-broken.so.1", None)];
    let folder = Folder::new();
    let file = compile(&folder.0, "libpjrt-broken.so.1", "int f(void) { return 1; }", &[], &[]);
    let whole = fs::read(&file).unwrap();
    fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    let text = refused(load(&BROKEN, &folder.search(), Some(13)), Kind::LibraryMissing);
    assert!(text.contains("'libpjrt-broken.so.1'") && text.contains("incomplete"), "{text}");
}

#[test]
fn a_library_that_cannot_be_linked_raises_an_error_with_the_loaders_reason() {
    static UNLINKED: [Wanted; 1] = [wanted("libpjrt-unlinked.so.1", None)];
    let folder = Folder::new();
    compile(&folder.0, "libpjrt-unlinked.so.1", "int nowhere(void); int f(void) { return nowhere(); }", &[], &[]);
    let text = refused(load(&UNLINKED, &folder.search(), Some(13)), Kind::LibraryMissing);
    assert!(text.contains("nowhere"), "{text}");
}

#[test]
fn libraries_are_looked_for_beside_the_plugin_before_all_else() {
    let folder = Folder::new();
    let origin = folder.sub("site/jax_plugins/xla_cuda13");
    let wheels = [folder.sub("site/nvidia/cu13/lib"), folder.sub("site/nvidia/cudnn/lib")];
    let others = folder.sub("other/nvidia/cublas/lib");
    let named = folder.sub("site/tensorrt");
    libraries::look_in(vec![folder.0.join("other")]);
    let runpath = ["$ORIGIN/../../tensorrt".to_owned(), "${ORIGIN}/nowhere".to_owned()];
    let search = LibrarySearch::of(&origin.join("plugin.so"), &runpath, Some(13));
    libraries::look_in(Vec::new());
    assert_eq!(search.folders[..4], [named, wheels[0].clone(), wheels[1].clone(), others.clone()]);
    fs::write(others.join("libpjrt-somewhere.so"), "").unwrap();
    fs::write(wheels[1].join("libpjrt-somewhere.so"), "").unwrap();
    assert_eq!(search.find("libpjrt-somewhere.so"), Some(wheels[1].join("libpjrt-somewhere.so")));
    assert_eq!(search.find("libpjrt-nowhere.so"), None);
    // Folders in which anybody can put files are not used.
    use std::os::unix::fs::PermissionsExt;
    libraries::look_in(vec![folder.0.join("site")]);
    assert!(LibrarySearch::of(Path::new("/plugin.so"), &[], Some(13))
        .folders
        .iter()
        .any(|it| it.starts_with(&folder.0)));
    fs::set_permissions(folder.0.join("site"), fs::Permissions::from_mode(0o777)).unwrap();
    assert!(!LibrarySearch::of(Path::new("/plugin.so"), &[], Some(13))
        .folders
        .iter()
        .any(|it| it.starts_with(&folder.0)));
    assert_eq!(libraries::packages(), Vec::<PathBuf>::new());
    libraries::look_in(Vec::new());
    let search = LibrarySearch::of(&origin.join("plugin.so"), &[], Some(13));
    assert!(!search.folders.contains(&wheels[0]));
}

#[test]
fn the_platform_of_a_plugin_is_read_from_its_file() {
    let folder = Folder::new();
    let plain = folder.sub("plain");
    let of = |path: PathBuf| CudaTarget::of(&path).map(|target| target.major);
    let code = "int f(void) { return 1; }";

    let wheel = compile(&plain, "w.so", code, &[], &["-Wl,-rpath,$ORIGIN/../../nvidia/cu13/lib"]);
    assert_eq!(of(wheel), Some(Some(13)));
    compile(&plain, "libcublas.so.12", code, &[], &[]);
    assert_eq!(of(compile(&plain, "linked.so", code, &["libcublas.so.12"], &[])), Some(Some(12)));
    let version = "const char *version = \"cuda 12090\";";
    assert_eq!(of(compile(&plain, "pjrt_cuda.so", version, &[], &[])), Some(Some(12)));
    assert_eq!(of(compile(&plain, "pjrt_gpu.so", version, &[], &[])), Some(Some(12)));

    assert_eq!(of(compile(&plain, "cuda.so", code, &[], &[])), Some(None));
    assert_eq!(of(compile(&plain, "gpu.so", code, &[], &[])), None);
    assert_eq!(of(compile(&plain, "cpu.so", version, &[], &[])), None);
    assert_eq!(of(folder.0.join("cuda13/none.so")), None);
}

#[test]
fn the_report_loads_nothing() {
    let folder = Folder::new();
    let wheels = folder.sub("nvidia/cu13/lib");
    let plugin = compile(&folder.sub("xla_cuda13"), "plugin.so", "int f(void) { return 1; }", &[], &[]);
    compile(&wheels, "libnvJitLink.so.13", "int f(void) { return 1; }", &[], &[]);
    let report = report(Some(&plugin));
    assert_eq!(report.needs, Some(Version(13, 0)));
    let row = |name: &str| report.libraries.iter().find(|(wanted, ..)| wanted.name == name).unwrap();
    assert_eq!(row("libnvJitLink.so.13").1, LibraryOrigin::File(wheels.join("libnvJitLink.so.13")));
    assert_eq!(row("libnvJitLink.so.13").2, None);
    assert!(!preload::is_loaded("libnvJitLink.so.13"));
    assert_eq!(report.libraries.len(), libraries::wanted(13).len());
}

#[test]
fn a_toolkit_is_named_where_the_compiler_would_not_find_one() {
    let folder = Folder::new();
    let toolkit = |name: &str| {
        let root = folder.sub(name);
        for file in ["bin/ptxas", "nvvm/libdevice/libdevice.10.bc"] {
            fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
            fs::write(root.join(file), "").unwrap();
        }
        root
    };
    let elsewhere = toolkit("cuda-13.0");
    let plugin = folder.sub("site/jax_plugins/xla_cuda13").join("plugin.so");
    let half = folder.sub("site/nvidia/cu13/bin");
    fs::write(half.join("ptxas"), "").unwrap();
    // A machine with the system's toolkit does not need another.
    let none_needed = Path::new("/usr/local/cuda/bin/ptxas").exists();
    let chosen = tools::choose(&plugin, vec![half, elsewhere.clone()]);
    assert_eq!(chosen, (!none_needed).then_some(elsewhere.clone()));
    toolkit("site/nvidia/cu13");
    assert_eq!(tools::choose(&plugin, vec![elsewhere]), None);
}

#[test]
fn a_compiler_error_about_a_missing_tool_says_where_to_get_it() {
    let lacking = tools::explained(Error::new(Kind::Pjrt(14), "No PTX provider: ptxas not found"));
    assert!(
        matches!(&lacking.hints()[1], Hint::Reason(Reason::LibrariesInPlugin { names }) if names[0] == "cuda"),
        "{lacking}"
    );
    assert!(tools::explained(Error::new(Kind::Pjrt(3), "Malformed program")).hints().is_empty());
}
