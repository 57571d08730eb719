//! Files are extracted from archives, and never to the wrong place.

use super::super::unpack;
use super::*;
use pjrt_base::error::Kind;

fn unpack_bytes(bytes: &[u8], members: &[&str]) -> (Folder, Result<u64>) {
    let folder = Folder::new();
    let (from, to) = (folder.join("archive"), folder.join("deep/out"));
    std::fs::write(&from, bytes).unwrap();
    std::fs::create_dir_all(&to).unwrap();
    let members: Vec<_> = members.iter().map(ToString::to_string).collect();
    let mut go_on = |_, _| true;
    let result = unpack::unpack(unpack::LIMITS, &from, "archive.bin", &members, &to, &mut Watch::new(&mut go_on));
    (folder, result)
}

/// All files below a folder.
fn tree(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root).into_iter().flatten().flatten() {
        let name = entry.file_name().into_string().unwrap();
        if entry.path().is_dir() {
            found.extend(tree(&entry.path()).into_iter().map(|below| format!("{name}/{below}")));
        } else {
            found.push(name);
        }
    }
    found.sort();
    found
}

fn zip(files: &[(&str, &str)]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, text) in files {
        let mode = if name.ends_with("ptxas") { 0o777 } else { 0o666 };
        zip.start_file(*name, zip::write::SimpleFileOptions::default().unix_permissions(mode)).unwrap();
        zip.write_all(text.as_bytes()).unwrap();
    }
    zip.add_symlink("lib/link.so", "/etc/passwd", zip::write::SimpleFileOptions::default()).unwrap();
    zip.finish().unwrap().into_inner()
}

/// A compressed tar archive. Names are stored unchanged.
fn tar(files: &[(&str, &str)]) -> Vec<u8> {
    let mut tar = tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    for (name, text) in files {
        let mut header = tar::Header::new_gnu();
        header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
        header.set_size(text.len() as u64);
        header.set_mode(0o666);
        header.set_cksum();
        tar.append(&header, text.as_bytes()).unwrap();
    }
    let mut link = tar::Header::new_gnu();
    link.set_entry_type(tar::EntryType::Symlink);
    link.set_size(0);
    tar.append_link(&mut link, "lib/link.so", "/etc/passwd").unwrap();
    tar.into_inner().unwrap().finish().unwrap()
}

#[test]
fn every_file_needed_at_run_time_is_unpacked() {
    let files = [
        ("nvidia/cu13/lib/libx.so.1", "1"),
        ("nvidia/cu13/bin/ptxas", "2"),
        ("nvidia/cu13/include/x.txt", "3"),
        ("nvidia/cu13/lib/libx.a", "4"),
        ("nvidia/__init__.py", "5"),
        ("x-1.dist-info/RECORD", "6"),
        ("x.h", "7"),
    ];
    for bytes in [zip(&files), tar(&files)] {
        let (folder, result) = unpack_bytes(&bytes, &[]);
        assert_eq!(result.unwrap(), 2);
        let out = folder.join("deep/out");
        assert_eq!(tree(&out), ["nvidia/cu13/bin/ptxas", "nvidia/cu13/lib/libx.so.1"]);
        assert_eq!(std::fs::read(out.join("nvidia/cu13/lib/libx.so.1")).unwrap(), b"1");
    }
}

#[cfg(unix)]
#[test]
fn executable_files_stay_executable_and_writable_only_by_their_owner() {
    use std::os::unix::fs::PermissionsExt;
    let (folder, result) = unpack_bytes(&zip(&[("bin/ptxas", "1"), ("lib/a.so", "2")]), &[]);
    result.unwrap();
    let mode = |name: &str| std::fs::metadata(folder.join("deep/out").join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("bin/ptxas") & 0o122, mode("lib/a.so") & 0o122, mode("lib") & 0o022), (0o100, 0, 0));
}

#[test]
fn no_name_leads_out_of_the_folder() {
    for name in ["../evil.so", "a/../../evil.so", "/evil.so", "a//evil.so", "a/./evil.so", "C:evil.so", "a\\evil.so"] {
        for bytes in [zip(&[(name, "x")]), tar(&[(name, "x")])] {
            let (folder, result) = unpack_bytes(&bytes, &[]);
            let error = result.unwrap_err();
            assert_eq!(error.kind(), Kind::PluginInvalid);
            assert!(error.message().contains("outside its folder"), "{error}");
            assert_eq!(tree(&folder.0), ["archive"], "{name}");
        }
    }
}

#[test]
fn an_unterminated_name_is_not_read() {
    let mut tar = tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::GNULongName);
    header.set_size(2 << 20);
    header.set_cksum();
    tar.append(&header, vec![b'x'; 2 << 20].as_slice()).unwrap();
    let mut header = tar::Header::new_gnu();
    header.set_size(1);
    tar.append_data(&mut header, "a.so", &b"x"[..]).unwrap();
    let error = unpack_bytes(&tar.into_inner().unwrap().finish().unwrap(), &[]).1.unwrap_err();
    assert!(error.kind() == Kind::PluginInvalid && error.message().contains("a name in it is too long"), "{error}");
}

#[test]
fn reading_past_what_is_not_wanted_can_be_stopped() {
    let folder = Folder::new();
    std::fs::write(folder.join("x"), tar(&[("a.py", "x"), ("a.so", "x")])).unwrap();
    let mut calls = 0;
    let mut stop = |_, _| {
        calls += 1;
        false
    };
    let mut watch = Watch::new(&mut stop);
    std::thread::sleep(super::super::watch::SLICE);
    let error =
        unpack::unpack(unpack::LIMITS, &folder.join("x"), "x", &[], &folder.join("out"), &mut watch).unwrap_err();
    assert_eq!(error.kind(), Kind::Interrupted);
    assert!(!folder.join("out").exists());
}

#[test]
fn only_the_named_members_are_written() {
    let (folder, result) = unpack_bytes(&wheel_bytes(), &[LIBRARY]);
    assert_eq!(result.unwrap(), library_bytes().len() as u64);
    assert_eq!(tree(&folder.join("deep/out")), [LIBRARY]);
    assert!(std::fs::read(folder.join("deep/out").join(LIBRARY)).unwrap() == library_bytes());
}

#[test]
fn an_archive_that_is_broken_or_lacks_a_member_is_refused() {
    let bytes = wheel_bytes();
    let mut damaged = bytes.clone();
    damaged[bytes.len() / 2] ^= 1;
    let tarred = tar(&[("a.so", "some text")]);
    let cases: [(&[u8], &[&str], &str); 5] = [
        (&bytes, &["gone.so"], "it does not contain \"gone.so\""),
        (&bytes[..bytes.len() / 2], &[LIBRARY], "archive.bin"),
        (&damaged, &[LIBRARY], LIBRARY),
        (&damaged, &[], LIBRARY),
        (&tarred[..tarred.len() / 2], &[], "archive.bin"),
    ];
    for (content, members, text) in cases {
        let error = unpack_bytes(content, members).1.unwrap_err();
        assert_eq!(error.kind(), Kind::PluginInvalid, "{error}");
        assert!(error.message().contains(text), "{error}");
    }
}

#[test]
fn a_file_that_is_not_an_archive_counts_as_the_library() {
    let (folder, result) = unpack_bytes(b"no archive", &[]);
    assert_eq!(result.unwrap(), 10);
    assert_eq!(tree(&folder.join("deep/out")), ["archive.bin"]);
    assert_eq!(unpack_bytes(b"", &[]).1.unwrap(), 0);
}

#[test]
fn an_archive_larger_than_its_limit_is_refused() {
    let limits = unpack::Limits { file: 10, all: 15, files: 3 };
    let cases: [(&[(&str, &str)], &str); 3] = [
        (&[("a", "12345678901")], "\"a\" is larger than any library"),
        (&[("a", "1234567890"), ("b", "1234567890")], "\"b\" is larger than any library"),
        (&[("a", "1"), ("b", "2"), ("c", "3"), ("d", "4")], "more than 3 files"),
    ];
    for (files, text) in cases {
        for bytes in [zip(files), tar(files)] {
            let (from, to) = (Folder::new(), Folder::new());
            std::fs::write(from.join("x"), bytes).unwrap();
            let mut go_on = |_, _| true;
            let watch = &mut Watch::new(&mut go_on);
            let error = unpack::unpack(limits, &from.join("x"), "x", &[], &to.0, watch).unwrap_err();
            assert!(error.kind() == Kind::PluginInvalid && error.message().contains(text), "{error}");
        }
    }
}
