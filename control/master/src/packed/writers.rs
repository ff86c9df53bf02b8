//! The clients that wrote what is packed, by short numbers.
//! Invariant: a client has a number exactly while records name it.

use std::collections::HashMap;

#[derive(Debug, Default)]
pub(super) struct Writers {
    numbers: HashMap<u128, u16>,
    /// By number: the client and how many records name it.
    clients: Vec<(u128, usize)>,
    free: Vec<u16>,
}

impl Writers {
    /// The number of a client, for one more record; `None` if there are too many clients.
    pub(super) fn hold(&mut self, client: u128) -> Option<u16> {
        if let Some(number) = self.numbers.get(&client) {
            self.clients[usize::from(*number)].1 += 1;
            return Some(*number);
        }
        let number = match self.free.pop() {
            Some(number) => number,
            None => u16::try_from(self.clients.len()).ok()?,
        };
        match self.clients.get_mut(usize::from(number)) {
            Some(known) => *known = (client, 1),
            None => self.clients.push((client, 1)),
        }
        self.numbers.insert(client, number);
        Some(number)
    }

    /// One record less names a client.
    pub(super) fn release(&mut self, number: u16) {
        let (client, records) = &mut self.clients[usize::from(number)];
        *records -= 1;
        if *records == 0 {
            self.numbers.remove(client);
            self.free.push(number);
        }
    }

    /// The client of a number.
    pub(super) fn get(&self, number: u16) -> u128 {
        self.clients.get(usize::from(number)).map_or(0, |(client, _)| *client)
    }

    /// Panics unless these are the numbers that records name.
    pub(super) fn check(&self, named: impl Iterator<Item = u16>) {
        let mut counts = vec![0; self.clients.len()];
        named.for_each(|number| counts[usize::from(number)] += 1);
        let known: Vec<usize> = self.clients.iter().map(|(_, records)| *records).collect();
        assert_eq!(counts, known);
        let in_use = known.iter().filter(|records| **records > 0).count();
        assert_eq!((self.numbers.len(), self.free.len()), (in_use, known.len() - in_use));
        let mut numbers = self.numbers.iter();
        assert!(numbers.all(|(client, number)| self.get(*number) == *client));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_used_again_when_nothing_names_it() {
        let mut writers = Writers::default();
        let numbers = [7, 8, 7].map(|client| writers.hold(client).unwrap());
        assert_eq!(numbers, [0, 1, 0]);
        writers.release(0);
        assert_eq!((writers.get(0), writers.hold(9)), (7, Some(2)));
        writers.release(0);
        assert_eq!(writers.hold(10), Some(0));
        writers.check([0, 1, 2].into_iter());
    }

    #[test]
    fn more_clients_than_there_are_numbers_get_none() {
        let mut writers = Writers::default();
        let most = u32::from(u16::MAX) + 1;
        assert!((0..most).all(|client| writers.hold(client.into()).is_some()));
        assert_eq!((writers.hold(u128::MAX), writers.hold(3)), (None, Some(3)));
        writers.release(5);
        assert_eq!(writers.hold(u128::MAX), Some(5));
    }
}
