//! Interfaces and TCP connections.

use crate::kernel::{
    self, DEVICE_INDEX, DEVICE_NETWORK, GROUP_DATA_GROUP, GROUP_NODE, NODE_NUMBER, SKB_DEVICE,
    SOCK_GROUP_DATA, SOCK_NETWORK, SOCK_RX_INTERFACE, offset,
};
use crate::loss;
use aya_ebpf::bindings::{BPF_NOEXIST, BPF_SOCK_OPS_RTT_CB_FLAG, TC_ACT_UNSPEC, bpf_sock_ops};
use aya_ebpf::helpers::{bpf_get_socket_cookie, bpf_jiffies64, bpf_skc_to_tcp_sock};
use aya_ebpf::macros::{btf_tracepoint, classifier, map, sock_ops};
use aya_ebpf::maps::{Array, HashMap, LruHashMap, LruPerCpuHashMap, PerCpuArray};
use aya_ebpf::programs::{BtfTracePointContext, SockOpsContext, TcContext};
use perigee_probe_types::{
    ANSWERING_MAX, DROP_REASONS_MAX, DurationHistogram, GroupKey, INTERFACES_MAX, Loss, NicTotals,
    OTHER_GROUPS_MAX, OUR_GROUPS_MAX, TcpTotals, drop_slot,
};

#[map]
static NICS: PerCpuArray<NicTotals> = PerCpuArray::with_max_entries(INTERFACES_MAX, 0);
#[map]
static TCP: PerCpuArray<TcpTotals> = PerCpuArray::with_max_entries(INTERFACES_MAX, 0);
/// The shortest round trip since user space looked last, in nanoseconds; 0 for none. Buckets are
/// too coarse for small changes.
#[map]
static SHORTEST: PerCpuArray<u64> = PerCpuArray::with_max_entries(INTERFACES_MAX, 0);
/// What was sampled in the current tick of this CPU.
#[map]
static SAMPLED: PerCpuArray<Sampled> = PerCpuArray::with_max_entries(1, 0);
/// Connections that peers opened, by their cookie, and where they were when sampled last. What
/// answers a question is small as a rule, and acknowledged with the next question: its round trip
/// holds the pause between.
#[map]
static ANSWERING: LruHashMap<u64, Answered> = LruHashMap::with_max_entries(ANSWERING_MAX, 0);
/// Control groups of our processes, by the kernel's number.
#[map]
static OUR_GROUPS: HashMap<u64, u8> = HashMap::with_max_entries(OUR_GROUPS_MAX, 0);
/// Round trips of all other groups: user space takes them over when it learns that one is ours.
#[map]
static OTHERS: LruPerCpuHashMap<GroupKey, DurationHistogram> =
    LruPerCpuHashMap::with_max_entries(OTHER_GROUPS_MAX, 0);
/// Too large for the stack.
#[map]
static NO_ROUND_TRIPS: Array<DurationHistogram> = Array::with_max_entries(1, 0);
#[map]
static DROPS: PerCpuArray<u64> = PerCpuArray::with_max_entries(DROP_REASONS_MAX, 0);

/// Round trips that are looked at in each tick of a CPU, the first ones: to look at all of them
/// costs a small exchange some percent.
const SAMPLES_PER_TICK: u64 = 8;

#[repr(C)]
#[derive(Clone, Copy)]
struct Sampled {
    tick: u64,
    samples: u64,
}

/// Bytes that the peer has acknowledged, and segments that came from it.
#[repr(C)]
#[derive(Clone, Copy)]
struct Answered {
    acknowledged: u64,
    segments: u64,
}

/// Operation numbers of `sock_ops`.
const ACTIVE_ESTABLISHED: u32 = 4;
const PASSIVE_ESTABLISHED: u32 = 5;
const ROUND_TRIP: u32 = 12;

/// Slot of an interface; 0 for what has none.
#[inline(always)]
fn slot(interface: u32) -> u32 {
    if interface < INTERFACES_MAX { interface } else { 0 }
}

#[classifier]
pub fn nic_ingress(context: TcContext) -> i32 {
    let skb = context.skb.skb;
    // SAFETY: the context is valid for the length of the program. On the way in, `wire_len` lacks
    // the link header.
    let (interface, bytes, segments) = unsafe { ((*skb).ifindex, (*skb).len, (*skb).gso_segs) };
    if let Some(totals) = NICS.get_ptr_mut(slot(interface)) {
        // SAFETY: the slot belongs to this CPU.
        unsafe {
            (*totals).receive_bytes += u64::from(bytes);
            (*totals).receive_packets += u64::from(segments.max(1));
        }
    }
    TC_ACT_UNSPEC
}

#[classifier]
pub fn nic_egress(context: TcContext) -> i32 {
    let skb = context.skb.skb;
    // SAFETY: as above. On the way out a buffer may become many packets; `wire_len` counts the
    // headers of each.
    let (interface, bytes, segments) =
        unsafe { ((*skb).ifindex, (*skb).wire_len, (*skb).gso_segs) };
    if let Some(totals) = NICS.get_ptr_mut(slot(interface)) {
        // SAFETY: the slot belongs to this CPU.
        unsafe {
            (*totals).transmit_bytes += u64::from(bytes);
            (*totals).transmit_packets += u64::from(segments.max(1));
        }
    }
    TC_ACT_UNSPEC
}

/// Sits on the highest control group there is: the kernel samples only connections that asked for
/// it when they began, and whose they are may be known later.
#[sock_ops]
pub fn tcp_round_trip(context: SockOpsContext) -> u32 {
    match context.op() {
        ACTIVE_ESTABLISHED | PASSIVE_ESTABLISHED => {
            let flags = context.cb_flags() as i32 | BPF_SOCK_OPS_RTT_CB_FLAG as i32;
            let _ = context.set_cb_flags(flags);
            if context.op() == PASSIVE_ESTABLISHED {
                let none = Answered { acknowledged: 0, segments: 0 };
                let _ = ANSWERING.insert(&cookie(context.ops), &none, 0);
            }
        }
        ROUND_TRIP if is_sampled() && !may_be_delayed(context.ops) => count_round_trip(context.ops),
        _ => {}
    }
    1
}

#[inline(always)]
fn cookie(operations: *mut bpf_sock_ops) -> u64 {
    // SAFETY: the context is valid for the length of the program.
    unsafe { bpf_get_socket_cookie(operations.cast()) }
}

/// Whether there is room in this tick for one more.
#[inline(always)]
fn is_sampled() -> bool {
    let Some(sampled) = SAMPLED.get_ptr_mut(0) else {
        return false;
    };
    // SAFETY: the slot belongs to this CPU; the helper has no requirements.
    unsafe {
        let tick = bpf_jiffies64();
        if (*sampled).tick != tick {
            *sampled = Sampled { tick, samples: 0 };
        }
        (*sampled).samples += 1;
        (*sampled).samples <= SAMPLES_PER_TICK
    }
}

/// Whether an answer of at most one segment was acknowledged: the peer may have waited with that.
/// It acknowledges more at once. How much it was is known if nothing came since the last sample.
#[inline(always)]
fn may_be_delayed(operations: *mut bpf_sock_ops) -> bool {
    let Some(before) = ANSWERING.get_ptr_mut(&cookie(operations)) else {
        return false;
    };
    // SAFETY: the context is valid for the length of the program, and the kernel calls it with the
    // socket locked.
    unsafe {
        let now = Answered {
            acknowledged: (*operations).bytes_acked,
            segments: u64::from((*operations).segs_in),
        };
        let more = now.acknowledged.wrapping_sub((*before).acknowledged);
        let segments = now.segments.wrapping_sub((*before).segments);
        *before = now;
        segments > 1 || more <= u64::from((*operations).mss_cache)
    }
}

#[inline(always)]
fn count_round_trip(operations: *mut bpf_sock_ops) {
    // SAFETY: the context is valid for the length of the program, and the arguments are numbers.
    let (measured_us, smoothed, socket) = unsafe {
        let operations = &*operations;
        let measured = operations.__bindgen_anon_1.args[0];
        (measured, operations.srtt_us, operations.__bindgen_anon_2.sk)
    };
    // Kernels before 6.9 tell the smoothed time only, in eighths.
    let round_trip_us = if measured_us > 0 { measured_us } else { smoothed >> 3 };
    if socket.is_null() {
        return;
    }
    // SAFETY: the helper takes any socket and answers null for one that is no TCP socket.
    let socket = unsafe { bpf_skc_to_tcp_sock(socket.cast()) }.cast::<u8>();
    if socket.is_null() {
        return;
    }
    let interface = slot(interface_of(socket));
    let round_trip_ns = u64::from(round_trip_us) * 1000;
    let group = group_of(socket);
    if OUR_GROUPS.get_ptr(&group).is_none() {
        return count_of_other(GroupKey { group, interface, reserved: 0 }, round_trip_ns);
    }
    if let Some(totals) = TCP.get_ptr_mut(interface) {
        // SAFETY: the slot belongs to this CPU.
        unsafe { (*totals).round_trip.add(round_trip_ns) };
    }
    if let Some(shortest) = SHORTEST.get_ptr_mut(interface) {
        // SAFETY: the slot belongs to this CPU; user space only sets it to 0, which may lose one
        // value.
        unsafe {
            if *shortest == 0 || round_trip_ns < *shortest {
                *shortest = round_trip_ns;
            }
        }
    }
}

/// Counts a round trip of a group that is not known to be ours, or not yet.
#[inline(always)]
fn count_of_other(key: GroupKey, round_trip_ns: u64) {
    let found = OTHERS.get_ptr_mut(&key).or_else(|| {
        let _ = OTHERS.insert(&key, NO_ROUND_TRIPS.get(0)?, u64::from(BPF_NOEXIST));
        OTHERS.get_ptr_mut(&key)
    });
    match found {
        // SAFETY: the value belongs to this CPU.
        Some(found) => unsafe { (*found).add(round_trip_ns) },
        None => loss::count(Loss::GroupMap),
    }
}

/// The kernel's number of the control group that a socket was made in; 0 if it does not say.
#[inline(always)]
fn group_of(socket: *const u8) -> u64 {
    let place = offset(&SOCK_GROUP_DATA) + offset(&GROUP_DATA_GROUP);
    let group = kernel::member::<*const u8>(socket, place);
    let node = group.and_then(|group| kernel::member::<*const u8>(group, offset(&GROUP_NODE)));
    node.and_then(|node| kernel::member(node, offset(&NODE_NUMBER))).unwrap_or(0)
}

/// The interface that a socket last received on; 0 for one of another network namespace, which
/// numbers its own.
#[inline(always)]
fn interface_of(socket: *const u8) -> u32 {
    if kernel::is_foreign(kernel::member(socket, offset(&SOCK_NETWORK))) {
        return 0;
    }
    kernel::member(socket, offset(&SOCK_RX_INTERFACE)).unwrap_or(0)
}

#[inline(always)]
fn of_socket(context: &BtfTracePointContext, argument: usize) -> Option<*mut TcpTotals> {
    let socket: *const u8 = context.arg(argument);
    let interface = interface_of(socket);
    TCP.get_ptr_mut(slot(interface))
}

#[btf_tracepoint(function = "tcp_retransmit_skb")]
pub fn tcp_retransmit(context: BtfTracePointContext) -> i32 {
    if let Some(totals) = of_socket(&context, 0) {
        // SAFETY: the slot belongs to this CPU.
        unsafe { (*totals).retransmits += 1 };
    }
    0
}

#[btf_tracepoint(function = "tcp_send_reset")]
pub fn tcp_reset_sent(context: BtfTracePointContext) -> i32 {
    if let Some(totals) = of_socket(&context, 0) {
        // SAFETY: the slot belongs to this CPU.
        unsafe { (*totals).resets_sent += 1 };
    }
    0
}

#[btf_tracepoint(function = "tcp_receive_reset")]
pub fn tcp_reset_received(context: BtfTracePointContext) -> i32 {
    if let Some(totals) = of_socket(&context, 0) {
        // SAFETY: the slot belongs to this CPU.
        unsafe { (*totals).resets_received += 1 };
    }
    0
}

/// `kfree_skb(skb, location, reason)`: only packets that were dropped, not those that were used up.
#[btf_tracepoint(function = "kfree_skb")]
pub fn packet_drop(context: BtfTracePointContext) -> i32 {
    let reason: u32 = context.arg(2);
    if let Some(cell) = DROPS.get_ptr_mut(drop_slot(reason)) {
        // SAFETY: the slot belongs to this CPU.
        unsafe { *cell += 1 };
    }
    let skb: *const u8 = context.arg(0);
    let device = kernel::member::<*const u8>(skb, offset(&SKB_DEVICE));
    let own = device.filter(|device| {
        let network = kernel::member(*device, offset(&DEVICE_NETWORK));
        !kernel::is_foreign(network)
    });
    let interface = own.and_then(|device| kernel::member::<u32>(device, offset(&DEVICE_INDEX)));
    if let Some(cell) = NIC_DROPS.get_ptr_mut(slot(interface.unwrap_or(0))) {
        // SAFETY: the slot belongs to this CPU.
        unsafe { *cell += 1 };
    }
    0
}

#[map]
static NIC_DROPS: PerCpuArray<u64> = PerCpuArray::with_max_entries(INTERFACES_MAX, 0);
