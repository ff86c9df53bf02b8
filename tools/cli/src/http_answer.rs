//! Questions to masters and agents over HTTP. Invariant: each has a deadline, its answer a bound,
//! and no proxy of the environment is between.

use serde_json::Value;
use std::time::Duration;

/// The body that a good answer has.
///
/// # Errors
/// No answer in time, one that is too long, or one that is not good; in words, those of the master
/// where it has some.
pub(crate) fn http_answer(url: &str, deadline: Duration, most: u64) -> Result<String, String> {
    let config = ureq::Agent::config_builder()
        .timeout_global(Some(deadline))
        .http_status_as_error(false)
        .proxy(None);
    let agent = ureq::Agent::new_with_config(config.build());
    let mut answer = agent.get(url).call().map_err(|error| error.to_string())?;
    let body = answer.body_mut().with_config().limit(most);
    let body = body.read_to_string().map_err(|error| error.to_string())?;
    if answer.status().is_success() {
        return Ok(body);
    }
    let document: Option<Value> = body.parse().ok();
    let message = document.as_ref().and_then(|document| document["error_message"].as_str());
    Err(message.map_or_else(|| format!("HTTP status {}", answer.status()), str::to_owned))
}
