//! What an exchange cost its server, by the server's clock alone. Invariant: what is left of the
//! exchange beside these times was spent on the wire, or at a peer that cannot know it.

use perigee_schemas::mover::Times;
use std::time::Duration;

/// Parts of an exchange that its server measured; zero from peers that do not measure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerTimes {
    /// Ready to serve it, but without a core.
    pub waited: Duration,
    /// Judging, summing and staging its bytes.
    pub copied: Duration,
    /// Reading it from disks.
    pub disk: Duration,
}

impl ServerTimes {
    /// As it travels.
    pub(crate) fn encode(self) -> Times {
        let short = |length: Duration| u32::try_from(length.as_nanos()).unwrap_or(u32::MAX);
        let disk = u64::try_from(self.disk.as_nanos()).unwrap_or(u64::MAX);
        Times::new(disk, short(self.waited), short(self.copied))
    }

    /// As a peer says it; any numbers are times.
    pub(crate) fn decode(times: &Times) -> Self {
        Self {
            waited: Duration::from_nanos(times.waited().into()),
            copied: Duration::from_nanos(times.copied().into()),
            disk: Duration::from_nanos(times.disk()),
        }
    }

    /// The same in nanoseconds, no more in sum than the exchange took: a peer may say anything.
    pub(crate) fn within(self, total_ns: u64) -> [u64; 3] {
        let mut left = total_ns;
        [self.waited, self.copied, self.disk].map(|part| {
            let part = u64::try_from(part.as_nanos()).unwrap_or(u64::MAX).min(left);
            left -= part;
            part
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_travel_and_long_ones_stay_long() {
        let times = |waited| ServerTimes {
            waited,
            copied: Duration::from_nanos(5),
            disk: Duration::from_secs(60),
        };
        let short = times(Duration::from_micros(40));
        assert_eq!(ServerTimes::decode(&short.encode()), short);
        let long = ServerTimes::decode(&times(Duration::from_secs(60)).encode());
        assert_eq!(long, times(Duration::from_nanos(u32::MAX.into())));
    }

    #[test]
    fn a_server_cannot_claim_more_than_the_exchange_took() {
        let nanos = Duration::from_nanos;
        let times = ServerTimes { waited: nanos(70), copied: nanos(50), disk: nanos(9) };
        assert_eq!(times.within(1000), [70, 50, 9]);
        assert_eq!(times.within(100), [70, 30, 0]);
        assert_eq!(times.within(0), [0, 0, 0]);
    }
}
