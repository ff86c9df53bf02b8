//! Read leases that clients give back: each goes to the shard that granted it, and no caller waits
//! for that.

use super::control_shard::ControlShard;
use perigee_master::GivenBack;
use perigee_shard::{Environment, Post};

impl<E: Environment> ControlShard<E> {
    /// Takes leases back on the shards that granted them.
    pub(crate) fn take_back(&self, leases: &[GivenBack]) {
        // A shard leaves alone what is not its own.
        self.keys.borrow_mut().give_back(self.now_ms(), leases);
        for (index, member) in self.members().iter().enumerate() {
            let is_theirs = |lease: &&GivenBack| lease.shard() == Some(index);
            let theirs: Vec<GivenBack> = leases.iter().filter(is_theirs).copied().collect();
            if index == self.index || theirs.is_empty() {
                continue;
            }
            let name = member.name;
            member.mailbox.post(Box::new(move |environment: &E| {
                if let Some(shard) = environment.local(name) {
                    shard.keys.borrow_mut().give_back(shard.now_ms(), &theirs);
                }
            }));
        }
    }
}
