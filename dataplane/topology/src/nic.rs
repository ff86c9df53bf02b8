//! Network interfaces as sysfs shows them. Invariant: an interface without a device below it is
//! virtual, whatever its name.

use crate::place::DevicePlace;
use crate::roots::Folder;

/// `ARPHRD_LOOPBACK`, the type of `lo`.
const TYPE_LOOPBACK: u32 = 772;

/// What an interface is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NicKind {
    /// A card or a virtual machine's card.
    Physical,
    /// Several cards as one.
    Bond,
    /// Software only: veth, bridge, VLAN, tunnel.
    Virtual,
    /// The loopback interface.
    Loopback,
}

/// Whether an interface carries data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperState {
    /// It does.
    Up,
    /// It does not.
    Down,
    /// Drivers without carrier detection do not say.
    Unknown,
}

/// One network interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nic {
    /// Name, such as `eth0`.
    pub name: String,
    /// Where it sits.
    pub place: DevicePlace,
    /// What it is.
    pub kind: NicKind,
    /// Speed in megabits per second; `None` if the driver does not say or there is no link.
    pub speed_mbps: Option<u64>,
    /// Largest payload of a frame, in bytes.
    pub mtu: Option<u32>,
    /// Whether it carries data.
    pub state: OperState,
    /// Hardware address as written in sysfs.
    pub mac: String,
}

impl Nic {
    /// True for cards and bonds of cards.
    #[must_use]
    pub fn is_physical(&self) -> bool {
        matches!(self.kind, NicKind::Physical | NicKind::Bond)
    }
}

/// All interfaces by name.
pub(crate) fn read(sys: &Folder) -> Vec<Nic> {
    let names = sys.names("class/net");
    // Files such as `bonding_masters` lie beside the interfaces.
    let interfaces = names.into_iter().filter(|name| sys.has(&format!("class/net/{name}/ifindex")));
    interfaces.map(|name| read_nic(sys, name)).collect()
}

fn read_nic(sys: &Folder, name: String) -> Nic {
    let folder = format!("class/net/{name}");
    let speed: Option<i64> = sys.number(&format!("{folder}/speed"));
    let state = match sys.text(&format!("{folder}/operstate")).as_deref() {
        Some("up") => OperState::Up,
        Some("down" | "lowerlayerdown" | "dormant" | "notpresent") => OperState::Down,
        _ => OperState::Unknown,
    };
    Nic {
        place: DevicePlace::read(sys, &format!("{folder}/device")),
        kind: kind_of(sys, &folder),
        // -1 stands for unknown.
        speed_mbps: speed.and_then(|mbps| u64::try_from(mbps).ok()).filter(|mbps| *mbps > 0),
        mtu: sys.number(&format!("{folder}/mtu")),
        state,
        mac: sys.word(&format!("{folder}/address")).unwrap_or_default(),
        name,
    }
}

fn kind_of(sys: &Folder, folder: &str) -> NicKind {
    if sys.number(&format!("{folder}/type")) == Some(TYPE_LOOPBACK) {
        NicKind::Loopback
    } else if sys.has(&format!("{folder}/device")) {
        NicKind::Physical
    } else if sys.has(&format!("{folder}/bonding")) {
        NicKind::Bond
    } else {
        NicKind::Virtual
    }
}
