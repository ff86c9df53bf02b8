//! The linked list of work requests that goes to the device in one call.
//! Invariant: requests point only into the chain's own arrays, or into data that the caller lends
//! until the call returns.

use std::ffi::c_int;
use std::ptr;

use crate::limits::CHAIN_MAX;
use crate::work::{Sge, WorkOperation, WorkRequest};

use super::super::abi::{
    IBV_SEND_INLINE, IBV_SEND_SIGNALED, IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE, Zeroed, ibv_send_wr,
    ibv_sge,
};

/// Room for [`CHAIN_MAX`] requests with all their pieces.
pub(super) struct Chain {
    requests: Box<[ibv_send_wr]>,
    pieces: Box<[ibv_sge]>,
    pieces_each: usize,
    length: usize,
}

impl Chain {
    pub(super) fn new(pieces_each: usize) -> Chain {
        let pieces_each = pieces_each.max(1);
        Chain {
            requests: (0..CHAIN_MAX).map(|_| ibv_send_wr::zeroed()).collect(),
            pieces: (0..CHAIN_MAX * pieces_each).map(|_| ibv_sge::zeroed()).collect(),
            pieces_each,
            length: 0,
        }
    }

    /// Fills the arrays; at most [`CHAIN_MAX`] requests, each within its limits. Returns the first.
    pub(super) fn build(&mut self, requests: &[WorkRequest<'_>]) -> *mut ibv_send_wr {
        self.length = requests.len().min(CHAIN_MAX);
        let first = self.requests.as_mut_ptr();
        let rows = self.pieces.chunks_exact_mut(self.pieces_each);
        let filled = self.requests.iter_mut().zip(rows).zip(requests);
        for (index, ((to, row), from)) in filled.enumerate() {
            fill(to, row, from);
            to.next = if index + 1 < self.length {
                // `wrapping_add` stays in bounds: there are `length` requests.
                first.wrapping_add(index + 1)
            } else {
                ptr::null_mut()
            };
        }
        first
    }

    /// Which request `bad` is, counted from the first; nothing was accepted if it is none of ours.
    pub(super) fn position(&self, bad: *const ibv_send_wr) -> usize {
        let known = self.requests[..self.length].iter();
        known.take_while(|own| !ptr::eq(*own, bad)).count() % self.length.max(1)
    }
}

fn fill(to: &mut ibv_send_wr, row: &mut [ibv_sge], from: &WorkRequest<'_>) {
    let (opcode, inline, count) = match from.operation {
        WorkOperation::Read(pieces) => (IBV_WR_RDMA_READ, 0, fill_pieces(row, pieces)),
        WorkOperation::Write(pieces) => (IBV_WR_RDMA_WRITE, 0, fill_pieces(row, pieces)),
        WorkOperation::WriteInline(data) => {
            row[0] = ibv_sge { addr: data.as_ptr() as u64, length: data.len() as u32, lkey: 0 };
            (IBV_WR_RDMA_WRITE, IBV_SEND_INLINE, usize::from(!data.is_empty()))
        }
    };
    to.wr_id = from.id;
    to.sg_list = row.as_mut_ptr();
    to.num_sge = count as c_int;
    to.opcode = opcode;
    to.send_flags = inline | if from.signaled { IBV_SEND_SIGNALED } else { 0 };
    to.remote_addr = from.remote_address;
    to.rkey = from.remote_key;
}

fn fill_pieces(row: &mut [ibv_sge], pieces: &[Sge]) -> usize {
    for (to, from) in row.iter_mut().zip(pieces) {
        *to = ibv_sge { addr: from.address, length: from.bytes, lkey: from.local_key };
    }
    pieces.len().min(row.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(address: u64) -> Sge {
        Sge { address, bytes: 8, local_key: 3 }
    }

    #[test]
    fn requests_are_linked_in_order_and_a_bad_one_is_found() {
        let pieces = [piece(1), piece(2)];
        let work = WorkRequest {
            id: 1,
            operation: WorkOperation::Write(&pieces),
            remote_address: 9,
            remote_key: 7,
            signaled: false,
        };
        let read = WorkRequest {
            id: 2,
            operation: WorkOperation::Read(&pieces[1..]),
            signaled: true,
            ..work
        };
        let mut chain = Chain::new(2);
        let first = chain.build(&[work, read]);
        let [one, two] = [chain.requests[0], chain.requests[1]];
        assert!(ptr::eq(first, &chain.requests[0]));
        assert!(ptr::eq(one.next, &chain.requests[1]));
        assert!(two.next.is_null());
        assert_eq!((one.wr_id, one.num_sge, one.send_flags), (1, 2, 0));
        assert_eq!((two.wr_id, two.num_sge, two.send_flags), (2, 1, IBV_SEND_SIGNALED));
        assert_eq!((two.opcode, two.remote_addr, two.rkey), (IBV_WR_RDMA_READ, 9, 7));
        assert_eq!(chain.pieces[2].addr, 2);
        assert_eq!(chain.position(&chain.requests[1]), 1);
        assert_eq!(chain.position(ptr::null()), 0);
        chain.build(&[work]);
        assert!(chain.requests[0].next.is_null());
    }

    #[test]
    fn inline_data_is_pointed_at_and_empty_data_has_no_piece() {
        let data = [5; 3];
        let work = |operation| WorkRequest {
            id: 1,
            operation,
            remote_address: 0,
            remote_key: 0,
            signaled: false,
        };
        let mut chain = Chain::new(1);
        chain.build(&[
            work(WorkOperation::WriteInline(&data)),
            work(WorkOperation::WriteInline(&[])),
        ]);
        assert_eq!(chain.pieces[0].addr, data.as_ptr() as u64);
        assert_eq!((chain.pieces[0].length, chain.requests[0].num_sge), (3, 1));
        assert_eq!(chain.requests[0].send_flags, IBV_SEND_INLINE);
        assert_eq!(chain.requests[1].num_sge, 0);
    }
}
