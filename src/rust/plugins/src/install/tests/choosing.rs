//! Which entry of a manifest a request selects.

use super::super::plan::given;
use super::*;
use pjrt_base::error::{Error, Kind};
use pjrt_base::reason::Reason;

fn real() -> Manifest {
    Manifest::parse(include_str!("../../../../../../inst/plugins.toml")).unwrap()
}

const MAC: PlatformRelease = PlatformRelease { os: "macos", arch: "aarch64" };

fn plan_for(
    name: &str,
    target: PlatformRelease,
    machine: &Invented,
    change: impl FnOnce(&mut Request<'_>),
) -> Result<Plan> {
    let mut request = Request { name, ..request(Path::new("/cache"), "https://index.test") };
    change(&mut request);
    Plan::make(&request, &real(), machine, target)
}

fn files(plan: &Plan) -> Vec<&str> {
    plan.pieces.iter().filter_map(|piece| piece.file.as_deref()).collect()
}

#[test]
fn the_manifest_is_complete_and_consistent() {
    let manifest = real();
    for entry in &manifest.plugins {
        let name = format!("{} {}", entry.name(), entry.version);
        match (&entry.project, &entry.url) {
            (Some(_), None) => {
                let (file, library) = (entry.file.as_ref().unwrap(), entry.library.as_ref().unwrap());
                assert!(file.contains(&format!("-{}-", entry.version)), "{name}");
                assert!(entry.sha256.as_ref().unwrap().len() == 64 && entry.bytes.unwrap() > 1_000_000, "{name}");
                assert!(entry.unpacked.unwrap() > entry.bytes.unwrap() && library.contains('/'), "{name}");
            }
            (None, Some(url)) => assert!(url.starts_with("https://") && url.contains(&entry.version), "{name}"),
            _ => panic!("{name} is neither on an index nor published elsewhere"),
        }
        assert_eq!(manifest.libraries(entry).next().is_some(), entry.cuda.is_some(), "{name}");
    }
    for wheel in &manifest.libraries {
        assert!(wheel.file.contains(&wheel.version) && wheel.sha256.len() == 64, "{}", wheel.file);
        assert!(wheel.unpacked > wheel.bytes / 2 && wheel.bytes > 1000, "{}", wheel.file);
    }
    let mut hashes: Vec<_> = manifest.plugins.iter().filter_map(|e| e.sha256.as_ref()).collect();
    hashes.extend(manifest.libraries.iter().map(|wheel| &wheel.sha256));
    let all = hashes.len();
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), all, "a hash stands for two files");
}

#[test]
fn an_invalid_manifest_is_refused() {
    for text in ["[[plugin]]", "plugin = 3", "[[plugin]]\nplatfrom = 'cpu'", "["] {
        assert_eq!(Manifest::parse(text).unwrap_err().kind(), Kind::InvalidFile, "{text}");
    }
    let plugin = "[[plugin]]\nplatform = 'x'\nos = 'linux'\narch = 'x86_64'\nversion = '1'\n";
    assert!(Manifest::parse(&format!("{plugin}bytes = 1000")).is_ok());
    for size in ["bytes = 9223372036854775807", "unpacked = 9223372036854775807"] {
        let error = Manifest::parse(&format!("{plugin}{size}")).unwrap_err();
        assert!(error.message().contains("too large"), "{error}");
    }
}

#[test]
fn the_cpu_plugin_for_linux_comes_from_an_index() {
    let plan = plan_for("cpu", TARGET, &Invented::default(), |_| ()).unwrap();
    assert_eq!(files(&plan), ["xla_cpu_pjrt-0.0.1-py3-none-manylinux_2_27_x86_64.whl"]);
    assert_eq!((plan.folder.as_str(), plan.select, plan.source), ("0.0.1-x86_64", false, "index"));
    assert!(plan.pieces[0].sha256.is_some() && plan.pieces[0].members == ["xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so"]);
}

#[test]
fn a_platform_without_a_plugin_says_which_variable_to_set() {
    for (platform, variable) in [("tpu", "PJRT_PLUGIN_PATH_TPU"), ("abc-d", "PJRT_PLUGIN_PATH_ABC_D")] {
        let error = plan_for(platform, MAC, &Invented::default(), |_| ()).unwrap_err();
        assert_eq!((error.kind(), error.platform()), (Kind::PluginNotFound, Some(platform)));
        assert!(error.to_string().contains("for macos on aarch64") && error.to_string().contains(variable), "{error}");
    }
}

#[test]
fn an_archive_without_a_hash_is_used_only_on_request() {
    let error = plan_for("cpu", MAC, &Invented::default(), |_| ()).unwrap_err();
    assert_eq!(error.kind(), Kind::PluginNotFound);
    assert!(error.to_string().contains("UnverifiedArchive") && error.to_string().contains("darwin-arm64"), "{error}");
    let plan = plan_for("cpu", MAC, &Invented::default(), |r| r.source = PluginSource::Release).unwrap();
    assert!(plan.select && plan.source == "release" && plan.library.is_none());
    assert!(plan.pieces[0].url.as_ref().unwrap().as_str().ends_with("/v14.0.1/pjrt-cpu_darwin-arm64.tar.gz"));
    let other = |r: &mut Request<'_>| (r.source, r.version) = (PluginSource::Release, Some("15.0"));
    let plan = plan_for("cpu", MAC, &Invented::default(), other).unwrap();
    assert!(plan.pieces[0].url.as_ref().unwrap().as_str().contains("/v15.0/") && plan.folder == "15.0-aarch64");
    assert_eq!(plan.instead, None);
    let on_linux = plan_for("cpu", TARGET, &Invented::default(), |_| ()).unwrap();
    assert!(
        on_linux.instead.unwrap().to_string().contains("linux-amd64"),
        "when the index fails, the archive is named"
    );
    let error = plan_for("tpu", TARGET, &Invented::default(), |r| r.source = PluginSource::Release).unwrap_err();
    assert!(error.message().contains("as a release archive"), "{error}");
}

#[test]
fn the_driver_decides_which_cuda_plugin_is_taken() {
    let with = |driver| Invented { driver, ..Invented::default() };
    let folder = |driver| plan_for("cuda", TARGET, &with(driver), |_| ()).map(|plan| plan.folder);
    assert!(folder(Some((13, 0))).unwrap().contains("cuda13"));
    assert!(folder(Some((14, 2))).unwrap().contains("cuda13"));
    assert!(folder(Some((12, 4))).unwrap().contains("cuda12"));
    let says = |error: Error, kind, text: &str| {
        assert_eq!(error.kind(), kind);
        let names = vec!["cuda13".into(), "cuda12".into()];
        assert!(
            error.message().contains(text) && error.hints().contains(&Reason::PluginUndecided { names }.into()),
            "{error}"
        );
    };
    says(folder(Some((11, 8))).unwrap_err(), Kind::DriverTooOld, "CUDA 11.8 at most");
    says(folder(None).unwrap_err(), Kind::DriverMissing, "no NVIDIA driver");
    let plan = plan_for("cuda12", TARGET, &with(None), |_| ()).unwrap();
    assert!(plan.folder.contains("cuda12") && plan.platform == "cuda" && plan.select);
    assert!(files(&plan).iter().any(|file| file.starts_with("nvidia_cublas_cu12-")), "{:?}", files(&plan));
}

#[test]
fn another_version_is_looked_up_on_the_index() {
    let plan = plan_for("cpu", TARGET, &Invented::default(), |r| r.version = Some("0.0.2/x")).unwrap();
    let piece = &plan.pieces[0];
    assert_eq!((piece.project.as_str(), piece.version.as_str()), ("xla-cpu-pjrt", "0.0.2/x"));
    assert!(piece.file.is_none() && piece.sha256.is_none() && plan.api.is_none());
    assert_eq!((plan.folder.as_str(), plan.select), ("0.0.2_x-x86_64", true));
    let same = plan_for("cpu", TARGET, &Invented::default(), |r| r.version = Some("0.0.1")).unwrap();
    assert!(same.pieces[0].sha256.is_some() && !same.select);
}

#[test]
fn a_users_url_takes_precedence_over_the_manifest() {
    let mut machine = Invented::default();
    machine.variables.insert("PJRT_PLUGIN_URL_CPU", "https://me:secret@host.test/p/a-1.5-x.whl?t=1#sha256=ABCD");
    let plan = plan_for("cpu", TARGET, &machine, |_| ()).unwrap();
    let piece = &plan.pieces[0];
    assert_eq!(piece.url.as_ref().unwrap().as_str(), "https://me:secret@host.test/p/a-1.5-x.whl?t=1");
    assert_eq!((piece.sha256.as_deref(), plan.version.as_str(), plan.source), (Some("abcd"), "1.5", "url"));
    assert_eq!(given("cpu", &real(), &machine).unwrap().unwrap().0, plan.folder);
    for fragment in
        ["SHA256=ABCD", "sha-256=abcd", "sha256:abcd", "sha512=abcd", "x=1&sha256=abcd", "sha256=", "sha256=xyz", ""]
    {
        machine.variables.insert("PJRT_PLUGIN_URL_CPU", format!("https://host.test/a-1.5-x.whl#{fragment}").leak());
        let error = plan_for("cpu", TARGET, &machine, |_| ()).unwrap_err();
        assert_eq!(error.kind(), Kind::InvalidInput, "{fragment}");
        assert!(error.message().contains(&format!("\"#{fragment}\"")), "{error}");
    }
    machine.variables.insert("PJRT_PLUGIN_URL_CPU", "https://other:word@host.test/p/a-1.5-x.whl");
    assert_eq!(plan_for("cpu", TARGET, &machine, |_| ()).unwrap().folder, plan.folder, "whatever the login");
    assert_eq!(plan_for("cpu", TARGET, &machine, |r| r.source = PluginSource::Index).unwrap().source, "index");
    assert_eq!(plan_for("cpu", TARGET, &machine, |r| r.version = Some("0.0.1")).unwrap().source, "index");
    machine.variables.insert("PJRT_PLUGIN_URL_CPU", "ftp://me:secret@host.test/");
    let error = plan_for("cpu", TARGET, &machine, |_| ()).unwrap_err();
    assert!(error.message().starts_with("PJRT_PLUGIN_URL_CPU is \"ftp://***@"), "{error}");
}

#[test]
fn a_url_may_name_a_platform_that_nobody_knows() {
    let mut machine = Invented::default();
    machine.variables.insert("PJRT_PLUGIN_URL_MY_OWN", "file:///x/libmine.so");
    let plan = plan_for("my-own", TARGET, &machine, |_| ()).unwrap();
    assert_eq!((plan.platform.as_str(), plan.library), ("my-own", None));
}

#[test]
fn a_path_is_for_source_file_and_source_file_takes_a_path() {
    let invalid = |change: fn(&mut Request<'_>)| {
        let error = plan_for("cpu", TARGET, &Invented::default(), change).unwrap_err();
        assert_eq!(error.kind(), Kind::InvalidInput);
        error.to_string()
    };
    assert!(invalid(|r| r.source = PluginSource::File).contains("`path` must be the path"));
    assert!(invalid(|r| r.path = Some(Path::new("/x"))).contains("can only be used with `source = \"file\"`"));
}

#[test]
fn a_folder_serves_as_index_and_a_known_wheel_must_match_its_hash() {
    let folder = Folder::new();
    let plan = |path: &Path, version: Option<&'static str>| {
        let mut request = Request { name: "cpu", source: PluginSource::File, ..request(Path::new("/cache"), "x") };
        (request.path, request.version) = (Some(path), version);
        Plan::make(&request, &real(), &Invented::default(), TARGET)
    };
    let by_folder = plan(&folder.0, None).unwrap();
    assert_eq!(by_folder.index.as_deref(), folder.0.to_str());
    let wheel = folder.join(by_folder.pieces[0].file.as_ref().unwrap());
    std::fs::write(&wheel, "x").unwrap();
    let by_wheel = plan(&wheel, None).unwrap();
    assert_eq!((by_wheel.index, by_wheel.folder), (by_folder.index, by_folder.folder));
    assert_eq!(by_wheel.pieces[0].sha256, by_folder.pieces[0].sha256);
    let other = folder.join("mine.so");
    std::fs::write(&other, "x").unwrap();
    let by_file = plan(&other, None).unwrap();
    assert!(by_file.source == "file" && by_file.select && by_file.force && by_file.pieces[0].sha256.is_none());
    let error = plan(&folder.join("gone.whl"), None).unwrap_err();
    assert!(error.kind() == Kind::Io && error.message().contains("gone.whl"), "{error}");
}
