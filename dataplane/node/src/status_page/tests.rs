//! The routes over a real connection. Invariant: a store that is not open is an answer, not an
//! error of the server.

use super::*;

fn get_with(handle: &HttpHandle, path: &str) -> (u16, String) {
    let agent = ureq::Agent::config_builder().http_status_as_error(false).build().new_agent();
    let url = format!("http://{}{path}", handle.local_addr());
    let mut answer = agent.get(&url).call().unwrap();
    let status = answer.status().as_u16();
    (status, answer.body_mut().read_to_string().unwrap())
}

fn page() -> HttpHandle {
    StatusPage::start("127.0.0.1:0".parse().unwrap(), StoreSlot::default()).unwrap()
}

#[test]
fn a_process_without_an_open_store_is_alive_but_not_ready() {
    let page = page();
    assert_eq!(get_with(&page, "/livez"), (200, "ok".to_owned()));
    assert_eq!(get_with(&page, "/readyz").0, 503);
    let unhealthy = "{\"status\":\"unhealthy\",\"code\":1}".to_owned();
    assert_eq!(get_with(&page, "/health"), (503, unhealthy));
    page.stop();
}

#[test]
fn metrics_and_their_summary_are_served_before_the_store_is_open() {
    let page = page();
    let (status, text) = get_with(&page, "/metrics");
    let line = "mooncake_transfer_read_bytes{client_mode=\"real\"} 0\n";
    assert!(status == 200 && text.contains(line), "{text}");
    let (status, text) = get_with(&page, "/metrics/summary");
    assert!(status == 200 && text.contains("Total Read: 0 B"), "{text}");
    page.stop();
}

#[test]
fn openmetrics_is_served_to_those_who_ask() {
    let page = page();
    let url = format!("http://{}/metrics", page.local_addr());
    let request = ureq::get(&url).header("accept", "application/openmetrics-text;version=1.0.0");
    let mut answer = request.call().unwrap();
    let kind = answer.headers()["content-type"].to_str().unwrap().to_owned();
    assert!(kind.starts_with("application/openmetrics-text"), "{kind}");
    assert!(answer.body_mut().read_to_string().unwrap().ends_with("# EOF\n"));
    page.stop();
}

#[test]
fn unknown_routes_are_not_found() {
    let page = page();
    assert_eq!(get_with(&page, "/"), (404, "404 Not Found".to_owned()));
    page.stop();
}
