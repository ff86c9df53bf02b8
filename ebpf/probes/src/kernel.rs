//! Offsets of kernel structures, set by the loader, and reads at them.

macro_rules! offsets {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        $($(#[$doc])* #[unsafe(no_mangle)] pub static $name: u32 = 0;)*
    };
}

offsets! {
    /// `sock.__sk_common.skc_bound_dev_if` is rarely set, so the interface of received packets is
    /// taken.
    SOCK_RX_INTERFACE,
    /// Every socket begins with a `sock_common`.
    SOCK_NETWORK,
    SOCK_GROUP_DATA,
    GROUP_DATA_GROUP,
    GROUP_NODE,
    NODE_NUMBER,
    SKB_DEVICE,
    DEVICE_INDEX,
    DEVICE_NETWORK,
    NETWORK_COMMON,
    COMMON_NUMBER,
    REQUEST_QUEUE,
    REQUEST_START_NS,
    REQUEST_FLAGS,
    QUEUE_DISK,
    DISK_MAJOR,
    DISK_MINOR,
    TASK_PID,
    TASK_SCHEDULING,
    TASK_ENTITY,
    SCHEDULING_DELAY,
    SCHEDULING_ARRIVAL,
    ENTITY_RAN,
}

/// Set by the loader: number of its own network namespace, 0 if it is not known.
#[unsafe(no_mangle)]
static OWN_NETWORK: u32 = 0;

/// Whether a `struct net` is another network namespace than the loader's. Each numbers and names
/// its NICs for itself.
#[inline(always)]
pub fn is_foreign(network: Option<*const u8>) -> bool {
    // SAFETY: a static is valid for reads.
    let own = unsafe { core::ptr::read_volatile(&raw const OWN_NETWORK) };
    let place = offset(&NETWORK_COMMON) + offset(&COMMON_NUMBER);
    let number = network.and_then(|network| member::<u32>(network, place));
    own != 0 && number != Some(own)
}

/// The value the loader set. Volatile, because the compiler only sees the zero.
#[inline(always)]
pub fn offset(name: &'static u32) -> usize {
    // SAFETY: a reference is valid for reads.
    unsafe { core::ptr::read_volatile(name) as usize }
}

/// Reads a member of what the verifier knows the type of: an argument of a tracepoint, or what one
/// points to. A plain load costs a tenth of the helper's price. It needs an offset that cannot
/// change, as the loader's are, and reads 0 from a bad address.
#[inline(always)]
pub fn member<T: Copy>(base: *const u8, offset: usize) -> Option<T> {
    if base.is_null() {
        return None;
    }
    // SAFETY: the verifier checks that the type has a member of this size there, and the kernel
    // catches faults.
    Some(unsafe { core::ptr::read_volatile(base.wrapping_add(offset).cast::<T>()) })
}
