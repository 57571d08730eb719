//! From the index to the library in the cache, with all that can go wrong on the way.

use super::super::{install_wheel, place::Place, unpack, Request};
use super::server::{file, reply, Server};
use super::*;
use crate::error::Kind;
use std::sync::Arc;

/// An index with one project and its one file.
fn index(wheel: Wheel, bytes: Arc<Vec<u8>>) -> Server {
    Server::start(move |_, asked, stream| {
        let name = wheel.file.replace('+', "%2B");
        match asked.path.as_str() {
            "/simple/tiny-plugin/" => {
                let page = format!("<html><a href='../../files/{name}#sha256=0'>{}</a></html>", wheel.file);
                reply(stream, "200 OK", "Content-Type: text/html\r\n", page.as_bytes());
            }
            path if path == format!("/files/{name}") => file(asked, stream, &bytes),
            _ => reply(stream, "404 Not Found", "", b""),
        }
    })
}

fn install(wheel: &Wheel, cache: &Path, index: &str, force: bool) -> Result<PathBuf> {
    let request = Request { platform: wheel.platform, cache_dir: cache, index_url: Some(index), force };
    install_wheel(wheel, &request, &Invented::default(), limits(), &mut |_, _| true)
}

/// The names in a folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_plugin_is_installed_once_and_found_again() {
    let bytes = Arc::new(wheel_bytes());
    let wheel = manifest(&bytes);
    let server = index(wheel, bytes);
    let (folder, url) = (Folder::new(), format!("{}/simple", server.url));
    let cache = folder.join("cache");
    let library = install(&wheel, &cache, &url.replace("://", "://me:secret@"), false).unwrap();
    assert_eq!(library, cache.join("tiny/1.2+3-x86_64/tiny.so"));
    assert!(std::fs::read(&library).unwrap() == library_bytes());
    assert_eq!(names(&cache.join("tiny")), ["1.2+3-x86_64"]);
    assert_eq!(names(library.parent().unwrap()), ["source.toml", "tiny.so"]);
    let record = std::fs::read_to_string(library.with_file_name("source.toml")).unwrap();
    assert!(
        record.contains(wheel.sha256) && record.contains("***@127.0.0.1") && !record.contains("secret"),
        "{record}"
    );

    let asked = server.asked();
    assert_eq!(asked.len(), 2);
    assert!(asked[0].header("accept").unwrap().contains("application/vnd.pypi.simple.v1+json"));
    assert!(asked.iter().all(|request| request.header("authorization").is_some()));
    assert_eq!(install(&wheel, &cache, &url, false).unwrap(), library);
    assert_eq!(server.asked().len(), 2, "what is installed is not asked for again");
    assert_eq!(install(&wheel, &cache, &url, true).unwrap(), library);
    assert_eq!(server.asked().len(), 4, "unless forced");
    assert_eq!(names(&cache.join("tiny")), ["1.2+3-x86_64"]);
}

#[cfg(unix)]
#[test]
fn nobody_else_may_write_what_is_installed() {
    use std::os::unix::fs::PermissionsExt;
    let bytes = Arc::new(wheel_bytes());
    let wheel = manifest(&bytes);
    let server = index(wheel, bytes);
    let folder = Folder::new();
    let library = install(&wheel, &folder.join("cache"), &format!("{}/simple/", server.url), false).unwrap();
    for path in library.ancestors().take(4).chain([library.with_file_name("source.toml").as_path()]) {
        let mode = std::fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode & 0o022, 0, "{} {mode:o}", path.display());
    }
}

#[test]
fn an_incomplete_folder_is_not_taken_for_a_plugin_and_is_replaced() {
    let bytes = Arc::new(wheel_bytes());
    let wheel = manifest(&bytes);
    let server = index(wheel, bytes);
    let (folder, url) = (Folder::new(), format!("{}/simple", server.url));
    let place = Place::new(&folder.0, &wheel);
    let library = folder.join("tiny/1.2+3-x86_64/tiny.so");
    std::fs::create_dir_all(library.parent().unwrap()).unwrap();
    std::fs::write(&library, b"half").unwrap();
    std::fs::create_dir_all(folder.join("tiny/.tmp-left-behind/x")).unwrap();
    assert_eq!(place.library(), None);
    assert_eq!(install(&wheel, &folder.0, &url, false).unwrap(), library);
    assert_eq!(place.library(), Some(library.clone()));
    assert_eq!(names(&folder.join("tiny")), ["1.2+3-x86_64"]);
    std::fs::write(&library, b"cut").unwrap();
    assert_eq!(place.library(), None, "a library of another length");
    install(&wheel, &folder.0, &url, false).unwrap();
    let other = Wheel { sha256: CPU_HASH, ..wheel };
    assert_eq!(Place::new(&folder.0, &other).library(), None, "a library from another wheel");
}

const CPU_HASH: &str = super::super::CPU.sha256;

#[test]
fn a_wheel_with_another_hash_leaves_nothing_behind() {
    let bytes = Arc::new(wheel_bytes());
    let wheel = Wheel { sha256: CPU_HASH, ..manifest(&bytes) };
    let server = index(wheel, bytes.clone());
    let folder = Folder::new();
    let error = install(&wheel, &folder.0, &format!("{}/simple", server.url), false).unwrap_err();
    assert_eq!(error.kind(), Kind::Checksum);
    assert!(error.message().contains(&sha256(&bytes)) && error.message().contains(CPU_HASH), "{error}");
    assert_eq!(names(&folder.0), [""; 0]);
}

#[test]
fn an_index_without_the_wheel_makes_no_folder_and_says_what_it_lacks() {
    let wheel = manifest(b"");
    let server = index(Wheel { file: "tiny_plugin-9.9-py3-none-any.whl", ..wheel }, Arc::new(Vec::new()));
    let folder = Folder::new();
    let cache = folder.join("cache");
    let error = install(&wheel, &cache, &format!("{}/simple", server.url), false).unwrap_err();
    assert_eq!(error.kind(), Kind::Download);
    assert!(error.message().contains(wheel.file), "{error}");
    assert!(error.to_string().contains("PJRT_PLUGIN_PATH_TINY"), "{error}");
    let error = install(&wheel, &cache, &server.url, false).unwrap_err();
    assert!(error.message().contains("/tiny-plugin/>: status 404"), "{error}");
    assert!(!cache.exists());
}

#[test]
fn stopping_leaves_nothing_behind() {
    let bytes = Arc::new(wheel_bytes());
    let wheel = manifest(&bytes);
    let server = index(wheel, bytes);
    let (folder, url) = (Folder::new(), format!("{}/simple", server.url));
    let request = Request { platform: "tiny", cache_dir: &folder.0, index_url: Some(&url), force: false };
    let error = install_wheel(&wheel, &request, &Invented::default(), limits(), &mut |done, _| done < 1_000_000);
    assert_eq!(error.unwrap_err().kind(), Kind::Interrupted);
    assert_eq!(names(&folder.0), [""; 0]);
}

#[test]
fn many_may_install_at_once_and_only_one_downloads() {
    let bytes = Arc::new(wheel_bytes());
    let wheel = manifest(&bytes);
    let server = index(wheel, bytes);
    let (folder, url) = (Folder::new(), format!("{}/simple", server.url));
    let cache = folder.join("cache");
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..6).map(|_| scope.spawn(|| install(&wheel, &cache, &url, false).unwrap())).collect();
        for one in all {
            assert!(std::fs::read(one.join().unwrap()).unwrap() == library_bytes());
        }
    });
    let downloads = server.asked().iter().filter(|asked| asked.path.starts_with("/files/")).count();
    assert_eq!(downloads, 1);
    assert_eq!(names(&cache.join("tiny")), ["1.2+3-x86_64"]);
}

#[test]
fn without_a_lock_the_first_to_finish_wins() {
    let (folder, wheel) = (Folder::new(), manifest(b"x"));
    let place = Place::new(&folder.0, &wheel);
    let build = |text: &str| {
        let work = place.workspace().unwrap();
        std::fs::write(work.path().join("tiny.so"), text).unwrap();
        work
    };
    let (first, second, third) = (build("a"), build("b"), build("c"));
    let library = first.publish(1, "url", false).unwrap();
    assert_eq!(second.publish(1, "url", false).unwrap(), library);
    assert_eq!(std::fs::read(&library).unwrap(), b"a");
    assert_eq!(third.publish(1, "url", true).unwrap(), library);
    assert_eq!(std::fs::read(&library).unwrap(), b"c");
    assert_eq!(names(&folder.join("tiny")), ["1.2+3-x86_64"]);
}

#[test]
fn waiting_for_another_process_can_be_stopped() {
    let (folder, wheel) = (Folder::new(), manifest(b"x"));
    let place = Place::new(&folder.0, &wheel);
    let mut go_on = |_, _| true;
    let held = place.lock(&mut Watch::new(&mut go_on)).unwrap();
    if held.is_none() {
        return; // this file system has no locks
    }
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
    let (folder, wheel) = (Folder::new(), manifest(&bytes));
    let local = folder.join("wheels");
    std::fs::create_dir_all(local.join("tiny-plugin")).unwrap();
    std::fs::write(local.join("tiny-plugin").join("index.html"), "<a href='../files/w.whl#sha256=").unwrap();
    std::fs::write(local.join(wheel.file), &bytes).unwrap();
    let path = local.to_str().unwrap();
    for (number, index) in
        [path.to_string(), format!("file://{path}"), format!("{path}/{}", wheel.file)].iter().enumerate()
    {
        let cache = folder.join(&format!("cache{number}"));
        assert!(std::fs::read(install(&wheel, &cache, index, false).unwrap()).unwrap() == library_bytes());
    }
    std::fs::create_dir(local.join("files")).unwrap();
    std::fs::rename(local.join(wheel.file), local.join("files/w.whl")).unwrap();
    let page = format!("<a href='../files/w.whl#sha256={}'>w</a>", wheel.sha256);
    std::fs::write(local.join("tiny-plugin/index.html"), page).unwrap();
    install(&wheel, &folder.join("cache-page"), path, false).unwrap();
}

#[test]
fn a_page_from_the_network_cannot_point_at_a_local_file() {
    let bytes = wheel_bytes();
    let (folder, wheel) = (Folder::new(), manifest(&bytes));
    let local = folder.join(wheel.file);
    std::fs::write(&local, &bytes).unwrap();
    let page = format!("<a href='file://{}'>w</a>", local.display());
    let server = Server::start(move |_, _, stream| reply(stream, "200 OK", "", page.as_bytes()));
    let error = install(&wheel, &folder.join("cache"), &server.url, false).unwrap_err();
    assert!(error.message().contains("it lists 0 files"), "{error}");
}

#[test]
fn only_the_named_member_of_a_wheel_is_written() {
    let folder = Folder::new();
    let (wheel, to) = (folder.join("w.whl"), folder.join("out.so"));
    std::fs::write(&wheel, wheel_bytes()).unwrap();
    let mut go_on = |_, _| true;
    let length = unpack::extract(&wheel, LIBRARY, &to, &mut Watch::new(&mut go_on)).unwrap();
    assert_eq!(length, library_bytes().len() as u64);
    assert!(std::fs::read(&to).unwrap() == library_bytes());
    assert_eq!(names(&folder.0), ["out.so", "w.whl"]);
}

#[test]
fn a_wheel_that_is_broken_or_lacks_the_library_is_refused() {
    let folder = Folder::new();
    let bytes = wheel_bytes();
    let mut damaged = bytes.clone();
    damaged[bytes.len() / 2] ^= 1;
    let mut go_on = |_, _| true;
    let cases: [(&[u8], &str); 4] =
        [(&bytes, "../w.whl"), (&bytes[..bytes.len() / 2], LIBRARY), (&damaged, LIBRARY), (b"", LIBRARY)];
    for (number, (content, member)) in cases.into_iter().enumerate() {
        let wheel = folder.join(&format!("{number}.whl"));
        std::fs::write(&wheel, content).unwrap();
        let to = folder.join(&format!("{number}.so"));
        let error = unpack::extract(&wheel, member, &to, &mut Watch::new(&mut go_on)).unwrap_err();
        assert_eq!(error.kind(), Kind::PluginInvalid, "{error}");
        assert!(error.message().contains(member), "{error}");
    }
}
