//! Libraries of macOS: for one processor, or universal, with one library for each of several.

use super::{bytes, check_range, many, one, text, Architecture, Defect, Library, Parsed, ENTRY};
use object::macho::{self, FatHeader, MachHeader64, Nlist64, SymtabCommand};
use object::read::macho::{FatArch, LoadCommandVariant, MachHeader};
use object::read::ReadRef;
use object::{BigEndian, LittleEndian as LE};

const SYSTEM: &str = "macOS";

/// Reads the library for this machine's processor from a universal one.
pub(super) fn read_universal<'d, R: ReadRef<'d>>(data: R, here: &Architecture) -> Parsed<Library> {
    let header: &FatHeader = one(data, 0)?;
    let count = header.nfat_arch.get(BigEndian);
    if header.magic.get(BigEndian) == macho::FAT_MAGIC_64 {
        read_one_of::<macho::FatArch64, R>(data, count, here)
    } else {
        read_one_of::<macho::FatArch32, R>(data, count, here)
    }
}

fn read_one_of<'d, Fat: FatArch, R: ReadRef<'d>>(data: R, count: u32, here: &Architecture) -> Parsed<Library> {
    let parts: &[Fat] = many(data, size_of::<FatHeader>() as u64, count.into())?;
    // Check all of them first: a truncated file is an error wherever it ends.
    parts.iter().try_for_each(|part| check_range(data, part.offset().into(), part.size().into()))?;
    let machine = |part: &Fat| Architecture::new(SYSTEM, processor(part.cputype()));
    match parts.iter().find(|part| machine(part) == *here) {
        Some(part) => read_at(data, part.offset().into(), part.size().into(), here),
        None => Err(Defect::Foreign(parts.iter().map(machine).collect())),
    }
}

pub(super) fn read<'d, R: ReadRef<'d>>(data: R, here: &Architecture) -> Parsed<Library> {
    let size = data.len().map_err(|()| super::unreadable(0))?;
    read_at(data, 0, size, here)
}

fn processor(cpu: macho::CpuType) -> String {
    match cpu {
        macho::CPU_TYPE_X86_64 => "x86_64".into(),
        macho::CPU_TYPE_ARM64 => "aarch64".into(),
        macho::CPU_TYPE_X86 => "32-bit x86".into(),
        macho::CPU_TYPE_ARM => "32-bit arm".into(),
        other => format!("processor number {}", other.0),
    }
}

/// Reads the library of `size` bytes at `start`. Its offsets are relative to `start`.
fn read_at<'d, R: ReadRef<'d>>(data: R, start: u64, size: u64, here: &Architecture) -> Parsed<Library> {
    let header: &MachHeader64<LE> = one(data, start)?;
    if header.magic() == macho::MH_MAGIC || header.magic() == macho::MH_MAGIC_64 {
        return Err(Defect::Foreign(vec![Architecture::new(SYSTEM, "a big-endian processor")]));
    }
    let machine = Architecture::new(SYSTEM, processor(header.cputype(LE)));
    ensure!(machine == *here, Defect::Foreign(vec![machine]));
    match header.filetype(LE) {
        macho::MH_DYLIB | macho::MH_BUNDLE => {}
        macho::MH_EXECUTE => return Err(Defect::NoLibrary("a program".into())),
        macho::MH_OBJECT => return Err(Defect::NoLibrary("an object file that is not linked".into())),
        _ => return Err(Defect::NoLibrary("a Mach-O file of another kind".into())),
    }
    let damaged = |error: object::Error| Defect::Damaged(error.to_string());
    check_range(data, start + size_of_val(header) as u64, header.sizeofcmds(LE).into())?;
    let mut commands = header.load_commands(LE, data, start).map_err(damaged)?;
    let part = Segment { data, start, size };
    let mut library = Library::default();
    while let Some(command) = commands.next().map_err(damaged)? {
        let string = |name| command.string(LE, name).map(text).map_err(damaged);
        match command.variant().map_err(damaged)? {
            LoadCommandVariant::Segment64(segment, _) => {
                part.check(segment.fileoff.get(LE), segment.filesize.get(LE))?;
            }
            LoadCommandVariant::Symtab(table) => library.is_plugin = part.exports(table, ENTRY)?,
            LoadCommandVariant::Dylib(other) => library.needed.push(string(other.dylib.name)?),
            LoadCommandVariant::IdDylib(own) => library.soname = Some(string(own.dylib.name)?),
            LoadCommandVariant::Rpath(rpath) => library.runpath.push(string(rpath.path)?),
            _ => {}
        }
    }
    Ok(library)
}

/// The range of one library in a file.
struct Segment<R> {
    data: R,
    start: u64,
    size: u64,
}

impl<'d, R: ReadRef<'d>> Segment<R> {
    fn check(&self, offset: u64, size: u64) -> Parsed<()> {
        match offset.checked_add(size) {
            Some(end) if end <= self.size => Ok(()),
            Some(needs) => Err(Defect::Incomplete { has: self.size, needs }),
            None => check_range(self.data, offset, size),
        }
    }

    fn exports(&self, table: &SymtabCommand<LE>, name: &str) -> Parsed<bool> {
        let (at, count) = (u64::from(table.symoff.get(LE)), u64::from(table.nsyms.get(LE)));
        self.check(at, count * size_of::<Nlist64<LE>>() as u64)?;
        let symbols: &[Nlist64<LE>] = many(self.data, self.start + at, count)?;
        let (at, size) = (u64::from(table.stroff.get(LE)), u64::from(table.strsize.get(LE)));
        self.check(at, size)?;
        let names = bytes(self.data, self.start + at, size)?;
        // On macOS, the names of C functions begin with an underscore.
        let symbol_name = format!("_{name}\0");
        Ok(symbols.iter().any(|symbol| {
            let is_exported = symbol.n_type.is_ext() && symbol.n_sect != 0;
            let name = names.get(symbol.n_strx.get(LE) as usize..);
            is_exported && name.is_some_and(|name| name.starts_with(symbol_name.as_bytes()))
        }))
    }
}
