//! Files of certificates for connections to a collector.

use std::sync::Arc;
use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, parse_pem};

/// The authorities that a file names.
pub(super) fn roots(path: &str) -> Result<RootCerts, String> {
    Ok(RootCerts::Specific(Arc::new(certificates(path)?)))
}

/// Our own name and its key.
pub(super) fn own(chain: &str, key: &str) -> Result<ClientCert, String> {
    let chain = certificates(chain)?;
    let pem = std::fs::read(key).map_err(|error| format!("its key {key}: {error}"))?;
    let key = PrivateKey::from_pem(&pem).map_err(|error| format!("its key {key}: {error}"))?;
    Ok(ClientCert::new_with_certs(&chain, key))
}

/// Without files: the system's authorities, and no name of our own.
pub(super) fn tls(roots: Option<RootCerts>, own: Option<ClientCert>) -> TlsConfig {
    TlsConfig::builder()
        .root_certs(roots.unwrap_or(RootCerts::PlatformVerifier))
        .client_cert(own)
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build()
}

fn certificates(path: &str) -> Result<Vec<Certificate<'static>>, String> {
    let pem = std::fs::read(path).map_err(|error| error.to_string())?;
    let items: Result<Vec<PemItem<'static>>, _> = parse_pem(&pem).collect();
    let certificates = items.map_err(|error| error.to_string())?.into_iter();
    let certificates: Vec<_> = certificates
        .filter_map(|item| match item {
            PemItem::Certificate(certificate) => Some(certificate),
            _ => None,
        })
        .collect();
    if certificates.is_empty() {
        Err("it has no certificate in PEM".to_owned())
    } else {
        Ok(certificates)
    }
}
