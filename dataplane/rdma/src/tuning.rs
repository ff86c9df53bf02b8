//! What the variables say about rails: class and partition of the traffic, packets, slices, and
//! partners.

use perigee_rails::{Partners, RailTuning};
use perigee_settings::{SettingError, Variables};
use perigee_verbs::LinkOptions;
use perigee_verbs::limits::MTU_BYTES_MAX;
use std::collections::BTreeMap;

/// Packet payloads that can be asked for, in bytes.
const MTU_BYTES: [u32; 4] = [512, 1024, 2048, MTU_BYTES_MAX];
/// Slices that can be asked for, in bytes: from a page to what a queue pair keeps in flight.
const SLICE_BYTES_LEAST: u64 = 4 << 10;
const SLICE_BYTES_MOST: u64 = 8 << 20;
/// Tries of one slice that can be asked for.
const SLICE_TRIES_MOST: u16 = 127;

const PARTNERS: &str = "MC_NIC_PEER_AFFINITY";
const PARTNERS_FORM: &str = "write OURS=THEIRS[,THEIRS], several with ; between them";

/// Reads `MC_IB_PORT`, `MC_PKEY_INDEX`, `MC_IB_TC`, `MC_IB_SL`, `MC_MTU`, `MC_SLICE_SIZE`,
/// `MC_RETRY_CNT`, `MC_ENABLE_DEST_DEVICE_AFFINITY` and `MC_NIC_PEER_AFFINITY`.
///
/// # Errors
/// One has a value that cannot be used.
pub fn rail_tuning(variables: &Variables<'_>) -> Result<RailTuning, SettingError> {
    let usual = RailTuning::default();
    Ok(RailTuning {
        link: link(variables)?,
        slice_bytes: variables.within("MC_SLICE_SIZE", SLICE_BYTES_LEAST..=SLICE_BYTES_MOST)?,
        slice_tries: variables
            .within("MC_RETRY_CNT", 1..=SLICE_TRIES_MOST)?
            .unwrap_or(usual.slice_tries),
        partners: partners(variables)?,
    })
}

fn link(variables: &Variables<'_>) -> Result<LinkOptions, SettingError> {
    // Mooncake's own default, -1, leaves the class to the system.
    let class = |name, most: i16| -> Result<u8, SettingError> {
        let given = variables.within(name, -1..=most)?.unwrap_or(-1);
        Ok(u8::try_from(given).unwrap_or(0))
    };
    Ok(LinkOptions {
        port: variables.within("MC_IB_PORT", 1..=u8::MAX)?,
        partition_index: variables.within("MC_PKEY_INDEX", 0..=u16::MAX)?.unwrap_or(0),
        traffic_class: class("MC_IB_TC", 255)?,
        service_level: class("MC_IB_SL", 15)?,
        mtu_bytes: mtu_bytes(variables)?,
    })
}

fn mtu_bytes(variables: &Variables<'_>) -> Result<u32, SettingError> {
    const NAME: &str = "MC_MTU";
    const ALLOWED: &str = "512, 1024, 2048 or 4096";
    let given = variables.parsed(NAME, ALLOWED)?.unwrap_or(MTU_BYTES_MAX);
    match MTU_BYTES.contains(&given) {
        true => Ok(given),
        false => Err(SettingError::new(NAME, given.to_string(), format!("write {ALLOWED}"))),
    }
}

/// A list of partners goes before names that are the same.
fn partners(variables: &Variables<'_>) -> Result<Partners, SettingError> {
    let by_name = variables.switch("MC_ENABLE_DEST_DEVICE_AFFINITY", false)?;
    let Some(text) = variables.text(PARTNERS) else {
        return Ok(if by_name { Partners::SameName } else { Partners::ByPlace });
    };
    let refused = || SettingError::new(PARTNERS, &text, PARTNERS_FORM);
    let rules = text.split(';').map(str::trim).filter(|rule| !rule.is_empty());
    let rules = rules.map(|rule| rule_of(rule).ok_or_else(refused));
    let listed: BTreeMap<_, _> = rules.collect::<Result<_, _>>()?;
    if listed.is_empty() { Err(refused()) } else { Ok(Partners::Listed(listed)) }
}

fn rule_of(rule: &str) -> Option<(String, Vec<String>)> {
    let (own, theirs) = rule.split_once('=')?;
    let theirs: Vec<&str> = theirs.split(',').map(str::trim).collect();
    let is_whole = !own.trim().is_empty() && theirs.iter().all(|name| !name.is_empty());
    is_whole.then(|| (own.trim().to_owned(), theirs.into_iter().map(str::to_owned).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &str, value: &str) -> Result<RailTuning, SettingError> {
        let source = |asked: &str| (asked == name).then(|| value.to_owned());
        rail_tuning(&Variables::new(&source))
    }

    #[test]
    fn without_variables_nothing_is_asked_of_the_network() {
        assert_eq!(with("", ""), Ok(RailTuning::default()));
        for name in ["MC_IB_TC", "MC_IB_SL"] {
            assert_eq!(with(name, "-1"), Ok(RailTuning::default()), "{name}");
        }
    }

    #[test]
    fn each_variable_is_heard_up_to_its_bounds() {
        let link = |name, value| with(name, value).unwrap().link;
        assert_eq!(link("MC_IB_TC", "255").traffic_class, 255);
        assert_eq!(link("MC_IB_SL", "15").service_level, 15);
        assert_eq!(link("MC_PKEY_INDEX", "65535").partition_index, 65_535);
        assert_eq!(link("MC_IB_PORT", "255").port, Some(255));
        assert_eq!(link("MC_MTU", "512").mtu_bytes, 512);
        assert_eq!(with("MC_SLICE_SIZE", "65536").unwrap().slice_bytes, Some(65_536));
        assert_eq!(with("MC_RETRY_CNT", "127").unwrap().slice_tries, 127);
        let by_name = with("MC_ENABLE_DEST_DEVICE_AFFINITY", "1").unwrap().partners;
        assert_eq!(by_name, Partners::SameName);
        let listed = with(PARTNERS, " a = b , c ;d=e; ").unwrap().partners;
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let expected = [("a".to_owned(), names(&["b", "c"])), ("d".to_owned(), names(&["e"]))];
        assert_eq!(listed, Partners::Listed(expected.into()));
    }

    #[test]
    fn values_outside_of_the_bounds_are_refused_by_name() {
        for (name, values) in [
            ("MC_IB_TC", ["256", "-2", "high"]),
            ("MC_IB_SL", ["16", "-2", "low"]),
            ("MC_PKEY_INDEX", ["65536", "-1", "0x8001"]),
            ("MC_IB_PORT", ["0", "256", "one"]),
            ("MC_MTU", ["256", "1500", "big"]),
            ("MC_SLICE_SIZE", ["0", "4095", "8388609"]),
            ("MC_RETRY_CNT", ["0", "128", "often"]),
            ("MC_ENABLE_DEST_DEVICE_AFFINITY", ["2", "maybe", "x"]),
            (PARTNERS, ["a", "=b", "a=b,,c"]),
        ] {
            for value in values {
                let error = with(name, value).unwrap_err().to_string();
                assert!(error.contains(name) && error.contains(": write "), "{error}");
            }
        }
    }
}
