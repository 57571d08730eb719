//! The cache is protected from servers, other users, and other processes.

use super::super::index::ThisMachine;
use super::super::place::InstallFolder;
#[cfg(unix)]
use super::super::refused;
use super::super::{all_installed, Store};
use super::installing::{contents, index, install};
use super::server::{head, reply, Server};
use super::*;
use pjrt_base::error::Kind;

#[test]
fn a_page_cannot_choose_where_the_download_is_written() {
    let folder = Folder::new();
    let (victim, cache) = (folder.join("victim"), folder.join("cache"));
    std::fs::write(&victim, b"mine").unwrap();
    let name = "tiny_plugin-2.0-py3-none-manylinux_2_27_x86_64.whl";
    let hash = victim.display().to_string();
    for page in [
        format!("<a href='/files/{name}#sha256={hash}'>x</a>"),
        format!("{{\"files\": [{{\"filename\": \"{name}\", \"url\": \"/files/x\", \"hashes\": {{\"sha256\": \"{hash}\"}}}}]}}"),
    ] {
        let server = Server::start(move |_, asked, stream| match asked.path.as_str() {
            path if path.starts_with("/files/") => reply(stream, "200 OK", "", b"evil"),
            _ => reply(stream, "200 OK", "", page.as_bytes()),
        });
        let request = Request { version: Some("2.0"), ..request(&cache, &server.url) };
        let error = carry_out_on(&request, &manifest(b"x"), &Invented::default()).unwrap_err();
        assert!(error.message().contains("has the SHA-256 of"), "{error}");
        assert_eq!(std::fs::read(&victim).unwrap(), b"mine");
    }
}

#[test]
fn a_partial_download_that_cannot_be_continued_is_removed() {
    let server = Server::start(|_, asked, stream| match asked.path.as_str() {
        "/half.so" => head(stream, "200 OK", "", 10),
        _ => reply(stream, "404 Not Found", "", b""),
    });
    for name in ["half.so", "gone.so", "gone.so#sha256=ab"] {
        let folder = Folder::new();
        let mut machine = Invented::default();
        machine.variables.insert("PJRT_PLUGIN_URL_TINY", format!("{}/{name}", server.url).leak());
        let error = carry_out_on(&request(&folder.0, ""), &manifest(b"x"), &machine).unwrap_err();
        assert_eq!(error.kind(), Kind::Download);
        assert_eq!(contents(&folder.0), "", "{name}");
    }
}

#[test]
fn only_files_are_read() {
    let folder = Folder::new();
    let mut machine = Invented::default();
    machine.variables.insert("PJRT_PLUGIN_URL_TINY", "file:///dev/zero");
    let error = carry_out_on(&request(&folder.join("cache"), ""), &manifest(b"x"), &machine).unwrap_err();
    assert!(error.kind() == Kind::Io && error.message().contains("is not a file"), "{error}");
    assert_eq!(ThisMachine.read(Path::new("/dev/zero")), None);
}

#[test]
fn entries_being_written_or_removed_are_not_listed() {
    let (manifest, folder, (_server, url)) = (manifest(&wheel_bytes()), Folder::new(), index());
    install(&manifest, &folder.0, &url, false).unwrap();
    assert_eq!(all_installed(Store::Cache(&folder.0)).len(), 1);
    std::fs::rename(folder.join("tiny/1.2+3-x86_64"), folder.join("tiny/.tmp-1")).unwrap();
    assert_eq!(all_installed(Store::Cache(&folder.0)), []);
}

#[cfg(unix)]
#[test]
fn the_platforms_folder_may_be_a_link() {
    let (manifest, folder, (server, url)) = (manifest(&wheel_bytes()), Folder::new(), index());
    std::fs::create_dir(folder.join("elsewhere")).unwrap();
    std::os::unix::fs::symlink("elsewhere", folder.join("tiny")).unwrap();
    let library = install(&manifest, &folder.0, &url, false).unwrap();
    assert_eq!(found(&folder.0, &manifest, &Invented::default()), Some(library));
    assert_eq!(server.asked().len(), 2);
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(folder.join("elsewhere"), open).unwrap();
    assert_eq!(found(&folder.0, &manifest, &Invented::default()), None, "others may write to where it leads");
}

#[cfg(unix)]
#[test]
fn nothing_is_downloaded_into_another_users_folder() {
    let (manifest, folder, (server, url)) = (manifest(&wheel_bytes()), Folder::new(), index());
    std::fs::create_dir(folder.join("tiny")).unwrap();
    // Only root can give a folder away.
    if std::os::unix::fs::chown(folder.join("tiny"), Some(12345), None).is_err() {
        return;
    }
    let error = install(&manifest, &folder.0, &url, false).unwrap_err();
    assert!(error.message().contains("another user (uid 12345) owns"), "{error}");
    assert!(server.asked().iter().all(|asked| !asked.path.starts_with("/files/")));
}

#[cfg(unix)]
#[test]
fn a_plugin_that_others_could_have_changed_is_refused_with_the_reason() {
    let (manifest, folder, (_server, url)) = (manifest(&wheel_bytes()), Folder::new(), index());
    install(&manifest, &folder.0, &url, false).unwrap();
    let set_mode = |path: &Path, mode| {
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    };
    let cache = Store::Cache(&folder.0);
    let site = Store::Site { folder: &folder.0, package: Path::new("/") };
    let reasons = |store| refused(store).into_iter().map(|(_, reason)| reason).collect::<Vec<_>>();
    assert_eq!((reasons(cache), reasons(site)), (vec![], vec![]));
    let tiny = folder.join("tiny");
    for (mode, who) in [(0o775, "its group"), (0o777, "every user")] {
        set_mode(&tiny, mode);
        let reason = format!("{who} can write to '{}' (mode {mode:o})", tiny.display());
        assert_eq!((reasons(cache), reasons(site)), (vec![reason.clone()], vec![reason]));
        assert_eq!((all_installed(cache), all_installed(site)), (vec![], vec![]));
    }
    set_mode(&tiny, 0o755);
    // Others could replace the platform's folder.
    set_mode(&folder.0, 0o775);
    assert_eq!((reasons(cache).len(), reasons(site).len()), (1, 1));
    set_mode(&folder.0, 0o755);
    // Only root can give a folder away.
    if std::os::unix::fs::chown(&folder.0, Some(12345), None).is_ok() {
        assert_eq!(all_installed(cache), [], "anyone could have created the folder of a cache in a shared one");
        assert_eq!(all_installed(site), [], "the owner of a site's folder is not");
        let package = Store::Site { folder: &folder.0, package: &folder.0 };
        assert_eq!(all_installed(package).len(), 1, "unless the package is theirs");
    }
}

#[test]
fn a_lock_can_be_taken_while_others_remove_the_folder() {
    let folder = Folder::new();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let place = InstallFolder::new(Store::Cache(&folder.0), "tiny");
                for _ in 0..1000 {
                    let _lock = place.lock(&mut Watch::new(&mut |_, _| true)).unwrap();
                    place.leave_if_empty();
                }
            });
        }
    });
}
