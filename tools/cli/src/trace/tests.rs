//! Requests as lines, and what a word means.

use super::*;

fn span(kind: &str, name: &str, began_us: u64, took_ns: u64) -> SpanEntry {
    SpanEntry {
        trace: "0af7651916cd43dd8448eb211c80319c".to_owned(),
        span: format!("{:016x}", began_us + took_ns),
        call: "00000000000000aa".to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
        host: "gpu-7".to_owned(),
        pid: 4711,
        program: "python".to_owned(),
        began_us,
        took_ns,
        ..SpanEntry::default()
    }
}

fn spans() -> Vec<SpanEntry> {
    let call = SpanEntry {
        key: "layer-0/page-7".to_owned(),
        bytes: 4096,
        count: 1,
        parts: 2,
        ..span("call", "get", 1_795_869_663_000_000, 1_820_000)
    };
    let lookup = SpanEntry {
        peer: "10.0.0.1:50051".to_owned(),
        waited_ns: 4_000,
        served_ns: 51_000,
        ..span("master", "GetReplicas", call.began_us + 3, 310_000)
    };
    let answered = SpanEntry {
        host: "m-0".to_owned(),
        pid: 12,
        program: "perigee".to_owned(),
        peer: "10.0.0.7".to_owned(),
        ..span("answered", "GetReplicas", call.began_us + 90, 51_000)
    };
    let read = SpanEntry {
        device: "eth0".to_owned(),
        peer: "10.0.0.9".to_owned(),
        route: "tcp".to_owned(),
        direction: "read".to_owned(),
        bytes: 4096,
        parts: 1,
        waited_ns: 900_000,
        served_ns: 10_000,
        status: -800,
        ..span("transfer", "read", call.began_us + 330, 1_450_000)
    };
    vec![call, lookup, answered, read]
}

#[test]
fn the_table_is_sound() {
    assert_eq!(TRACE.check(), Vec::<String>::new());
}

#[test]
fn a_request_is_a_tree_of_lines() {
    let text = trees(&spans());
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 5, "{text}");
    assert_eq!(lines[0], "trace 0af7651916cd43dd8448eb211c80319c, 1 call");
    let call = "get layer-0/page-7  4.0 KiB  1.82 ms  ok  gpu-7 python[4711]";
    assert_eq!(lines[1], format!("2026-11-28 12:41:03.000000 UTC  {call}"));
    let words = |line: &str| {
        line.split("  ")
            .filter(|word| !word.is_empty())
            .map(str::trim)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let lookup = "waited 4.0 us, served 51.0 us, wire 255.0 us";
    assert_eq!(
        words(lines[2]),
        ["+3.0 us", "GetReplicas", "310.0 us", "master 10.0.0.1:50051", lookup]
    );
    let answered = "answered by m-0 perigee[12]";
    assert_eq!(words(lines[3]), [answered, "51.0 us", "from 10.0.0.7"]);
    let read = "waited 900.0 us, copied 10.0 us, wire 540.0 us, TRANSFER_FAIL -800";
    let link = "eth0 > 10.0.0.9 (tcp)";
    assert_eq!(words(lines[4]), ["+330.0 us", "read 4.0 KiB", "1.45 ms", link, read]);
}

#[test]
fn spans_without_their_call_and_those_that_found_no_place_are_shown_too() {
    let mut all = spans();
    all[0].parts = 9;
    assert!(trees(&all).contains("and 7 more spans, which found no place"));
    let text = trees(&all[1..]);
    assert!(text.contains("its call is not kept\nwithout the program's own span:\n"), "{text}");
    assert!(text.contains("answered by m-0 perigee[12]"), "{text}");
}

#[test]
fn the_latest_calls_are_one_line_each() {
    let text = call::list(&spans());
    assert_eq!(text.lines().count(), 1);
    assert!(text.contains("0af7651916cd43dd8448eb211c80319c  get  layer-0/page-7  python[4711]"));
}

#[test]
fn a_word_is_a_key_unless_it_names_a_request() {
    let id = "0af7651916cd43dd8448eb211c80319c".to_owned();
    let traceparent = format!("00-{id}-b7ad6b7169203331-01");
    assert_eq!(Wanted::read(&traceparent), Wanted::Id(id.clone(), traceparent));
    assert_eq!(Wanted::read(&id.to_uppercase()), Wanted::Id(id.clone(), id.to_uppercase()));
    assert_eq!(Wanted::read("layer-0"), Wanted::Key("layer-0".to_owned()));
    let letters = "z".repeat(32);
    assert_eq!(Wanted::read(&letters), Wanted::Key(letters));
}

#[test]
fn the_first_word_says_what_is_wanted() {
    let words = |words: &[&str]| {
        with_flag_for_word(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    };
    assert_eq!(words(&["k", "--count=2"]).unwrap(), ["--of=k", "--count=2"]);
    assert_eq!(words(&["--of=k"]).unwrap(), ["--of=k"]);
    assert!(words(&["k", "l"]).unwrap_err().to_string().contains("quotes"));
}
