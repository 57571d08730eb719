//! The whole installation, from the index to the library in the cache, and its failures.

use super::super::place::{InstallFolder, Record};
use super::super::{all_installed, index, uninstall, Store};
use super::server::{file, head, reply, Server};
use super::*;
use pjrt_base::error::Kind;
use pjrt_base::reason::Reason;

/// An index with one project and its one file.
fn index_with(name: &'static str, bytes: Vec<u8>) -> Server {
    Server::start(move |_, asked, stream| {
        let coded = name.replace('+', "%2B");
        match asked.path.as_str() {
            "/simple/tiny-plugin/" => {
                let page = format!("<html><a href='../../files/{coded}#sha256={}'>{name}</a></html>", sha256(&bytes));
                reply(stream, "200 OK", "Content-Type: text/html\r\n", page.as_bytes());
            }
            path if path == format!("/files/{coded}") => file(asked, stream, &bytes),
            _ => reply(stream, "404 Not Found", "", b""),
        }
    })
}

/// The index with the manifest's wheel.
pub(super) fn index() -> (Server, String) {
    let server = index_with(FILE, wheel_bytes());
    let url = format!("{}/simple", server.url);
    (server, url)
}

pub(super) fn install(manifest: &Manifest, cache: &Path, index: &str, force: bool) -> Result<PathBuf> {
    let request = Request { force, ..request(cache, index) };
    carry_out_on(&request, manifest, &Invented::default()).map(|installed| installed.library.to_path_buf())
}

/// The names in a folder that do not begin with a dot.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| !name.starts_with('.')).collect();
    names.sort();
    names
}

#[test]
fn a_plugin_is_installed_once_and_found_again() {
    let (manifest, folder, (server, url)) = (manifest(&wheel_bytes()), Folder::new(), index());
    let cache = folder.join("cache");
    let library = install(&manifest, &cache, &url.replace("://", "://me:secret@"), false).unwrap();
    assert_eq!(library, cache.join(INSTALLED));
    assert!(std::fs::read(&library).unwrap() == library_bytes());
    assert_eq!(names(&cache.join("tiny")), ["1.2+3-x86_64"]);
    assert_eq!(names(&cache.join("tiny/1.2+3-x86_64")), ["source.toml", "xla_plugins"]);
    let record = std::fs::read_to_string(cache.join("tiny/1.2+3-x86_64/source.toml")).unwrap();
    assert!(record.contains(&sha256(&wheel_bytes())) && record.contains("***@127.0.0.1"), "{record}");
    assert!(!record.contains("secret"), "{record}");
    assert!(!cache.join("tiny/.downloads").exists());

    let asked = server.asked();
    assert_eq!(asked.len(), 2);
    assert!(asked[0].header("accept").unwrap().contains("application/vnd.pypi.simple.v1+json"));
    assert!(asked.iter().all(|request| request.header("authorization").is_some()));
    assert_eq!(install(&manifest, &cache, &url, false).unwrap(), library);
    assert_eq!(server.asked().len(), 2, "what is installed is not asked for again");
    assert_eq!(install(&manifest, &cache, &url, true).unwrap(), library);
    assert_eq!(server.asked().len(), 4, "unless forced");
    assert_eq!(names(&cache.join("tiny")), ["1.2+3-x86_64"]);

    let all = all_installed(Store::Cache(&cache));
    assert_eq!(all.len(), 1);
    let one = &all[0];
    assert_eq!(
        (&*one.record.platform, &*one.record.version, &*one.record.source, one.record.api.as_deref()),
        ("tiny", "1.2+3", "index", None)
    );
    assert_eq!((one.library.as_path(), one.record.bytes), (library.as_path(), library_bytes().len() as u64));
}

#[cfg(unix)]
#[test]
fn installed_files_are_writable_only_by_their_owner() {
    use std::os::unix::fs::PermissionsExt;
    let (manifest, folder, (_server, url)) = (manifest(&wheel_bytes()), Folder::new(), index());
    let cache = folder.join("cache");
    let library = install(&manifest, &cache, &url, false).unwrap();
    for path in library.ancestors().take(6).chain([cache.join("tiny/1.2+3-x86_64/source.toml").as_path()]) {
        let mode = std::fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode & 0o022, 0, "{} {mode:o}", path.display());
    }
    // Files that others could have changed are not used, and the next installation repairs them.
    for open in [library.clone(), library.parent().unwrap().to_path_buf(), cache.join("tiny")] {
        let mode = std::fs::metadata(&open).unwrap().permissions().mode();
        std::fs::set_permissions(&open, PermissionsExt::from_mode(0o777)).unwrap();
        assert_eq!(found(&cache, &manifest, &Invented::default()), None, "{}", open.display());
        assert_eq!(install(&manifest, &cache, &url, false).unwrap(), library);
        let repaired = std::fs::metadata(&open).unwrap().permissions().mode();
        assert_eq!(repaired & 0o022, mode & 0o022, "{}", open.display());
        assert!(found(&cache, &manifest, &Invented::default()).is_some());
    }
}

#[cfg(unix)]
#[test]
fn a_cache_folder_may_be_a_link() {
    let (manifest, folder, (_server, url)) = (manifest(&wheel_bytes()), Folder::new(), index());
    let (disk, cache) = (folder.join("disk"), folder.join("cache"));
    std::fs::create_dir_all(disk.join("tiny")).unwrap();
    std::fs::create_dir(&cache).unwrap();
    std::os::unix::fs::symlink(disk.join("tiny"), cache.join("tiny")).unwrap();
    std::os::unix::fs::symlink(&cache, folder.join("link")).unwrap();
    let library = install(&manifest, &folder.join("link"), &url, false).unwrap();
    assert_eq!(found(&folder.join("link"), &manifest, &Invented::default()), Some(library));
    assert!(disk.join(INSTALLED).exists());
}

/// Only root can give files away, so for other users this returns early.
#[cfg(unix)]
#[test]
fn another_users_cache_is_used_unless_its_folder_is_world_writable() {
    // SAFETY: the function only returns a number.
    if unsafe { libc::geteuid() } != 0 {
        return;
    }
    let (manifest, (_server, url)) = (manifest(&wheel_bytes()), index());
    let give = |path: &Path| {
        assert!(std::process::Command::new("chown").arg("-R").arg("12345").arg(path).status().unwrap().success());
    };
    let look = |cache: &Path| found(cache, &manifest, &Invented::default());
    // Anybody could have created it in the folder for temporary files.
    let open = Folder::new();
    install(&manifest, &open.0, &url, false).unwrap();
    assert!(look(&open.0).is_some());
    give(&open.0);
    assert_eq!(look(&open.0), None);
    let closed = Folder(PathBuf::from(format!("/var/lib/pjrt-install-test-{}", std::process::id())));
    std::fs::create_dir(&closed.0).unwrap();
    install(&manifest, &closed.0, &url, false).unwrap();
    give(&closed.0);
    assert!(look(&closed.0).is_some());
}

#[test]
fn an_incomplete_folder_is_not_taken_for_a_plugin_and_is_replaced() {
    let (manifest, folder, (_server, url)) = (manifest(&wheel_bytes()), Folder::new(), index());
    let look = |manifest: &Manifest| found(&folder.0, manifest, &Invented::default());
    let library = folder.join(INSTALLED);
    std::fs::create_dir_all(library.parent().unwrap()).unwrap();
    std::fs::write(&library, b"half").unwrap();
    std::fs::create_dir_all(folder.join("tiny/.tmp-left-behind/x")).unwrap();
    assert_eq!(look(&manifest), None);
    assert_eq!(install(&manifest, &folder.0, &url, false).unwrap(), library);
    assert_eq!(look(&manifest), Some(library.clone()));
    assert!(!folder.join("tiny/.tmp-left-behind").exists());
    std::fs::write(&library, b"cut").unwrap();
    assert_eq!(look(&manifest), None, "a library of another length");
    install(&manifest, &folder.0, &url, false).unwrap();
    assert_eq!(look(&manifest_of("abc")), None, "a library from another wheel");
}

#[test]
fn a_record_cannot_point_out_of_its_folder() {
    let (manifest, folder, (_server, url)) = (manifest(&wheel_bytes()), Folder::new(), index());
    let library = install(&manifest, &folder.0, &url, false).unwrap();
    std::fs::copy(&library, folder.join("evil.so")).unwrap();
    let path = folder.join("tiny/1.2+3-x86_64/source.toml");
    let record = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, record.replace(LIBRARY, "../../evil.so")).unwrap();
    assert_eq!(found(&folder.0, &manifest, &Invented::default()), None);
    for broken in ["", "= [", "library = 3"] {
        std::fs::write(&path, broken).unwrap();
        assert_eq!(found(&folder.0, &manifest, &Invented::default()), None);
        assert_eq!(all_installed(Store::Cache(&folder.0)), []);
    }
}

#[test]
fn a_wheel_with_another_hash_leaves_nothing_behind() {
    let (folder, (_server, url)) = (Folder::new(), index());
    let expected = "ab".repeat(32);
    let error = install(&manifest_of(&expected), &folder.0, &url, false).unwrap_err();
    assert_eq!(error.kind(), Kind::Checksum);
    assert!(error.message().contains(&sha256(&wheel_bytes())) && error.message().contains(&expected), "{error}");
    assert!(std::fs::read_dir(&folder.0).unwrap().next().is_none());
}

#[test]
fn a_wheel_without_a_plugin_leaves_nothing_behind() {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    zip.start_file(LIBRARY, zip::write::SimpleFileOptions::default()).unwrap();
    zip.write_all(b"no library").unwrap();
    let bytes = zip.finish().unwrap().into_inner();
    let (manifest, folder) = (manifest(&bytes), Folder::new());
    let server = index_with(FILE, bytes);
    let error = install(&manifest, &folder.0, &format!("{}/simple", server.url), false).unwrap_err();
    assert_eq!(error.kind(), Kind::PluginInvalid, "{error}");
    assert_eq!(names(&folder.join("tiny")), [""; 0]);
}

#[test]
fn an_index_without_the_wheel_creates_no_folder_and_raises_an_error_with_advice() {
    let (manifest, folder) = (manifest_of("ab"), Folder::new());
    let server = index_with("tiny_plugin-9.9-py3-none-any.whl", Vec::new());
    let cache = folder.join("cache");
    let error = install(&manifest, &cache, &format!("{}/simple", server.url), false).unwrap_err();
    assert_eq!(error.kind(), Kind::Download);
    let text = error.to_string();
    assert!(error.message().contains(FILE) && text.contains("Available versions: 9.9."), "{error}");
    assert!(text.contains("PJRT_PLUGIN_PATH_TINY") && text.contains("PJRT_INDEX_URL"), "{error}");
    let wheels = vec!["tiny-plugin==1.2+3".to_string()];
    assert!(error.hints().contains(&Reason::OfflineWheels { name: "tiny".into(), wheels }.into()), "{error}");
    let error = install(&manifest, &cache, &server.url, false).unwrap_err();
    assert!(error.message().contains("/tiny-plugin/>: status 404"), "{error}");
    assert!(!cache.exists());
}

#[test]
fn stopping_keeps_what_is_there_for_the_next_attempt() {
    let (bytes, folder) = (wheel_bytes(), Folder::new());
    let manifest = manifest(&bytes);
    let server = Server::start(move |number, asked, stream| match (number, asked.path.as_str()) {
        (_, "/simple/tiny-plugin/") => reply(stream, "200 OK", "", format!("<a href='/{FILE}'>x</a>").as_bytes()),
        (1, _) => {
            head(stream, "200 OK", "", bytes.len());
            let _ = stream.write_all(&bytes[..1_200_000]);
            std::thread::sleep(Duration::from_secs(20));
        }
        _ => file(asked, stream, &bytes),
    });
    let url = format!("{}/simple", server.url);
    let request = request(&folder.0, &url);
    let plan = Plan::make(&request, &manifest, &Invented::default(), TARGET).unwrap();
    let mut stop = |done, _| done < 1_000_000;
    let error = carry_out(&plan, &request, &Invented::default(), TARGET, limits(), &mut stop).unwrap_err();
    assert_eq!(error.kind(), Kind::Interrupted);
    assert_eq!(names(&folder.join("tiny")), [""; 0]);
    install(&manifest, &folder.0, &url, false).unwrap();
    let starts: Vec<_> = server.asked().iter().filter_map(super::server::Asked::range).collect();
    assert!(matches!(starts[..], [1_000_000..=1_200_000]), "{starts:?}");
    assert!(!folder.join("tiny/.downloads").exists());
}

#[test]
fn a_full_disk_raises_an_error_before_any_download() {
    let (manifest, folder, (server, url)) =
        (manifest_with(&sha256(&wheel_bytes()), "unpacked = 9000000000000000\n"), Folder::new(), index());
    let error = install(&manifest, &folder.0, &url, false).unwrap_err();
    assert_eq!(error.kind(), Kind::Io);
    assert!(error.message().contains("needs 9000000.0 GB") && error.to_string().contains("DiskFull"), "{error}");
    assert_eq!(server.asked().len(), 1);
    assert!(std::fs::read_dir(&folder.0).unwrap().next().is_none());
}

#[test]
fn many_may_install_at_once_and_only_one_downloads() {
    let (manifest, folder, (server, url)) = (manifest(&wheel_bytes()), Folder::new(), index());
    let cache = folder.join("cache");
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..6).map(|_| scope.spawn(|| install(&manifest, &cache, &url, false).unwrap())).collect();
        for one in all {
            assert!(std::fs::read(one.join().unwrap()).unwrap() == library_bytes());
        }
    });
    let downloads = server.asked().iter().filter(|asked| asked.path.starts_with("/files/")).count();
    assert_eq!(downloads, 1);
    assert_eq!(names(&cache.join("tiny")), ["1.2+3-x86_64"]);
}

#[test]
fn many_that_fail_at_once_all_say_why() {
    let (manifest, folder, (_server, url)) = (manifest_of(&"ab".repeat(32)), Folder::new(), index());
    let cache = folder.join("cache");
    std::thread::scope(|scope| {
        let all: Vec<_> =
            (0..6).map(|_| scope.spawn(|| install(&manifest, &cache, &url, false).unwrap_err())).collect();
        for one in all {
            assert_eq!(one.join().unwrap().kind(), Kind::Checksum);
        }
    });
    assert!(!cache.join("tiny").exists());
}

#[test]
fn without_a_lock_the_first_to_finish_wins() {
    let folder = Folder::new();
    let place = InstallFolder::new(Store::Cache(&folder.0), "tiny");
    let record = Record {
        platform: "tiny".to_string(),
        version: "1".to_string(),
        api: None,
        source: "index".to_string(),
        url: String::new(),
        sha256: "ab".to_string(),
        library: "tiny.so".to_string(),
        library_bytes: 1,
        bytes: 1,
    };
    let build = |text: &str| {
        let work = place.workspace().unwrap();
        std::fs::write(work.path.join("tiny.so"), text).unwrap();
        work
    };
    let (first, second, third) = (build("a"), build("b"), build("c"));
    let library = first.publish("1-x", &record, false).unwrap();
    assert_eq!(second.publish("1-x", &record, false).unwrap(), library);
    assert_eq!(std::fs::read(&library.library).unwrap(), b"a");
    assert_eq!(third.publish("1-x", &record, true).unwrap(), library);
    assert_eq!(std::fs::read(&library.library).unwrap(), b"c");
    assert_eq!(names(&folder.join("tiny")), ["1-x"]);
}

#[test]
fn waiting_for_another_process_can_be_stopped() {
    let folder = Folder::new();
    let place = InstallFolder::new(Store::Cache(&folder.0), "tiny");
    let mut go_on = |_, _| true;
    let held = place.lock(&mut Watch::new(&mut go_on)).unwrap();
    assert!(held.is_some(), "this file system has no locks");
    let mut calls = 0;
    let mut stop = |_, _| {
        calls += 1;
        calls < 3
    };
    assert_eq!(place.lock(&mut Watch::new(&mut stop)).unwrap_err().kind(), Kind::Interrupted);
    drop(held);
    assert!(place.lock(&mut Watch::new(&mut go_on)).unwrap().is_some());
}

#[test]
fn a_local_folder_or_the_wheel_itself_serves_as_index() {
    let bytes = wheel_bytes();
    let (folder, manifest) = (Folder::new(), manifest(&bytes));
    let local = folder.join("wheels");
    std::fs::create_dir_all(local.join("tiny-plugin")).unwrap();
    std::fs::write(local.join("tiny-plugin").join("index.html"), "<a href='../files/w.whl#sha256=").unwrap();
    std::fs::write(local.join(FILE), &bytes).unwrap();
    let path = local.to_str().unwrap();
    for (number, index) in [path.to_string(), format!("file://{path}"), format!("{path}/{FILE}")].iter().enumerate() {
        let cache = folder.join(&format!("cache{number}"));
        assert!(std::fs::read(install(&manifest, &cache, index, false).unwrap()).unwrap() == library_bytes());
    }
    std::fs::create_dir(local.join("files")).unwrap();
    std::fs::rename(local.join(FILE), local.join("files/w.whl")).unwrap();
    let page = format!("<a href='../files/w.whl#sha256={}'>w</a>", sha256(&bytes));
    std::fs::write(local.join("tiny-plugin/index.html"), page).unwrap();
    install(&manifest, &folder.join("cache-page"), path, false).unwrap();
}

#[test]
fn a_page_from_the_network_cannot_point_at_a_local_file() {
    let bytes = wheel_bytes();
    let (folder, manifest) = (Folder::new(), manifest(&bytes));
    let local = folder.join(FILE);
    std::fs::write(&local, &bytes).unwrap();
    let page = format!("<a href='file://{}'>w</a>", local.display());
    let server = Server::start(move |_, _, stream| reply(stream, "200 OK", "", page.as_bytes()));
    let error = install(&manifest, &folder.join("cache"), &server.url, false).unwrap_err();
    assert!(error.message().contains("it lists 0 files"), "{error}");
}

#[test]
fn a_users_file_is_installed_unchanged_and_used_from_then_on() {
    let (manifest, folder, (_server, url)) = (manifest(&wheel_bytes()), Folder::new(), index());
    let cache = folder.join("cache");
    let ours = install(&manifest, &cache, &url, false).unwrap();
    let (mine, wheel) = (folder.join("libmine.so"), folder.join("tiny_plugin-7-py3-none-any.whl"));
    std::fs::write(&mine, plugin_bytes()).unwrap();
    std::fs::write(&wheel, wheel_bytes()).unwrap();
    let from_file = |path: &Path| {
        let request = Request { source: PluginSource::File, path: Some(path), ..request(&cache, &url) };
        carry_out_on(&request, &manifest, &Invented::default())
    };
    let look = || found(&cache, &manifest, &Invented::default()).unwrap();
    let installed = from_file(&mine).unwrap();
    assert!(installed.library.ends_with("libmine.so") && installed.record.source == "file");
    assert_eq!(look(), installed.library);
    let installed = from_file(&wheel).unwrap();
    assert!(installed.library.ends_with(LIBRARY) && installed.record.version == "7");
    assert_eq!(look(), installed.library);
    assert_eq!(all_installed(Store::Cache(&cache))[0].library, installed.library, "the user's choice comes first");
    assert_eq!(all_installed(Store::Cache(&cache)).len(), 3);
    assert_eq!(install(&manifest, &cache, &url, false).unwrap(), ours);
    assert_eq!(look(), ours, "the manifest's is used again when it is asked for");
    std::fs::write(&mine, b"no library").unwrap();
    let error = from_file(&mine).unwrap_err();
    assert!(error.kind() == Kind::PluginInvalid && error.message().contains("no PJRT plugin"), "{error}");
    assert_eq!(look(), ours);
}

#[test]
fn a_folder_of_wheels_serves_a_machine_without_a_network() {
    let (folder, wheels) = (Folder::new(), Folder::new());
    let (bytes, cache) = (wheel_bytes(), folder.join("cache"));
    let manifest = manifest(&bytes);
    let from_folder = |version| {
        let request = Request {
            source: PluginSource::File,
            path: Some(&wheels.0),
            version,
            ..request(&cache, "http://127.0.0.1:9")
        };
        carry_out_on(&request, &manifest, &Invented::default())
    };
    let error = from_folder(None).unwrap_err();
    assert!(error.kind() == Kind::Download && error.message().contains("there is no such file"), "{error}");
    std::fs::write(wheels.join(FILE), &bytes).unwrap();
    assert_eq!(from_folder(None).unwrap().record.source, "index");
    std::fs::write(wheels.join("tiny_plugin-2.0-py3-none-linux_x86_64.whl"), &bytes).unwrap();
    assert_eq!(from_folder(Some("2.0")).unwrap().record.version, "2.0");
    std::fs::write(wheels.join(FILE), b"changed").unwrap();
    std::fs::remove_dir_all(&cache).unwrap();
    assert_eq!(from_folder(None).unwrap_err().kind(), Kind::Checksum);
}

#[test]
fn another_version_must_match_the_index() {
    let name = "tiny_plugin-2.0-py3-none-manylinux_2_27_x86_64.whl";
    let (manifest, folder) = (manifest(&wheel_bytes()), Folder::new());
    let server = index_with(name, wheel_bytes());
    let url = format!("{}/simple", server.url);
    let get = |index: &str| {
        let request = Request { version: Some("2.0"), ..request(&folder.0, index) };
        carry_out_on(&request, &manifest, &Invented::default())
    };
    let installed = get(&url).unwrap();
    assert_eq!((&*installed.record.version, installed.record.api.as_deref()), ("2.0", None));
    assert_eq!(found(&folder.0, &manifest, &Invented::default()).unwrap(), installed.library);
    assert_eq!(get(&url).unwrap(), installed);
    assert_eq!(server.asked().iter().filter(|asked| asked.path.starts_with("/files/")).count(), 1);

    let other = Folder::new();
    let unhashed =
        Server::start(move |_, _, stream| reply(stream, "200 OK", "", format!("<a href='{name}'>x</a>").as_bytes()));
    let request = Request { version: Some("2.0"), ..request(&other.0, &unhashed.url) };
    let error = carry_out_on(&request, &manifest, &Invented::default()).unwrap_err();
    assert!(error.message().contains("has the SHA-256 of"), "{error}");
}

#[test]
fn a_url_variable_is_installed_and_used_while_it_is_set() {
    let mut tar = tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    let bytes = plugin_bytes();
    let mut header = tar::Header::new_gnu();
    header.set_size(bytes.len() as u64);
    header.set_mode(0o644);
    tar.append_data(&mut header, "pjrt/lib/libpjrt_tiny.so", bytes.as_slice()).unwrap();
    let archive = tar.into_inner().unwrap().finish().unwrap();
    let hash = sha256(&archive);
    let server = Server::start(move |_, asked, stream| match asked.path.as_str() {
        "/p.tar.gz?token=secret" => reply(stream, "302 Found", "Location: /real.tar.gz\r\n", b""),
        "/real.tar.gz" => file(asked, stream, &archive),
        _ => reply(stream, "404 Not Found", "", b""),
    });
    let (manifest, folder) = (manifest(&wheel_bytes()), Folder::new());
    let url = format!("{}/p.tar.gz?token=secret", server.url.replace("://", "://me:secret@"));
    let machine = |url: String| {
        let mut machine = Invented::default();
        machine.variables.insert("PJRT_PLUGIN_URL_TINY", url.leak());
        machine
    };
    let get = |machine: &Invented| carry_out_on(&request(&folder.0, "http://127.0.0.1:9"), &manifest, machine);
    let good = machine(format!("{url}#sha256={hash}"));
    assert_eq!(found(&folder.0, &manifest, &good), None);
    let installed = get(&good).unwrap();
    assert!(installed.library.ends_with("pjrt/lib/libpjrt_tiny.so") && installed.record.source == "url");
    assert_eq!(found(&folder.0, &manifest, &good).unwrap(), installed.library);
    assert_eq!(get(&good).unwrap(), installed);
    assert_eq!(server.asked().len(), 2);
    assert_eq!(found(&folder.0, &manifest, &Invented::default()), None, "the variable is not set any more");
    assert_eq!(found(&folder.0, &manifest, &machine(format!("{}/other.so", server.url))), None);
    let text = contents(&folder.0);
    assert!(!text.contains("secret") && text.contains("***@"), "{text}");
    let wrong = machine(format!("{url}#sha256={}", "ab".repeat(32)));
    assert_eq!(found(&folder.0, &manifest, &wrong), None, "what is there is not what the variable says now");
    let error = get(&wrong).unwrap_err();
    assert!(error.kind() == Kind::Checksum && !error.to_string().contains("secret"), "{error}");
    let error = get(&machine(format!("{}/gone.so", server.url))).unwrap_err();
    assert!(error.message().contains("status 404"), "{error}");
    assert_eq!(error.hints().iter().filter(|hint| hint.contains("PJRT_PLUGIN_PATH_TINY")).count(), 1, "{error}");
    let error = get(&machine(format!("{url}#sha256=../x"))).unwrap_err();
    assert!(error.kind() == Kind::InvalidInput && error.message().contains("\"#sha256=../x\""), "{error}");
}

/// The names of all files below a folder, and the contents of small ones.
pub(super) fn contents(root: &Path) -> String {
    let mut text = String::new();
    for entry in std::fs::read_dir(root).unwrap().flatten() {
        text += &format!("{}\n", entry.path().display());
        if entry.path().is_dir() {
            text += &contents(&entry.path());
        } else if entry.metadata().unwrap().len() < 10_000 {
            text += &String::from_utf8_lossy(&std::fs::read(entry.path()).unwrap());
        }
    }
    text
}

#[test]
fn an_uninstalled_plugin_is_gone() {
    let (manifest, folder, (_server, url)) = (manifest(&wheel_bytes()), Folder::new(), index());
    let mine = folder.join("libmine.so");
    std::fs::write(&mine, plugin_bytes()).unwrap();
    let cache = folder.join("cache");
    let ours = install(&manifest, &cache, &url, false).unwrap();
    let own = Request { source: PluginSource::File, path: Some(&mine), ..request(&cache, &url) };
    let own = carry_out_on(&own, &manifest, &Invented::default()).unwrap();
    let remove = |version| {
        let gone = uninstall("tiny", version, &cache, &manifest, &mut |_, _| true).unwrap();
        gone.into_iter().map(|(folder, bytes)| (bytes > 0).then_some(folder).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(remove(Some("9")), [] as [PathBuf; 0]);
    assert_eq!(remove(Some("")), [cache.join("tiny").join(own.library.parent().unwrap().file_name().unwrap())]);
    assert_eq!(found(&cache, &manifest, &Invented::default()), Some(ours), "the choice went with it");
    std::fs::create_dir(cache.join("tiny/mine")).unwrap();
    assert_eq!(remove(None), [cache.join("tiny/1.2+3-x86_64")]);
    std::fs::remove_dir(cache.join("tiny/mine")).unwrap();
    assert_eq!(remove(None), [] as [PathBuf; 0]);
    assert_eq!(found(&cache, &manifest, &Invented::default()), None);
    assert!(!cache.join("tiny").exists());
    assert_eq!(remove(None), [] as [PathBuf; 0]);
}

#[test]
fn libraries_that_a_plugin_needs_are_unpacked_beside_it_in_their_wheels_layout() {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for name in ["nvidia/cu13/lib/libcublas.so.13", "nvidia/cu13/include/cublas.h"] {
        zip.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(b"library").unwrap();
    }
    let (needed, bytes) = (zip.finish().unwrap().into_inner(), wheel_bytes());
    let name = "nvidia_cublas-1-py3-none-any.whl";
    let manifest = manifest_with(
        &sha256(&bytes),
        &format!(
            "cuda = 13\nbytes = {}\n[[library]]\ncuda = 13\narch = 'x86_64'\nproject = 'nvidia-cublas'\nversion = '1'\n\
             file = '{name}'\nsha256 = '{}'\nbytes = {}\nunpacked = 7\n",
            bytes.len(),
            sha256(&needed),
            needed.len()
        ),
    );
    let (folder, wheels) = (Folder::new(), Folder::new());
    std::fs::write(wheels.join(FILE), &bytes).unwrap();
    std::fs::write(wheels.join(name), &needed).unwrap();
    let index = wheels.0.to_str().unwrap();
    let request = Request { name: "tiny13", ..request(&folder.0, index) };
    let plan = Plan::make(&request, &manifest, &Invented::default(), TARGET).unwrap();
    let mut reported = Vec::new();
    let mut listen = |done, total| {
        reported.push((done, total));
        true
    };
    let installed = carry_out(&plan, &request, &Invented::default(), TARGET, limits(), &mut listen).unwrap();
    let root = folder.join("tiny/1.2+3-tiny13-x86_64");
    assert_eq!(installed.library, root.join(LIBRARY));
    assert_eq!(std::fs::read(root.join("nvidia/cu13/lib/libcublas.so.13")).unwrap(), b"library");
    assert!(!root.join("nvidia/cu13/include").exists());
    assert_eq!(installed.record.bytes, library_bytes().len() as u64 + 7);
    let remove = |name| {
        let gone = uninstall(name, None, &folder.0, &manifest, &mut |_, _| true).unwrap();
        gone.into_iter().map(|(folder, _)| folder).collect::<Vec<_>>()
    };
    assert_eq!(remove("tiny12"), [] as [PathBuf; 0]);
    assert_eq!(remove("tiny13"), std::slice::from_ref(&root));
    assert!(!folder.join("tiny").exists());
    let whole = (bytes.len() + needed.len()) as u64;
    assert!(reported.iter().all(|(done, total)| *done <= whole && *total == Some(whole)), "{reported:?}");
    assert_eq!(reported.last().unwrap().0, whole);
    assert!(reported.windows(2).all(|pair| pair[0].0 <= pair[1].0));
}

#[test]
fn the_index_is_found_only_when_something_is_to_be_fetched() {
    let (manifest, folder, (_server, url)) = (manifest(&wheel_bytes()), Folder::new(), index());
    install(&manifest, &folder.0, &url, false).unwrap();
    let request = Request { index_url: None, ..request(&folder.0, "") };
    carry_out_on(&request, &manifest, &Invented::default()).unwrap();
    let error = index::find(None, &Invented::default(), &mut Watch::new(&mut |_, _| true)).unwrap_err();
    assert_eq!(error.kind(), Kind::Download);
}

#[test]
fn a_missing_version_is_reported_with_the_newest_ones() {
    let (manifest, folder) = (manifest(&wheel_bytes()), Folder::new());
    let local = folder.join("wheels");
    std::fs::create_dir_all(&local).unwrap();
    for version in ["0.9", "0.10", "0.2.1"] {
        std::fs::write(local.join(format!("tiny_plugin-{version}-py3-none-any.whl")), "").unwrap();
    }
    let cache = folder.join("cache");
    let request = Request { version: Some("7"), ..request(&cache, local.to_str().unwrap()) };
    let error = carry_out_on(&request, &manifest, &Invented::default()).unwrap_err();
    assert_eq!(error.kind(), Kind::PluginNotFound, "{error}");
    let text = error.to_string();
    assert!(
        text.contains("no version 7 of tiny-plugin") && text.contains("Available versions: 0.2.1, 0.9, 0.10."),
        "{error}"
    );
    assert!(!text.contains("PJRT_INDEX_URL") && !text.contains("pip download"), "{error}");
}
