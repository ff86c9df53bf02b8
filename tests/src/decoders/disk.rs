//! What lies on the disks of nodes, as after damage or by another hand.
//! Invariant: what is taken survives encoding.

use perigee_ssd::format::{
    Footer, SegmentHeader, SegmentTrailer, Structure, Summary, Superblock, seal,
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
    let choice = usize::from(*choice) % (2 * STRUCTURES.len());
    let structure = STRUCTURES[choice % STRUCTURES.len()];
    match choice < STRUCTURES.len() {
        true => read(structure, rest),
        false => read(structure, &seal(structure, rest)),
    }
}

fn read(structure: Structure, bytes: &[u8]) -> bool {
    macro_rules! survives {
        ($kind:ty) => {{
            let Ok(taken) = <$kind>::decode(bytes) else {
                return false;
            };
            assert_eq!(<$kind>::decode(&taken.encode()).ok().as_ref(), Some(&taken));
            true
        }};
    }
    match structure {
        Structure::Superblock => survives!(Superblock),
        Structure::SegmentHeader => survives!(SegmentHeader),
        Structure::Summary => survives!(Summary),
        Structure::Footer => survives!(Footer),
        Structure::Trailer => survives!(SegmentTrailer),
    }
}
