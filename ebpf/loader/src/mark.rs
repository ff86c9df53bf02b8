//! Where in a program file the data plane's mark lies: found by its note, so that stripped files
//! work too.

use crate::error::ProbeError;
use crate::limits::MARK_FILE_BYTES_MAX;
use object::elf;
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader, SectionHeader};
use object::{Endianness, ReadCache};
use std::fs::File;
use std::path::Path;

const PROVIDER: &[u8] = b"perigee\0batch_done\0";
/// Type number of a probe's note.
const PROBE_NOTE: u32 = 3;

/// A place to put a probe on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkSite {
    /// Offset of the no-op in the file.
    pub file_offset: u64,
}

/// The mark in a program or library, or `None` if it has none.
///
/// # Errors
/// The file cannot be read.
pub fn find_mark(path: &Path) -> Result<Option<MarkSite>, ProbeError> {
    let failed = |error| ProbeError::File { path: path.display().to_string(), error };
    let file = File::open(path).map_err(failed)?;
    if file.metadata().map_err(failed)?.len() > MARK_FILE_BYTES_MAX {
        return Ok(None);
    }
    let cache = ReadCache::new(file);
    let Ok(elf) = ElfFile64::<Endianness, _>::parse(&cache) else {
        return Ok(None);
    };
    Ok(search(&elf))
}

fn search<'a>(elf: &ElfFile64<'a, Endianness, &'a ReadCache<File>>) -> Option<MarkSite> {
    let (endian, header, data) = (elf.endian(), elf.elf_header(), elf.data());
    let sections = header.sections(endian, data).ok()?;
    let named = |name: &[u8]| {
        let is_it = |section: &&elf::SectionHeader64<Endianness>| {
            sections.section_name(endian, *section) == Ok(name)
        };
        sections.iter().find(is_it)
    };
    let base = named(b".stapsdt.base").map(|section| section.sh_addr(endian));
    let mut notes = named(b".note.stapsdt")?.notes(endian, data).ok()??;
    while let Ok(Some(note)) = notes.next() {
        let description = note.desc();
        if note.name() != b"stapsdt" || note.n_type(endian) != PROBE_NOTE || description.len() < 24
        {
            continue;
        }
        if !description[24..].starts_with(PROVIDER) {
            continue;
        }
        let word = |at: usize| {
            let bytes = description[at..at + 8].try_into();
            bytes.map_or(0, u64::from_le_bytes)
        };
        // Linkers that move code after the note was written leave the base as the measure.
        let moved = base.unwrap_or(word(8)).wrapping_sub(word(8));
        let address = word(0).wrapping_add(moved);
        let segments = header.program_headers(endian, data).ok()?;
        let holds = |segment: &&elf::ProgramHeader64<Endianness>| {
            let begin = segment.p_vaddr(endian);
            segment.p_type(endian) == elf::PT_LOAD
                && (begin..begin + segment.p_filesz(endian)).contains(&address)
        };
        let segment = segments.iter().find(holds)?;
        let file_offset = address - segment.p_vaddr(endian) + segment.p_offset(endian);
        return Some(MarkSite { file_offset });
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_is_found_in_a_program_that_has_it() {
        let marked = perigee_activity::batch_done_address();
        let own = std::env::current_exe().unwrap();
        let site = find_mark(&own).unwrap().expect("this test links the data plane's mark");
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let mapping = maps.lines().find_map(|line| {
            let (range, rest) = line.split_once(' ')?;
            let (begin, end) = range.split_once('-')?;
            let begin = usize::from_str_radix(begin, 16).ok()?;
            let end = usize::from_str_radix(end, 16).ok()?;
            let offset = rest.split_whitespace().nth(1)?;
            let offset = u64::from_str_radix(offset, 16).ok()?;
            (begin..end).contains(&marked).then_some((begin, offset))
        });
        let (begin, offset) = mapping.unwrap();
        assert_eq!(site.file_offset, offset + (marked - begin) as u64);
    }

    #[test]
    fn programs_without_a_mark_have_none() {
        assert_eq!(find_mark(Path::new("/bin/sh")).unwrap(), None);
        assert_eq!(find_mark(Path::new("/etc/passwd")).unwrap(), None);
        assert!(find_mark(Path::new("/nowhere")).is_err());
    }
}
