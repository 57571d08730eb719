use super::*;
use std::process::Command;

const SOURCE: &str = "int GetPjrtApi(void) { return 1; } int other(void) { return 2; }";

/// A small library, freshly compiled from C.
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

fn read_here(bytes: &[u8]) -> Parsed<Library> {
    read(bytes, &Architecture::here())
}

#[test]
fn dependencies_and_symbols_of_a_library_are_read() {
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
    // A symbol that is only used is not exported.
    let using = built("int GetPjrtApi(void); int f(void) { return GetPjrtApi(); }", &["-shared", "-fPIC"]);
    assert!(!read_here(&using).unwrap().is_plugin);
    // Data of this name is not a function.
    for data in ["int GetPjrtApi = 1;", "__thread int GetPjrtApi = 1;"] {
        for style in ["-Wl,--hash-style=gnu", "-Wl,--hash-style=sysv"] {
            assert!(!read_here(&built(data, &["-shared", "-fPIC", style])).unwrap().is_plugin, "{data}");
        }
    }
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
fn a_file_that_is_not_a_shared_library_is_named() {
    let what = |bytes: &[u8]| match read_here(bytes) {
        Err(Defect::NoLibrary(what)) => what,
        other => panic!("{other:?}"),
    };
    assert_eq!(what(b""), "empty");
    assert_eq!(what(b"<html>\n"), "an HTML page, not the file itself");
    assert_eq!(what(b"text\n"), "a text file");
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
fn a_library_for_another_machine_is_named() {
    let machines = |bytes: &[u8]| match read_here(bytes) {
        Err(Defect::Foreign(machines)) => machines.iter().map(Architecture::to_string).collect::<Vec<_>>(),
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
    let here = Architecture::here();
    assert!(read(cache.range(0, len), &here).unwrap().is_plugin);
    // At every byte near both ends, and at many in between.
    let cuts = (0..5000).chain((5000..len).step_by(50_021)).chain(len - 5000..len);
    for cut in cuts {
        assert!(read(cache.range(0, cut), &here).is_err(), "{cut} bytes of {len}");
    }
}

#[test]
fn only_regular_files_are_opened() {
    let what = |path: &Path| inspect(path).unwrap_err();
    assert_eq!(what(Path::new("no/such/file")).kind(), Kind::PluginNotFound);
    for (path, message) in [(std::env::temp_dir(), "a folder"), ("/dev/zero".into(), "not a regular file")] {
        let error = what(&path);
        assert_eq!(error.kind(), Kind::PluginInvalid);
        assert!(error.message().contains(message), "{error}");
    }
    let pipe = std::env::temp_dir().join(format!("pjrt-pipe-{}", std::process::id()));
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    assert!(what(&pipe).message().contains("not a regular file"));
    std::fs::remove_file(pipe).unwrap();
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// A load command of a Mach-O file: its number, its fields, and a text at the end.
fn command(number: u32, fields: &[u32], name: &str) -> Vec<u8> {
    let fields = words(fields);
    let size = (8 + fields.len() + name.len() + 1).next_multiple_of(8);
    let mut out = [words(&[number, size as u32]), fields, name.into()].concat();
    out.resize(size, 0);
    out
}

/// A library for macOS on aarch64 that consists only of tables.
fn macho() -> Vec<u8> {
    let names = b"\0_other\0_GetPjrtApi\0";
    // Symbol 1 is used, symbol 2 is defined and exported.
    let symbols = [words(&[1, 1, 0, 0]), words(&[8, 0x010f, 0, 0])].concat();
    let before = [
        command(0xd, &[24, 0, 0, 0], "@rpath/liba.dylib"),
        command(0xc, &[24, 0, 0, 0], "/usr/lib/libSystem.B.dylib"),
        command(0x8000_001c, &[12], "@loader_path/x"),
    ]
    .concat();
    let tables = 32 + before.len() + 24 + 72;
    let len = tables + symbols.len() + names.len();
    let symtab = words(&[2, 24, tables as u32, 2, (tables + symbols.len()) as u32, names.len() as u32]);
    let segment = words(&[0x19, 72, 0, 0, 0, 0, 0, 0, len as u32, 0, 0, 0, len as u32, 0, 1, 1, 0, 0]);
    let commands = [before, symtab, segment].concat();
    let header = words(&[0xfeed_facf, 0x0100_000c, 0, 6, 5, commands.len() as u32, 0, 0]);
    [header, commands, symbols, names.to_vec()].concat()
}

#[test]
fn a_library_of_macos_is_read() {
    let (mac, intel) = (Architecture::new("macOS", "aarch64"), Architecture::new("macOS", "x86_64"));
    let thin = macho();
    let library = Library {
        needed: vec!["/usr/lib/libSystem.B.dylib".into()],
        soname: Some("@rpath/liba.dylib".into()),
        runpath: vec!["@loader_path/x".into()],
        is_plugin: true,
    };
    assert_eq!(read(&thin[..], &mac).unwrap(), library);
    assert_eq!(read(&thin[..], &intel), Err(Defect::Foreign(vec![mac.clone()])));
    // Universal: big-endian, with a part for an unrelated processor first.
    let start = 64u32;
    let size = thin.len() as u32;
    let head = [0xcafe_babe, 2, 7, 0, 60, 4, 0, 0x0100_000c, 0, start, size, 0, 0, 0, 0, 0];
    let universal = [head.iter().flat_map(|word: &u32| word.to_be_bytes()).collect(), thin.clone()].concat();
    assert_eq!(read(&universal[..], &mac).unwrap(), library);
    let machines = vec![Architecture::new("macOS", "32-bit x86"), mac.clone()];
    assert_eq!(read(&universal[..], &intel), Err(Defect::Foreign(machines)));
    for whole in [thin, universal] {
        for len in 0..whole.len() {
            assert!(read(&whole[..len], &mac).is_err(), "{len} bytes of {}", whole.len());
            let mut changed = whole.clone();
            changed[len] ^= 0xff;
            let _ = read(&changed[..], &mac);
        }
    }
}

/// A library for Windows on x86_64 with one section: the tables of its exports and imports.
fn pe() -> Vec<u8> {
    let dos = [b"MZ".to_vec(), vec![0; 58], words(&[64])].concat();
    let header = [b"PE\0\0".to_vec(), words(&[0x0001_8664, 0, 0, 0, 0x2022_00f0])].concat();
    let mut optional = words(&[0x20b]);
    optional.resize(108, 0);
    // Sixteen directories: exports first, then imports.
    optional.extend(words(&[16, 0x1000, 0x100, 0x1028, 40]));
    optional.resize(240, 0);
    let section = [b".rdata\0\0".to_vec(), words(&[0x200, 0x1000, 0x200, 0x200, 0, 0, 0, 0])].concat();
    let exports = words(&[0, 0, 0, 0x1080, 1, 1, 1, 0x1050, 0x1054, 0x1058]);
    let imports = words(&[0x1060, 0, 0, 0x10a0, 0x1060, 0, 0, 0, 0, 0]);
    let mut data = [exports, imports, words(&[0x1000, 0x1090, 0])].concat();
    for (at, name) in [(0x80, "a.dll"), (0x90, "GetPjrtApi"), (0xa0, "KERNEL32.dll")] {
        data.resize(at, 0);
        data.extend(name.bytes());
    }
    data.resize(0x200, 0);
    let mut file = [dos, header, optional, section].concat();
    file.resize(0x200, 0);
    [file, data].concat()
}

#[test]
fn a_library_of_windows_is_read() {
    let (windows, arm) = (Architecture::new("Windows", "x86_64"), Architecture::new("Windows", "aarch64"));
    let whole = pe();
    let library = Library {
        needed: vec!["KERNEL32.dll".into()],
        soname: Some("a.dll".into()),
        runpath: Vec::new(),
        is_plugin: true,
    };
    assert_eq!(read(&whole[..], &windows).unwrap(), library);
    assert_eq!(read(&whole[..], &arm), Err(Defect::Foreign(vec![windows.clone()])));
    for len in 0..whole.len() {
        assert!(read(&whole[..len], &windows).is_err(), "{len} bytes of {}", whole.len());
        let mut changed = whole.clone();
        changed[len] ^= 0xff;
        let _ = read(&changed[..], &windows);
    }
}
