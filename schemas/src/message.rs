//! Decoding of message bodies: every body is verified before its first field is read.

use crate::limits::VERIFIER_TABLES_MAX;
use flatbuffers::{Follow, InvalidFlatbuffer, Verifiable, VerifierOptions};

/// Why a body was refused.
#[derive(Debug, thiserror::Error)]
#[error("Malformed message: {0}")]
pub struct MessageError(#[from] InvalidFlatbuffer);

/// Verifies `body` as a message whose root is `T` and gives access to its fields.
///
/// # Errors
/// The body is truncated, has offsets out of bounds, or more tables than any real message.
pub fn decode<'a, T>(body: &'a [u8]) -> Result<T::Inner, MessageError>
where
    T: Follow<'a> + Verifiable + 'a,
{
    let options = VerifierOptions {
        max_depth: 8,
        max_tables: VERIFIER_TABLES_MAX,
        max_apparent_size: 1 << 28,
        ignore_missing_null_terminator: false,
    };
    Ok(flatbuffers::root_with_opts::<T>(&options, body)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::master::{
        ExistReply, ExistReplyArgs, ExistRequest, GetReplicasReply, PutStartRequest,
    };
    use crate::trace::TRAILER_BYTES;
    use flatbuffers::FlatBufferBuilder;
    use proptest::prelude::*;

    #[test]
    fn an_encoded_reply_decodes() {
        let mut builder = FlatBufferBuilder::new();
        let status = builder.create_vector(&[1, 0, -704]);
        let root = ExistReply::create(&mut builder, &ExistReplyArgs { status: Some(status) });
        builder.finish_minimal(root);
        let reply = decode::<ExistReply<'_>>(builder.finished_data()).unwrap();
        assert_eq!(reply.status().unwrap().iter().collect::<Vec<_>>(), [1, 0, -704]);
    }

    /// Peers of older builds take it for the end of the message.
    #[test]
    fn a_trailer_behind_a_message_does_no_harm() {
        let mut builder = FlatBufferBuilder::new();
        let status = builder.create_vector(&[7]);
        let root = ExistReply::create(&mut builder, &ExistReplyArgs { status: Some(status) });
        builder.finish_minimal(root);
        let body = [builder.finished_data(), &[0xff; TRAILER_BYTES]].concat();
        let reply = decode::<ExistReply<'_>>(&body).unwrap();
        assert_eq!(reply.status().unwrap().iter().collect::<Vec<_>>(), [7]);
    }

    proptest! {
        #[test]
        fn random_bodies_never_panic(body in proptest::collection::vec(any::<u8>(), 0..600)) {
            if let Ok(request) = decode::<ExistRequest<'_>>(&body) {
                let keys = request.keys().map_or(0, |keys| keys.iter().map(str::len).sum());
                prop_assert!(keys <= 1 << 28);
            }
            let _ = decode::<PutStartRequest<'_>>(&body).map(|r| r.keys().map(|k| k.len()));
            let _ = decode::<GetReplicasReply<'_>>(&body).map(|r| r.locations().map(|l| l.len()));
        }
    }
}
