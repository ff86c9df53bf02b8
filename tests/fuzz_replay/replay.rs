//! Replays `tests/fuzz/corpus`, and derived inputs: each prefix, each byte changed.
//! Invariant: the corpus of each decoder is complete enough to reach every message kind.

use std::path::PathBuf;

use perigee_tests::decoders::DECODERS;
use perigee_tests::noise::Noise;

/// Random inputs per decoder beside the corpus.
const RANDOM_INPUTS: u64 = 20_000;
const RANDOM_BYTES_MAX: usize = 400;

fn corpus(decoder: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(decoder);
    let entries =
        std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{} is empty", folder.display());
    files.into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

#[test]
fn seeds_are_taken_for_messages_and_the_rest_is_survived() {
    for (name, decoder) in DECODERS {
        for (path, bytes) in corpus(name) {
            eprintln!("{}", path.display());
            let taken = decoder(&bytes);
            let name = path.file_name().unwrap().to_string_lossy();
            let is_seed = !name.starts_with("crash-") && !name.starts_with("found-");
            assert!(taken || !is_seed, "{} is no message any more", path.display());
        }
    }
}

#[test]
fn every_prefix_of_an_input_is_decoded_or_refused() {
    for (name, decoder) in DECODERS {
        for (_, bytes) in corpus(name) {
            for end in 0..bytes.len() {
                decoder(&bytes[..end]);
            }
        }
    }
}

#[test]
fn every_input_with_one_byte_changed_is_decoded_or_refused() {
    for (name, decoder) in DECODERS {
        for (_, mut bytes) in corpus(name) {
            for at in 0..bytes.len() {
                let right = bytes[at];
                for wrong in [0, 1, 0x7f, 0x80, 0xff, right ^ 1] {
                    bytes[at] = wrong;
                    decoder(&bytes);
                }
                bytes[at] = right;
            }
        }
    }
}

#[test]
fn random_inputs_are_decoded_or_refused() {
    for (_, decoder) in DECODERS {
        for seed in 0..RANDOM_INPUTS {
            let mut noise = Noise::new(seed);
            let count = noise.below(RANDOM_BYTES_MAX);
            decoder(&noise.bytes(count));
        }
    }
}
