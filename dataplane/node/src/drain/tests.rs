//! Drain jobs against an HTTP server that gives one scripted answer per connection.

use super::*;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Mutex;
use std::thread::JoinHandle;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);
const DONE: &str = r#"200 {"status_name":"SUCCEEDED","succeeded_units":3,"migrated_bytes":9}"#;
const BUSY: &str = r#"504 {"error_code":-901,"error_message":"RPC_TIMEOUT"}"#;
const TAKEN: &str = r#"409 {"error_code":-1010,"error_message":"UNAVAILABLE_IN_CURRENT_STATUS"}"#;
const NOT_FOUND: &str = r#"404 {"error_code":-101,"error_message":"SEGMENT_NOT_FOUND"}"#;
const FORGOTTEN: &str = r#"404 {"error_code":-1402,"error_message":"JOB_NOT_FOUND"}"#;
const CREATED: &str = r#"200 {"job_id":"5-9"}"#;

/// Gives each connection its answer, `STATUS BODY`, or none where it is empty; the first line of
/// each request.
fn serve(answers: &[&'static str]) -> (DrainJobs, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let answers = answers.to_vec();
    let server = std::thread::spawn(move || {
        let answered = answers.iter().map(|answer| {
            let mut peer = listener.accept().unwrap().0;
            let mut request = Vec::new();
            while !is_whole(&request) {
                let mut part = [0; 1024];
                let read = peer.read(&mut part).unwrap();
                assert!(read > 0, "a request ends before its peer");
                request.extend_from_slice(&part[..read]);
            }
            if let Some((status, body)) = answer.split_once(' ') {
                let length = body.len();
                let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\n");
                write!(peer, "{head}Connection: close\r\n\r\n{body}").unwrap();
            }
            let text = String::from_utf8(request).unwrap();
            text.split(" HTTP").next().unwrap_or_default().to_owned()
        });
        answered.collect()
    });
    (DrainJobs::of("127.0.0.1:1", port), server)
}

/// Whether a request has its head and, for a job to be created, its body.
fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let body = text.split_once("\r\n\r\n").map(|(_, body)| body);
    let is_bare = text.starts_with("GET") || text.contains("/cancel?");
    body.is_some_and(|body| is_bare || body.ends_with('}'))
}

fn run(answers: &[&'static str]) -> (Result<Option<Moved>, DrainError>, Vec<String>) {
    let (jobs, server) = serve(answers);
    let moved = jobs.run(&["host:1".to_owned()], Instant::now() + PATIENCE);
    (moved, server.join().unwrap())
}

#[test]
fn a_job_is_begun_and_watched_although_answers_are_lost() {
    let (moved, requests) = run(&["", BUSY, CREATED, BUSY, "", DONE]);
    assert_eq!(moved.unwrap(), Some(Moved { objects: 3, bytes: 9 }));
    assert!(requests[..3].iter().all(|it| it == "POST /api/v1/drain_jobs"), "{requests:?}");
    assert!(requests[3..].iter().all(|it| it.ends_with("query?job_id=5-9")), "{requests:?}");
}

#[test]
fn a_job_whose_number_was_lost_has_ended_when_its_segments_are_empty() {
    let (draining, drained) =
        (r#"200 {"status_name":"DRAINING"}"#, r#"200 {"status_name":"DRAINED"}"#);
    let (moved, requests) = run(&["", TAKEN, draining, BUSY, drained]);
    assert_eq!(moved.unwrap(), None);
    assert_eq!(requests[4], "GET /api/v1/segments/status?segment=host%3A1");
    let failed = run(&[BUSY, TAKEN, draining, r#"200 {"status_name":"OK"}"#]).0.unwrap_err();
    assert!(matches!(failed, DrainError::Left(_)), "{failed}");
}

#[test]
fn a_refusal_and_a_stranger_are_errors_at_once() {
    let refused = run(&[TAKEN, r#"200 {"status_name":"OK"}"#]).0.unwrap_err();
    assert!(matches!(refused, DrainError::Refused(_)), "{refused}");
    let refused = run(&[BUSY, TAKEN, r#"200 {"status_name":"OK"}"#]).0.unwrap_err();
    assert!(matches!(refused, DrainError::Refused(_)), "{refused}");
    let stranger = run(&["404 <html>"]).0.unwrap_err();
    assert!(stranger.to_string().contains("is no master"), "{stranger}");
}

#[test]
fn segments_that_are_not_mounted_yet_are_asked_for_again() {
    let (moved, requests) = run(&[NOT_FOUND, NOT_FOUND, CREATED, DONE]);
    assert_eq!(moved.unwrap(), Some(Moved { objects: 3, bytes: 9 }));
    assert_eq!(requests.len(), 4);
    let unverified = r#"200 {"status_name":"UNDEFINED"}"#;
    assert!(run(&[TAKEN, unverified, CREATED, DONE]).0.is_ok());
}

/// A master's table with two segments.
const LISTED: &str = r#"200 {"segments":[{"segment_name":"other:1"},{"segment_name":"host:1"}]}"#;

#[test]
fn a_misspelt_name_is_said_once_with_what_the_master_knows_and_again_in_the_end() {
    static HEARD: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let hears = |error: &DrainError| HEARD.lock().unwrap().push(error.to_string());
    let (jobs, server) = serve(&[NOT_FOUND, LISTED, NOT_FOUND, CREATED, DONE]);
    let until = Instant::now() + PATIENCE;
    assert!(jobs.telling(hears).run(&["host:l".to_owned()], until).is_ok());
    server.join().unwrap();
    let heard = HEARD.lock().unwrap();
    assert_eq!(heard.len(), 1, "{heard:?}");
    assert!(heard[0].contains("does not know host:l, only host:1, other:1"), "{heard:?}");
    for (table, said) in [(LISTED, "host:l, only host:1"), (BUSY, "host:l: a name is wrong")] {
        let (jobs, server) = serve(&[NOT_FOUND, table]);
        let unknown = jobs.run(&["host:l".to_owned()], Instant::now()).unwrap_err().to_string();
        assert!(unknown.contains(said), "{unknown}");
        server.join().unwrap();
    }
}

#[test]
fn a_job_that_a_restarted_master_has_forgotten_is_begun_again() {
    let (moved, requests) = run(&[CREATED, FORGOTTEN, NOT_FOUND, CREATED, DONE]);
    assert_eq!(moved.unwrap(), Some(Moved { objects: 3, bytes: 9 }));
    assert_eq!(requests.iter().filter(|it| it.starts_with("POST")).count(), 3);
}

#[test]
fn what_is_drained_or_being_drained_needs_no_second_job() {
    let drained = r#"200 {"status_name":"DRAINED"}"#;
    assert_eq!(run(&[TAKEN, drained]).0.unwrap(), None);
    assert_eq!(run(&[TAKEN, r#"200 {"status_name":"DRAINING"}"#, drained]).0.unwrap(), None);
}

/// What comes of a job without time, and the last requests.
fn without_time(answers: &[&'static str]) -> (Result<Option<Moved>, DrainError>, Vec<String>) {
    let (jobs, server) = serve(answers);
    let moved = jobs.canceling().run(&["host:1".to_owned()], Instant::now());
    (moved, server.join().unwrap())
}

#[test]
fn a_job_whose_time_is_over_is_canceled_and_says_what_it_waits_for() {
    let running = r#"200 {"status_name":"RUNNING","message":"","blocked_units":2}"#;
    let full =
        r#"200 {"status_name":"RUNNING","message":"objects wait for room","blocked_units":2}"#;
    let canceled = r#"200 {"status":"CANCELED"}"#;
    let (late, requests) = without_time(&[CREATED, running, canceled]);
    let late = late.unwrap_err();
    assert!(matches!(late, DrainError::Late(_)), "{late}");
    assert!(late.to_string().contains("host:1 takes objects again"), "{late}");
    assert_eq!(requests[2], "POST /api/v1/drain_jobs/cancel?job_id=5-9");
    let full = without_time(&[CREATED, full, canceled]).0.unwrap_err();
    assert!(matches!(full, DrainError::NoRoom(_)), "{full}");
    let (moved, _) = without_time(&[CREATED, running, TAKEN, DONE]);
    assert_eq!(moved.unwrap(), Some(Moved { objects: 3, bytes: 9 }), "it ended in that moment");
    let goes_on = without_time(&[CREATED, running, TAKEN, running]).0.unwrap_err().to_string();
    assert!(goes_on.contains("goes on: curl") && goes_on.contains("job_id=5-9"), "{goes_on}");
}

#[test]
fn an_owner_that_leaves_cancels_no_job() {
    let (jobs, server) = serve(&[CREATED, r#"200 {"status_name":"RUNNING"}"#]);
    assert!(jobs.run(&["host:1".to_owned()], Instant::now()).is_err());
    server.join().unwrap();
}

#[test]
fn a_master_settles_some_time_after_its_start() {
    let (old, server) = serve(&["200 perigee_uptime_seconds 86400.5
"]);
    assert!(old.settles_at().is_some_and(|at| at <= Instant::now()));
    server.join().unwrap();
    let (young, server) = serve(&["200 perigee_uptime_seconds 0.5\n"]);
    assert!(young.settles_at().is_some_and(|at| at > Instant::now()));
    server.join().unwrap();
    for answer in ["200 x 1", BUSY] {
        let (silent, server) = serve(&[answer]);
        assert_eq!(silent.settles_at(), None, "{answer}");
        server.join().unwrap();
    }
}

#[test]
fn a_reason_to_stop_ends_the_wait_while_nothing_moves() {
    let moving = r#"200 {"status_name":"RUNNING","active_units":1}"#;
    let waiting = r#"200 {"status_name":"RUNNING","active_units":0}"#;
    let (jobs, server) = serve(&[CREATED, moving, waiting]);
    let until = Instant::now() + PATIENCE;
    let stopped = jobs.run_while(&["host:1".to_owned()], until, || Err(DrainError::Nowhere));
    assert!(matches!(stopped, Err(DrainError::Nowhere)), "{stopped:?}");
    assert_eq!(server.join().unwrap().len(), 3);
}

#[test]
fn a_master_that_stays_silent_is_given_up_before_the_time_is_over() {
    let (jobs, server) = serve(&[BUSY]);
    let jobs = jobs.giving_up_after(Duration::ZERO);
    let error = jobs.run(&["host:1".to_owned()], Instant::now() + PATIENCE).unwrap_err();
    assert!(matches!(error, DrainError::NoAnswer { .. }), "{error}");
    server.join().unwrap();
}

#[test]
fn another_master_at_the_http_port_is_noticed() {
    let owned = [("own:1".to_owned(), "7-1".to_owned())];
    let first = r#"200 {"segments":[{"segment_name":"own:1","client_id":"7-1"}]}"#;
    let second = r#"200 {"segments":[{"segment_name":"own:1","client_id":"7-2"}]}"#;
    for (answer, is_known) in [(first, true), (second, false)] {
        let (jobs, server) = serve(&[answer]);
        let checked = jobs.check_owners(&owned, Instant::now() + PATIENCE);
        assert_eq!(checked.is_ok(), is_known, "{checked:?}");
        assert_eq!(server.join().unwrap(), ["GET /get_segments_detail"]);
    }
}

#[test]
fn a_master_that_stays_busy_is_given_up_when_the_time_is_over() {
    let (jobs, server) = serve(&[BUSY]);
    let error = jobs.run(&["host:1".to_owned()], Instant::now()).unwrap_err();
    assert!(matches!(error, DrainError::NoAnswer { .. }), "{error}");
    assert!(error.to_string().contains("504"), "{error}");
    server.join().unwrap();
}

#[test]
fn the_http_port_is_on_the_masters_host() {
    for (master, host) in [("m:50051", "m"), ("[fe80::1]:50051", "[fe80::1]"), ("m", "m")] {
        assert_eq!(DrainJobs::of(master, 9003).url, format!("http://{host}:9003/api/v1"));
    }
}

#[test]
fn a_message_says_how_far_the_job_is() {
    let job =
        json!({"message": "no room", "succeeded_units": 3, "failed_units": 1, "blocked_units": 1});
    let text = progress(&job, "FAILED");
    assert_eq!(text, "the job is FAILED: no room, 3 objects moved, 2 not");
    let bytes = json!({"succeeded_units": 3, "migrated_bytes": 9});
    assert_eq!(moved(&bytes), Moved { objects: 3, bytes: 9 });
}
