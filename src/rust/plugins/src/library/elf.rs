//! Libraries of Linux and other Unix systems. Reads the segments, as the loader does: sections may be stripped.

use super::{bytes, check_range, many, one, text, Architecture, Defect, Library, Parsed, ENTRY};
use object::elf::{self, Dyn64, DynamicTag, FileHeader64, GnuHashHeader, ProgramHeader64, Sym64};
use object::read::ReadRef;
use object::{NativeEndian as Native, U32};

const E: Native = Native {};

/// Hash tables find a symbol in a few steps. A longer chain is not valid.
const MAX_CHAIN: u32 = 100_000;

pub(super) fn read<'d, R: ReadRef<'d>>(data: R, here: &Architecture) -> Parsed<Library> {
    let ident = bytes(data, 0, 20)?;
    let file = machine(ident, here);
    ensure!(file == *here, Defect::Foreign(vec![file]));
    let header: &FileHeader64<Native> = one(data, 0)?;
    match header.e_type.get(E) {
        elf::ET_DYN => {}
        elf::ET_EXEC => return Err(Defect::NoLibrary("a program".into())),
        elf::ET_REL => return Err(Defect::NoLibrary("an object file that is not linked".into())),
        _ => return Err(Defect::NoLibrary("an ELF file of another kind".into())),
    }
    let sections = u64::from(header.e_shnum.get(E)) * u64::from(header.e_shentsize.get(E));
    check_range(data, header.e_shoff.get(E), sections)?;
    let is_sized = usize::from(header.e_phentsize.get(E)) == size_of::<ProgramHeader64<Native>>();
    ensure!(is_sized, Defect::Damaged("it has no segment table".into()));
    let segments: &[ProgramHeader64<Native>] = many(data, header.e_phoff.get(E), header.e_phnum.get(E).into())?;
    for segment in segments {
        check_range(data, segment.p_offset.get(E), segment.p_filesz.get(E))?;
    }
    Image::new(data, segments)?.library()
}

/// The machine according to the first bytes.
fn machine(ident: &[u8], here: &Architecture) -> Architecture {
    let is_big_endian = ident[5] == elf::ELFDATA2MSB.0;
    let number = [ident[18], ident[19]];
    let number = if is_big_endian { u16::from_be_bytes(number) } else { u16::from_le_bytes(number) };
    let name = match elf::Machine(number) {
        elf::EM_386 => "x86".into(),
        elf::EM_X86_64 => "x86_64".into(),
        elf::EM_ARM => "arm".into(),
        elf::EM_AARCH64 => "aarch64".into(),
        elf::EM_PPC64 => "powerpc64".into(),
        elf::EM_S390 => "s390x".into(),
        elf::EM_RISCV => "riscv64".into(),
        elf::EM_LOONGARCH => "loongarch64".into(),
        other => format!("processor number {}", other.0),
    };
    let width = if ident[4] == elf::ELFCLASS64.0 { "" } else { "32-bit " };
    let order = match is_big_endian == cfg!(target_endian = "big") {
        true => "",
        false if is_big_endian => "big-endian ",
        false => "little-endian ",
    };
    // All Unix systems but macOS use this format.
    let system = if matches!(&*here.system, "macOS" | "Windows") { "Linux" } else { &here.system };
    Architecture::new(system, format!("{width}{order}{name}"))
}

/// The parts of a library that the loader maps and reads.
struct Image<'d, R> {
    data: R,
    segments: &'d [ProgramHeader64<Native>],
    dynamic: Vec<(DynamicTag, u64)>,
    /// File offset and size of the names.
    names: (u64, u64),
}

impl<'d, R: ReadRef<'d>> Image<'d, R> {
    fn new(data: R, segments: &'d [ProgramHeader64<Native>]) -> Parsed<Self> {
        let Some(table) = segments.iter().find(|s| s.p_type.get(E) == elf::PT_DYNAMIC) else {
            return Err(Defect::NoLibrary("a program".into()));
        };
        let entry = size_of::<Dyn64<Native>>() as u64;
        let entries: &[Dyn64<Native>] = many(data, table.p_offset.get(E), table.p_filesz.get(E) / entry)?;
        let dynamic = entries.iter().map(|e| (e.d_tag.get(E), e.d_val.get(E)));
        let dynamic: Vec<_> = dynamic.take_while(|&(tag, _)| tag != elf::DT_NULL).collect();
        let mut image = Image { data, segments, dynamic, names: (0, 0) };
        let (Some(at), Some(size)) = (image.value(elf::DT_STRTAB), image.value(elf::DT_STRSZ)) else {
            return Err(Defect::Damaged("it has no string table".into()));
        };
        image.names = (image.offset(at)?, size);
        check_range(data, image.names.0, size)?;
        Ok(image)
    }

    fn library(&self) -> Parsed<Library> {
        let is_program = self.value(elf::DT_FLAGS_1).is_some_and(|flags| flags & elf::DF_1_PIE.0 != 0);
        ensure!(!is_program, Defect::NoLibrary("a program".into()));
        let mut library = Library { is_plugin: self.exports(ENTRY)?, ..Library::default() };
        for &(tag, value) in &self.dynamic {
            match tag {
                elf::DT_NEEDED => library.needed.push(text(self.name(value)?)),
                elf::DT_SONAME => library.soname = Some(text(self.name(value)?)),
                elf::DT_RPATH | elf::DT_RUNPATH => {
                    library.runpath.extend(text(self.name(value)?).split(':').map(str::to_owned));
                }
                _ => {}
            }
        }
        Ok(library)
    }

    fn value(&self, tag: DynamicTag) -> Option<u64> {
        self.dynamic.iter().find(|entry| entry.0 == tag).map(|entry| entry.1)
    }

    /// The file offset of an address.
    fn offset(&self, address: u64) -> Parsed<u64> {
        let loaded = self.segments.iter().filter(|s| s.p_type.get(E) == elf::PT_LOAD);
        loaded
            .filter_map(|s| Some((s, address.checked_sub(s.p_vaddr.get(E))?)))
            .find(|(s, distance)| *distance < s.p_filesz.get(E))
            .map(|(s, distance)| s.p_offset.get(E) + distance)
            .ok_or_else(|| Defect::Damaged(format!("it refers to address {address:#x}, which it does not have")))
    }

    /// The name at an index of the name table. Reads only as much of the table as the name needs, since it may be
    /// large.
    fn name(&self, index: u64) -> Parsed<&'d [u8]> {
        let (start, size) = self.names;
        let left = size.saturating_sub(index);
        let mut len = 256;
        loop {
            let part = bytes(self.data, start.saturating_add(index), left.min(len))?;
            if let Some(end) = part.iter().position(|&byte| byte == 0) {
                return Ok(&part[..end]);
            }
            ensure!(len < left, Defect::Damaged("a name has no end".into()));
            len *= 16;
        }
    }

    /// Whether the library defines and exports a function. Uses the hash tables, as the loader does.
    fn exports(&self, name: &str) -> Parsed<bool> {
        let Some(symbols) = self.value(elf::DT_SYMTAB) else {
            return Ok(false);
        };
        let symbols = self.offset(symbols)?;
        let is_it = |index: u32| -> Parsed<bool> {
            let at = symbols.saturating_add(u64::from(index) * size_of::<Sym64<Native>>() as u64);
            let symbol: &Sym64<Native> = one(self.data, at)?;
            // Data of this name would be executed.
            let is_data = matches!(symbol.st_type(), elf::STT_OBJECT | elf::STT_COMMON | elf::STT_TLS);
            let is_defined = symbol.st_shndx.get(E) != elf::SHN_UNDEF;
            Ok(is_defined && !is_data && self.name(symbol.st_name.get(E).into())? == name.as_bytes())
        };
        if let Some(table) = self.value(elf::DT_GNU_HASH) {
            return self.in_gnu_table(self.offset(table)?, elf::gnu_hash(name.as_bytes()), is_it);
        }
        match self.value(elf::DT_HASH) {
            Some(table) => self.in_old_table(self.offset(table)?, elf::hash(name.as_bytes()), is_it),
            None => Ok(false),
        }
    }

    fn in_gnu_table(&self, table: u64, hash: u32, is_it: impl Fn(u32) -> Parsed<bool>) -> Parsed<bool> {
        let head: &GnuHashHeader<Native> = one(self.data, table)?;
        let [buckets, first, bloom] = [head.bucket_count, head.symbol_base, head.bloom_count].map(|word| word.get(E));
        if buckets == 0 {
            return Ok(false);
        }
        let start = table + 16 + u64::from(bloom) * 8;
        let chains = start + u64::from(buckets) * 4;
        let mut index = self.word(start + u64::from(hash % buckets) * 4)?;
        for _ in 0..MAX_CHAIN {
            // An empty bucket contains 0, which is less than the table's first symbol.
            let Some(place) = index.checked_sub(first) else {
                return Ok(false);
            };
            let found = self.word(chains + u64::from(place) * 4)?;
            if found | 1 == hash | 1 && is_it(index)? {
                return Ok(true);
            }
            if found & 1 == 1 {
                return Ok(false);
            }
            index = index.saturating_add(1);
        }
        Err(endless())
    }

    fn in_old_table(&self, table: u64, hash: u32, is_it: impl Fn(u32) -> Parsed<bool>) -> Parsed<bool> {
        let buckets = self.word(table)?;
        if buckets == 0 {
            return Ok(false);
        }
        let start = table + 8;
        let mut index = self.word(start + u64::from(hash % buckets) * 4)?;
        for _ in 0..MAX_CHAIN {
            if index == 0 || is_it(index)? {
                return Ok(index != 0);
            }
            index = self.word(start + (u64::from(buckets) + u64::from(index)) * 4)?;
        }
        Err(endless())
    }

    fn word(&self, offset: u64) -> Parsed<u32> {
        Ok(one::<U32<Native>, R>(self.data, offset)?.get(E))
    }
}

fn endless() -> Defect {
    Defect::Damaged("its symbol table has no end".into())
}
