//! Requests that change something and that a web page may have made. Any web page can make
//! its reader's browser send a POST here, and with a name that it resolves to this address (DNS
//! rebinding) it looks like a page of our own.
//! Invariant: what reads is never refused, so probes and scrapers need not care.

use crate::answer;
use axum::extract::Request;
use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderName, Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use perigee_schemas::Status;
use std::net::IpAddr;

/// The header by which a caller says that the name in `Host` is a right one.
const TRUSTED_HOST: &str = "x-perigee-trusted-host";
/// The header by which a browser says whose page a request is from.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// Endings of names that cannot be registered in the public DNS.
const PRIVATE_ENDINGS: [&str; 7] =
    [".localhost", ".local", ".svc", ".internal", ".lan", ".home.arpa", ".test"];

/// Refuses requests that change something and come from a foreign page or under an unknown name.
pub(crate) async fn guard(request: Request, next: Next) -> Response {
    let reads = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    match refused(request.headers()) {
        Some(reason) if !reads => {
            answer::error_text(StatusCode::FORBIDDEN, Status::InvalidParams, reason)
        }
        _ => next.run(request).await,
    }
}

fn refused(headers: &HeaderMap) -> Option<&'static str> {
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let host = text(HOST);
    let origin = text(ORIGIN);
    let own = host.map(|host| [format!("http://{host}"), format!("https://{host}")]);
    let is_own = |origin: &str| own.as_ref().is_some_and(|own| own.iter().any(|own| own == origin));
    if origin.is_some_and(|origin| !is_own(origin)) {
        return Some("Requests of web pages from elsewhere are refused (Origin)");
    }
    // Browsers say so where they leave Origin out; a page of another port is foreign, too.
    let from = text(FETCH_SITE).filter(|site| !matches!(*site, "same-origin" | "none"));
    if from.is_some() {
        return Some("Requests of web pages from elsewhere are refused (Sec-Fetch-Site)");
    }
    let is_trusted = origin.is_none() && headers.contains_key(TRUSTED_HOST);
    if host.is_some_and(|host| !is_trusted && !is_known(host)) {
        return Some(
            "The name in Host is not known here: use the IP address, or send the header \
             X-Perigee-Trusted-Host: yes",
        );
    }
    None
}

/// Whether a name cannot be one that a stranger has made lead here: an address, a name of this
/// host, or one that the public DNS does not have.
fn is_known(host: &str) -> bool {
    let name = without_port(host).to_ascii_lowercase();
    let address = name.trim_start_matches('[').trim_end_matches(']');
    address.parse::<IpAddr>().is_ok()
        || !name.contains('.')
        || PRIVATE_ENDINGS.iter().any(|ending| name.ends_with(ending))
        || name.ends_with(".cluster.local")
        || own_names().any(|own| own.eq_ignore_ascii_case(&name))
}

fn own_names() -> impl Iterator<Item = String> {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let container = std::env::var("HOSTNAME").ok();
    kernel.into_iter().chain(container).map(|name| name.trim().to_owned())
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(headers: &[(&'static str, &str)]) -> bool {
        let header = |(name, value): &(&'static str, &str)| {
            (name.parse().expect("a name"), value.parse().expect("a value"))
        };
        let headers: HeaderMap = headers.iter().map(header).collect();
        refused(&headers).is_none()
    }

    #[test]
    fn a_page_of_elsewhere_changes_nothing() {
        assert!(!verdict(&[("host", "10.0.0.1:9003"), ("origin", "http://evil.example")]));
        assert!(!verdict(&[("host", "10.0.0.1:9003"), ("origin", "null")]));
        assert!(!verdict(&[("host", "127.0.0.1:9003"), ("origin", "http://127.0.0.1:8000")]));
        assert!(verdict(&[("host", "127.0.0.1:9003"), ("origin", "http://127.0.0.1:9003")]));
    }

    #[test]
    fn a_page_of_elsewhere_without_an_origin_changes_nothing() {
        let host = ("host", "10.0.0.1:9003");
        for site in ["cross-site", "same-site", "?"] {
            assert!(!verdict(&[host, ("sec-fetch-site", site)]), "{site}");
            let forged = ("x-perigee-trusted-host", "yes");
            assert!(!verdict(&[host, ("sec-fetch-site", site), forged]), "{site}");
        }
        let own = ("origin", "http://10.0.0.1:9003");
        assert!(verdict(&[host, ("sec-fetch-site", "same-origin"), own]));
        assert!(verdict(&[host, ("sec-fetch-site", "none")]));
    }

    #[test]
    fn a_name_that_was_bound_to_this_address_changes_nothing() {
        let rebound = ("host", "evil.example:9003");
        assert!(!verdict(&[rebound]));
        assert!(!verdict(&[rebound, ("origin", "http://evil.example:9003")]));
        let forged = ("x-perigee-trusted-host", "yes");
        assert!(!verdict(&[rebound, ("origin", "http://evil.example:9003"), forged]));
        assert!(verdict(&[("host", "perigee.example.com:9003"), forged]));
    }

    #[test]
    fn tools_that_name_an_address_or_a_private_name_are_served() {
        for host in [
            "127.0.0.1",
            "10.1.2.3:9003",
            "[::1]:9003",
            "[fd00::5]",
            "localhost:9003",
            "perigee-master:9003",
            "perigee-master.prod.svc:9003",
            "perigee-master.prod.svc.cluster.local:9003",
            "gpu-7.internal",
        ] {
            assert!(verdict(&[("host", host)]), "{host}");
        }
        assert!(verdict(&[]));
    }
}
