//! On which hosts the segments of a client are.

use super::Registry;
use std::collections::BTreeSet;

impl Registry {
    /// Addresses of a client's segments, as their endpoints name them, each once; of an endpoint
    /// without one the address that the client mounted from. `None` for a client without segments.
    pub fn addresses_of(&self, client: u128) -> Option<Vec<String>> {
        let known = self.clients.get(&client).filter(|known| !known.segments.is_empty())?;
        let mut seen = BTreeSet::new();
        let mut addresses = Vec::new();
        for view in known.segments.iter().filter_map(|index| self.segment(*index)) {
            let host = host_of(&view.spec.endpoint).to_owned();
            let mounted_from = || known.address.map(|address| address.to_string());
            let host = if host.is_empty() { mounted_from() } else { Some(host) };
            addresses.extend(host.filter(|host| seen.insert(host.clone())));
        }
        (!addresses.is_empty()).then_some(addresses)
    }
}

/// The host of `host:port`, an address of IPv6 without its brackets.
fn host_of(endpoint: &str) -> &str {
    let host = endpoint.rsplit_once(':').map_or(endpoint, |(host, _)| host);
    host.trim_matches(['[', ']'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_have_a_host_with_and_without_a_port() {
        for (endpoint, host) in [
            ("10.0.0.9:50052", "10.0.0.9"),
            ("[fe80::1]:7", "fe80::1"),
            ("node-7:1", "node-7"),
            ("", ""),
        ] {
            assert_eq!(host_of(endpoint), host);
        }
    }
}
