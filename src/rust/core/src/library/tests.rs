use super::*;
use std::process::Command;

const SOURCE: &str = "int GetPjrtApi(void) { return 1; } int other(void) { return 2; }";

/// A small library that the C compiler has just made.
fn built(source: &str, flags: &[&str]) -> Vec<u8> {
    let folder = std::env::temp_dir().join(format!("pjrt-library-{}-{:p}", std::process::id(), &source));
    std::fs::create_dir_all(&folder).unwrap();
    let (code, library) = (folder.join("a.c"), folder.join("a.so"));
    std::fs::write(&code, source).unwrap();
    let done = Command::new("cc").args(flags).arg("-o").arg(&library).arg(&code).status().unwrap();
    assert!(done.success());
    let bytes = std::fs::read(&library).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    bytes
}

fn read_here(bytes: &[u8]) -> Found<Library> {
    read(bytes, &Machine::here())
}

#[test]
fn a_library_says_what_it_needs_and_offers() {
    let flags = ["-shared", "-fPIC", "-nostdlib", "-Wl,-soname,liba.so.1", "-Wl,-rpath,$ORIGIN/x:/y"];
    for style in ["-Wl,--hash-style=gnu", "-Wl,--hash-style=sysv"] {
        let library = read_here(&built(SOURCE, &[&flags[..], &[style]].concat())).unwrap();
        assert_eq!(library.soname.as_deref(), Some("liba.so.1"));
        assert_eq!(library.runpath, ["$ORIGIN/x", "/y"]);
        assert!(library.is_plugin, "{style}");
        assert!(library.needed.is_empty());
        let plain = read_here(&built("int f(void) { return 1; }", &[&flags[..], &[style]].concat())).unwrap();
        assert!(!plain.is_plugin, "{style}");
    }
    let needing = built(
        "#include <math.h>\ndouble f(double x) { return sin(x); }",
        &["-shared", "-fPIC", "-Wl,--no-as-needed", "-lm"],
    );
    assert!(read_here(&needing).unwrap().needed.iter().any(|name| name.starts_with("libm.so")));
    // A symbol that is only used is not offered.
    let using = built("int GetPjrtApi(void); int f(void) { return GetPjrtApi(); }", &["-shared", "-fPIC"]);
    assert!(!read_here(&using).unwrap().is_plugin);
}

#[test]
fn a_library_cut_anywhere_is_refused() {
    let whole = built(SOURCE, &["-shared", "-fPIC", "-s"]);
    assert!(read_here(&whole).unwrap().is_plugin);
    for len in 0..whole.len() {
        assert!(read_here(&whole[..len]).is_err(), "{len} bytes of {}", whole.len());
    }
}

#[test]
fn no_change_of_a_byte_makes_reading_fail_badly() {
    let whole = built(SOURCE, &["-shared", "-fPIC", "-s", "-nostdlib"]);
    for at in 0..whole.len() {
        for mask in [0x01, 0x80, 0xff] {
            let mut bytes = whole.clone();
            bytes[at] ^= mask;
            let _ = read_here(&bytes);
        }
    }
}

#[test]
fn what_is_no_shared_library_is_named() {
    let what = |bytes: &[u8]| match read_here(bytes) {
        Err(Defect::NoLibrary(what)) => what,
        other => panic!("{other:?}"),
    };
    assert_eq!(what(b""), "empty");
    assert_eq!(what(b"<html>\n"), "a text file");
    assert_eq!(what("gr\u{fc}n".as_bytes()), "a text file");
    assert_eq!(what(&[1, 2, 3, 0, 255]), "a file of another kind");
    assert_eq!(what(b"!<arch>\n"), "a static library");
    assert!(what(b"PK\x03\x04rest").contains("wheel"));
    let main = "int main(void) { return 0; }";
    for flags in [&["-pie", "-fPIE"][..], &["-no-pie"]] {
        assert_eq!(what(&built(main, flags)), "a program");
    }
    assert!(what(&built(SOURCE, &["-c"])).contains("not linked"));
}

#[test]
fn what_is_for_another_machine_is_named() {
    let machines = |bytes: &[u8]| match read_here(bytes) {
        Err(Defect::Foreign(machines)) => machines.iter().map(Machine::to_string).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    let mut elf = built(SOURCE, &["-shared", "-fPIC"]);
    let (number, name) = if cfg!(target_arch = "aarch64") { (62, "x86_64") } else { (183, "aarch64") };
    elf[18] = number;
    assert_eq!(machines(&elf), [format!("Linux on {name}")]);
    elf[4] = 1;
    assert_eq!(machines(&elf), [format!("Linux on 32-bit {name}")]);
}

#[test]
fn a_real_plugin_cut_anywhere_is_refused() {
    let path = std::env::var("PJRT_PLUGIN_PATH_CPU").expect("PJRT_PLUGIN_PATH_CPU names the CPU plugin's library");
    let file = File::open(path).unwrap();
    let len = file.metadata().unwrap().len();
    let cache = ReadCache::new(file);
    let here = Machine::here();
    assert!(read(cache.range(0, len), &here).unwrap().is_plugin);
    // Near both ends at every byte, and at many in between.
    let cuts = (0..5000).chain((5000..len).step_by(50_021)).chain(len - 5000..len);
    for cut in cuts {
        assert!(read(cache.range(0, cut), &here).is_err(), "{cut} bytes of {len}");
    }
}

#[test]
fn only_regular_files_are_opened() {
    let what = |path: &Path| inspect(path).unwrap_err();
    assert_eq!(what(Path::new("no/such/file")).kind(), Kind::PluginNotFound);
    for (path, message) in [(std::env::temp_dir(), "a folder"), ("/dev/zero".into(), "no regular file")] {
        let error = what(&path);
        assert_eq!(error.kind(), Kind::PluginInvalid);
        assert!(error.message().contains(message), "{error}");
    }
    let pipe = std::env::temp_dir().join(format!("pjrt-pipe-{}", std::process::id()));
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    assert!(what(&pipe).message().contains("no regular file"));
    std::fs::remove_file(pipe).unwrap();
}
