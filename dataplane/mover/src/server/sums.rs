//! Sums of pieces. Invariant: one connection's sums leave the shard to others after each
//! [`SUM_TURN_BYTES`].
#![expect(unsafe_code, reason = "it reads memory that an owner vouches for")]

use super::granted_range::GrantedRange;
use super::verdict::Verdict;
use crate::limits::SUM_TURN_BYTES;
use perigee_memory::checksum::crc32c_raw;
use perigee_memory::{MemoryGone, crc32c_combine};
use perigee_schemas::Status;
use perigee_shard::Environment;
use std::time::Duration;

/// CRC-32C of each piece that may be used, 0 for the others. One whose memory has gone is refused.
pub(super) async fn sums<E: Environment>(environment: &E, verdicts: &mut [Verdict]) -> Vec<u32> {
    let mut sums = vec![0; verdicts.len()];
    let mut left = SUM_TURN_BYTES;
    for (verdict, slot) in verdicts.iter_mut().zip(&mut sums) {
        let Ok(range) = verdict else { continue };
        match sum(environment, range, &mut left).await {
            Ok(sum) => *slot = sum,
            Err(gone) => {
                tracing::warn!("A peer asked for memory that is lent and not there: {gone}");
                *verdict = Err(Status::InvalidParams);
            }
        }
    }
    sums
}

/// CRC-32C of a range; `left` is what may be summed before others get their turn.
async fn sum<E: Environment>(
    environment: &E,
    range: &GrantedRange,
    left: &mut usize,
) -> Result<u32, MemoryGone> {
    let bytes = range.bytes() as usize;
    let (mut whole, mut at) = (0, 0);
    while at < bytes {
        if *left == 0 {
            environment.sleep(Duration::ZERO).await;
            *left = SUM_TURN_BYTES;
        }
        let step = (bytes - at).min(*left);
        // SAFETY: a `GrantedRange` vouches for its bytes, and the step ends within them.
        let part = unsafe { crc32c_raw(range.host().wrapping_add(at), step)? };
        whole = crc32c_combine(whole, part, step as u64);
        at += step;
        *left -= step;
    }
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_memory::crc32c;
    use perigee_shard::{Shard, ShardOptions};
    use std::cell::Cell;
    use std::rc::Rc;
    use std::sync::Arc;
    use std::sync::mpsc::channel;

    const LONG: Duration = Duration::from_secs(60);
    /// Turns that the sums of the test need at least.
    const TURNS: usize = 8;

    fn range(bytes: &Arc<Vec<u8>>, from: usize, len: usize) -> Verdict {
        let first = bytes[from..from + len].as_ptr().cast_mut();
        // SAFETY: the vector is kept, and sums only read.
        Ok(unsafe { GrantedRange::new(first, len as u64, (0, bytes.clone())) })
    }

    #[test]
    fn others_get_their_turn_while_large_pieces_are_summed() {
        let bytes: Vec<u8> = (0..SUM_TURN_BYTES * TURNS).map(|at| (at / 7) as u8).collect();
        let bytes = Arc::new(bytes);
        let (send, receive) = channel();
        let shard = Shard::start(ShardOptions::named("test-sums"), move |environment| async move {
            // One piece that takes several turns, a refused one, and many that share one.
            let small = SUM_TURN_BYTES / 4 - 1;
            let mut lengths = vec![(0, SUM_TURN_BYTES * (TURNS - 1) + 5)];
            lengths.extend((0..8).map(|index| (index * 3, small)));
            let mut verdicts: Vec<Verdict> =
                lengths.iter().map(|(from, len)| range(&bytes, *from, *len)).collect();
            verdicts.push(Err(Status::InvalidParams));
            let (turns, is_over) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(false)));
            let (counted, watched, other) = (turns.clone(), is_over.clone(), environment.clone());
            environment.spawn(async move {
                while !watched.get() {
                    counted.set(counted.get() + 1);
                    other.sleep(Duration::ZERO).await;
                }
            });
            environment.sleep(Duration::ZERO).await;
            let before = turns.get();
            let sums = sums(&environment, &mut verdicts).await;
            is_over.set(true);
            let expected: Vec<u32> =
                lengths.iter().map(|(from, len)| crc32c(&bytes[*from..from + len])).collect();
            let _ = send.send((turns.get() - before, sums == [&expected[..], &[0]].concat()));
        });
        let (turns, right) = receive.recv_timeout(LONG).expect("the sums end");
        assert!(right);
        assert!(turns >= TURNS, "{turns} turns of others");
        shard.expect("a shard starts").join(LONG).expect("it ends");
    }
}
