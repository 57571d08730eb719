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
