//! For how long a calling thread had no core, or was stopped, while it could have taken an answer.
//! That is this side's time, and no wire's. Invariant: no more than the exchange took.

use std::time::Duration;

/// Those of the exchange under way.
#[derive(Debug, Default)]
pub(super) struct OwnWaits {
    whole: Duration,
    /// Since its answer was there, without its payload.
    payload: Duration,
}

impl OwnWaits {
    pub(super) fn add(&mut self, wait: Duration) {
        self.whole += wait;
        self.payload += wait;
    }

    /// The answer is there, and its payload begins to arrive.
    pub(super) fn begin_payload(&mut self) {
        self.payload = Duration::ZERO;
    }

    /// The parts of an exchange of this length: this side's own, and the rest.
    pub(super) fn split(&self, took: Duration) -> (Duration, Duration) {
        let own = self.whole.min(took);
        (own, took - own)
    }

    /// How long a payload took to arrive, of a time that has own waits in it.
    pub(super) fn arrival(&self, took: Duration) -> Duration {
        took.saturating_sub(self.payload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_waits_are_taken_from_the_exchange_and_later_ones_from_its_payload() {
        let ms = Duration::from_millis;
        let mut waits = OwnWaits::default();
        waits.add(ms(3));
        waits.begin_payload();
        assert_eq!(waits.arrival(ms(2)), ms(2));
        waits.add(ms(4));
        assert_eq!(waits.split(ms(10)), (ms(7), ms(3)));
        assert_eq!(waits.split(ms(5)), (ms(5), ms(0)), "no more than the exchange");
        assert_eq!((waits.arrival(ms(9)), waits.arrival(ms(1))), (ms(5), ms(0)));
    }
}
