//! What `perigee inspect key` writes.

use super::*;

fn words(text: &[&str]) -> Vec<String> {
    text.iter().map(|word| (*word).to_owned()).collect()
}

fn sample() -> KeyReport {
    KeyReport {
        shard: 3,
        object: Some(ReportedObject {
            writer: Some("1-2".to_owned()),
            crc32c: "0badcafe".to_owned(),
            group: None,
            hard_pin: false,
            soft_pin_ms: Some(61_000),
            lease_ms: 0,
            was_read: true,
            idle_ms: 12_340,
            replicas: vec![ReportedReplica {
                medium: "disk".into(),
                segment: "host-a/nvme0".to_owned(),
                endpoint: "10.0.0.1:7".to_owned(),
                offset: 5,
                payload_bytes: 1 << 20,
                generation: 9,
                standing: "stays".into(),
            }],
        }),
        unfinished_puts: 0,
        departures: vec![ReportedDeparture {
            ago_ms: 850,
            cause: "put_needed_room".into(),
            reason: "evicted: a put found no room".into(),
            medium: "memory".into(),
            payload_bytes: 1 << 20,
            idle_ms: 4_000,
            was_read: false,
            replicas_left: 1,
            no_copy: None,
        }],
        departures_reach_ms: Some(11_520_000),
    }
}

#[test]
fn table_is_sound() {
    assert_eq!(KEY.check(), Vec::<String>::new());
}

#[test]
fn the_first_word_is_the_key() {
    let flags = with_flag_for_key(&words(&["a/b", "--format=json"])).unwrap();
    assert_eq!(flags, words(&["--key=a/b", "--format=json"]));
    assert!(with_flag_for_key(&words(&["a", "b"])).unwrap_err().to_string().contains("quotes"));
}

#[test]
fn what_is_there_and_what_went_are_one_line_each() {
    let text = text("a/b", &sample());
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "key a/b (shard 3)");
    assert!(lines[1].contains("was read, not touched for 12.3 s, pinned softly for 1 min 1 s"));
    assert!(lines[2].contains("host-a/nvme0 at 10.0.0.1:7: stays"), "{}", lines[2]);
    assert!(lines[3].contains("850 ms ago from memory, evicted: a put found no room"));
    assert!(lines[3].ends_with("1 replica was left"));
    assert!(lines[4].contains("3 h 12 min"), "{}", lines[4]);
    let nothing = KeyReport { object: None, departures: Vec::new(), ..sample() };
    assert!(super::text("a", &nothing).contains("cannot be read"));
}

#[test]
fn a_report_is_read_as_it_is_written() {
    let written = serde_json::to_value(sample()).unwrap();
    assert_eq!(KeyReport::deserialize(&written).unwrap(), sample());
}
