//! What lies on the disks of nodes, as after damage or by another hand.
//! Invariant: what is taken survives encoding.

use perigee_ssd::format::{
    BlockRoom, Footer, SegmentHeader, SegmentTrailer, Structure, Summary, Superblock, seal,
};

const STRUCTURES: [Structure; 5] = [
    Structure::Superblock,
    Structure::SegmentHeader,
    Structure::Summary,
    Structure::Footer,
    Structure::Trailer,
];

/// The first byte chooses the structure, and whether the rest is sealed or is a body that only
/// lacks its seal, so that a fuzzer gets past the checksum.
pub(super) fn disk(bytes: &[u8]) -> bool {
    let Some((choice, rest)) = bytes.split_first() else {
        return false;
    };
    let choice = usize::from(*choice) % (4 * STRUCTURES.len());
    let structure = STRUCTURES[choice % STRUCTURES.len()];
    // As they are, or with the seal of a disk that is not encrypted or of one that is.
    match choice / STRUCTURES.len() {
        0 => read(structure, BlockRoom::Whole, rest),
        1 => read(structure, BlockRoom::Whole, &seal(structure, 1, rest, BlockRoom::Whole)),
        2 => read(structure, BlockRoom::BesideTag, &seal(structure, 1, rest, BlockRoom::BesideTag)),
        _ => read(structure, BlockRoom::BesideTag, &seal(structure, 2, rest, BlockRoom::Whole)),
    }
}

fn read(structure: Structure, room: BlockRoom, bytes: &[u8]) -> bool {
    macro_rules! survives {
        ($kind:ty $(, $room:ident)?) => {{
            let Ok(taken) = <$kind>::decode(bytes $(, $room)?) else {
                return false;
            };
            let again = taken.encode($($room)?);
            assert_eq!(<$kind>::decode(&again $(, $room)?).ok().as_ref(), Some(&taken));
            true
        }};
    }
    match structure {
        Structure::Superblock => survives!(Superblock),
        Structure::SegmentHeader => survives!(SegmentHeader),
        Structure::Summary => survives!(Summary, room),
        Structure::Footer => {
            let Ok(taken) = Footer::decode(bytes) else { return false };
            assert_eq!(Footer::decode(&taken.encode(room)).ok().as_ref(), Some(&taken));
            true
        }
        Structure::Trailer => survives!(SegmentTrailer, room),
    }
}
