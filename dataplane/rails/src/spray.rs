//! Which rail the next slice goes to: the one that will have delivered it first, by measured
//! bandwidth.
//!
//! A slice is bound as late as possible. A slow rail is used only if it delivers the slice before
//! the better ones would have worked off everything that waits; so a slow rail adds its share and
//! never holds up the rest.

use std::time::Duration;

/// A rail as the choice sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SprayLane {
    /// Bytes in flight that the slice would queue behind.
    pub(crate) in_flight: u64,
    /// Measured bandwidth in bytes per second.
    pub(crate) bandwidth: f64,
    /// What its distance from the memory at both ends costs: 1 beside it, more further away.
    pub(crate) weight: f64,
    /// Whether it takes another slice now.
    pub(crate) has_room: bool,
}

impl SprayLane {
    /// When it will have delivered `bytes` more, in weighted seconds.
    fn finish(&self, bytes: u64) -> f64 {
        (self.in_flight + bytes) as f64 / self.bandwidth.max(1.0) * self.weight.max(1.0)
    }
}

/// What to do with a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SprayChoice {
    /// Send it over the lane of this index.
    Take(usize),
    /// Keep it until a better lane has room.
    Hold,
    /// There is no lane at all.
    Nowhere,
}

/// Chooses the lane for a slice of `slice_bytes`, with `backlog_bytes` (the slice included) that
/// wait unbound.
pub(crate) fn choose(lanes: &[SprayLane], slice_bytes: u64, backlog_bytes: u64) -> SprayChoice {
    let finish = |lane: &SprayLane| lane.finish(slice_bytes);
    let best_of = |room: bool| {
        let lanes = lanes.iter().enumerate();
        lanes
            .filter(|(_, lane)| lane.has_room || !room)
            .min_by(|(_, a), (_, b)| finish(a).total_cmp(&finish(b)))
    };
    let Some((best, _)) = best_of(false) else {
        return SprayChoice::Nowhere;
    };
    let Some((open, lane)) = best_of(true) else {
        return SprayChoice::Hold;
    };
    debug_assert!(lane.has_room && best < lanes.len());
    if open == best || finish(lane) <= others_finish(lanes, open, backlog_bytes) {
        SprayChoice::Take(open)
    } else {
        SprayChoice::Hold
    }
}

/// When the lanes other than `except` would have delivered what they have and the whole backlog.
fn others_finish(lanes: &[SprayLane], except: usize, backlog_bytes: u64) -> f64 {
    let (mut bytes, mut speed) = (backlog_bytes, 0.0);
    for (index, lane) in lanes.iter().enumerate() {
        if index != except {
            bytes += lane.in_flight;
            speed += lane.bandwidth.max(1.0) / lane.weight.max(1.0);
        }
    }
    bytes as f64 / speed.max(1.0)
}

/// Bytes a lane of this bandwidth takes before it counts as full.
pub(crate) fn window_bytes(bandwidth: f64, time: Duration, least: u64, most: u64) -> u64 {
    debug_assert!(least <= most, "a window has its bounds in order");
    ((bandwidth * time.as_secs_f64()) as u64).clamp(least, most)
}

#[cfg(test)]
mod tests;
