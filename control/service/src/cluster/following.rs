//! What a shard notes goes to the owners of segments, and what they announce comes in.
//! Invariant: no answer leaves before the records of what came of its call.

use super::control_shard::ControlShard;
use super::followers::Follower;
use perigee_master::Announcement;
use perigee_schemas::Status;
use perigee_shard::{CallReply, Environment};
use std::rc::Rc;

impl<E: Environment> ControlShard<E> {
    /// An owner begins to follow a segment: what is noted from now on is for it. Nothing is sent
    /// before [`Follower::begin`].
    pub(crate) fn let_follow(&self, segment: u32, stream: &E::Stream) -> Option<Rc<Follower<E>>> {
        self.collect_records();
        let mut keys = self.keys.borrow_mut();
        keys.follow(segment).then(|| {
            let follower = Follower::new(stream);
            self.followers.enter(segment, &follower);
            follower
        })
    }

    /// An owner follows no more.
    pub(crate) fn end_following(&self, segment: u32, follower: &Rc<Follower<E>>) {
        if self.followers.leave(segment, follower) {
            self.keys.borrow_mut().unfollow(segment);
        }
    }

    /// Takes over what an owner announces of its segment.
    pub(crate) fn announce(
        &self,
        segment: u32,
        announced: &Announcement<'_>,
    ) -> Result<usize, Status> {
        let adopted = self.keys.borrow_mut().announce(self.now_ms(), segment, announced)?;
        self.count_adopted(adopted);
        if announced.is_last {
            self.count_awaited();
        }
        Ok(adopted)
    }

    /// Hands what the shard has noted to the followers; those that are to be sent something.
    fn collect_records(&self) -> Vec<Rc<Follower<E>>> {
        let mut keys = self.keys.borrow_mut();
        while let Some((segment, records)) = keys.take_records() {
            if !self.followers.note(segment, records) {
                keys.unfollow(segment);
            }
        }
        self.followers.with_unsent()
    }

    /// Answers a call of another shard when owners have been sent what came of it.
    pub(crate) fn reply_when_sent<R: Send + 'static>(
        self: Rc<Self>,
        reply: CallReply<E, Option<R>>,
        result: R,
    ) {
        if self.collect_records().is_empty() {
            return reply.give(Some(result));
        }
        let environment = self.environment.clone();
        environment.spawn(async move {
            self.flush_records().await;
            reply.give(Some(result));
        });
    }

    /// Resolves when owners have been sent all that was noted before. An answer that leaves after
    /// it says what a master that is started after this one will find. False if there was nothing.
    pub(crate) async fn flush_records(&self) -> bool {
        let mut had_some = false;
        for follower in self.collect_records() {
            had_some = true;
            if !follower.flush(&self.environment).await {
                self.cells.followers_cut.add(1);
            }
        }
        had_some
    }
}
