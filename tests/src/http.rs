//! HTTP requests to a program's own routes.
//! Invariant: every request has a deadline, and any status is an answer, not an error.

use std::net::SocketAddr;

use crate::limits::ANSWER_DEADLINE;

/// A whole answer.
#[derive(Debug)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// `Content-Type`, empty if absent.
    pub content_type: String,
    /// Body as text.
    pub body: String,
}

/// Answer to `method` without body, or the reason why there is none.
pub fn request(server: SocketAddr, method: &str, path: &str) -> Result<Answer, String> {
    send(server, method, path, "")
}

/// Answer to `method` with a body.
pub fn send(server: SocketAddr, method: &str, path: &str, body: &str) -> Result<Answer, String> {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(ANSWER_DEADLINE))
        .max_idle_connections(0)
        .allow_non_standard_methods(true)
        .build()
        .into();
    let request = ureq::http::Request::builder()
        .method(method)
        .uri(format!("http://{server}{path}"))
        .header("content-type", "application/json")
        .body(body.to_owned())
        .map_err(|e| e.to_string())?;
    let mut response = agent.run(request).map_err(|e| e.to_string())?;
    let content_type = response.headers().get("content-type");
    Ok(Answer {
        status: response.status().as_u16(),
        content_type: content_type
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
            .to_owned(),
        body: response.body_mut().read_to_string().map_err(|e| e.to_string())?,
    })
}

/// Answer to a GET; fails the test if there is none.
#[track_caller]
pub fn get(server: SocketAddr, path: &str) -> Answer {
    let answer = request(server, "GET", path);
    assert!(answer.is_ok(), "GET {path}: {answer:?}");
    answer.expect("it was just checked")
}
