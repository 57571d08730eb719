//! Libraries of Windows.

use super::{check_range, one, text, Architecture, Defect, Library, Parsed, ENTRY};
use object::pe::{self, ImageDosHeader, ImageFileHeader, ImageNtHeaders64};
use object::read::pe::ImageNtHeaders;
use object::read::ReadRef;
use object::LittleEndian as LE;

pub(super) fn read<'d, R: ReadRef<'d>>(data: R, here: &Architecture) -> Parsed<Library> {
    let dos: &ImageDosHeader = one(data, 0)?;
    let mut offset = u64::from(dos.nt_headers_offset());
    // A signature of four bytes comes first.
    let header: &ImageFileHeader = one(data, offset + 4)?;
    let machine = Architecture::new("Windows", processor(header.machine.get(LE)));
    ensure!(machine == *here, Defect::Foreign(vec![machine]));
    let is_library = header.characteristics.get(LE).contains(pe::IMAGE_FILE_DLL);
    ensure!(is_library, Defect::NoLibrary("a program".into()));
    check_range(data, offset, size_of::<ImageNtHeaders64>() as u64)?;
    let damaged = |error: object::Error| Defect::Damaged(error.to_string());
    let (headers, directories) = ImageNtHeaders64::parse(data, &mut offset).map_err(damaged)?;
    let sections = headers.sections(data, offset).map_err(damaged)?;
    for section in sections.iter() {
        let (at, size) = (section.pointer_to_raw_data.get(LE), section.size_of_raw_data.get(LE));
        check_range(data, at.into(), size.into())?;
    }
    let mut library = Library::default();
    if let Some(imports) = directories.import_table(data, &sections).map_err(damaged)? {
        let mut others = imports.descriptors().map_err(damaged)?;
        while let Some(other) = others.next().map_err(damaged)? {
            library.needed.push(text(imports.name(other.name.get(LE)).map_err(damaged)?));
        }
    }
    if let Some(table) = directories.export_table(data, &sections).map_err(damaged)? {
        let names = table.name_iter().filter_map(|(pointer, _)| table.name_from_pointer(pointer).ok());
        library.is_plugin = names.into_iter().any(|name| name == ENTRY.as_bytes());
        let own = table.directory().name.get(LE);
        library.soname = table.name_from_pointer(own).ok().map(text);
    }
    Ok(library)
}

fn processor(machine: pe::Machine) -> String {
    match machine {
        pe::IMAGE_FILE_MACHINE_AMD64 => "x86_64".into(),
        pe::IMAGE_FILE_MACHINE_ARM64 => "aarch64".into(),
        pe::IMAGE_FILE_MACHINE_I386 => "32-bit x86".into(),
        other => format!("processor number {:#x}", other.0),
    }
}
