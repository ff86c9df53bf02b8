//! The fuzzer: bytes from libFuzzer go to the decoder named by PERIGEE_DECODER.
//! Invariant: it calls the same entries as the replay of the corpus.

#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use perigee_tests::decoders::{DECODERS, Decoder};

static CHOSEN: OnceLock<Decoder> = OnceLock::new();

fn chosen() -> Decoder {
    let name = std::env::var("PERIGEE_DECODER").unwrap_or_default();
    let found = DECODERS.into_iter().find(|(decoder, _)| *decoder == name);
    found.expect("PERIGEE_DECODER names a decoder; tests/fuzz.sh sets it")
}

fuzz_target!(|bytes: &[u8]| {
    let (_, decoder) = CHOSEN.get_or_init(chosen);
    decoder(bytes);
});
