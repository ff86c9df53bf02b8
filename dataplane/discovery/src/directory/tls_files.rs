//! Files of certificates that the settings name: the trusted authorities and our own identity.
//! Invariant: a file that cannot be used is an error that names its variable, before anything is
//! sent.

use crate::error::DiscoveryError;
use crate::settings::DiscoverySettings;
use perigee_settings::SettingError;
use std::sync::Arc;
use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, parse_pem};

const CA: &str = "PERIGEE_METADATA_CA_FILE";
const CERTIFICATE: &str = "PERIGEE_METADATA_CERT_FILE";
const KEY: &str = "PERIGEE_METADATA_KEY_FILE";

/// TLS as the settings want it; without files, the system's list of authorities and no name of our
/// own.
pub(super) fn tls(settings: &DiscoverySettings) -> Result<TlsConfig, DiscoveryError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let roots = match &settings.ca_file {
        Some(path) => RootCerts::Specific(Arc::new(certificates(CA, path)?)),
        None => RootCerts::PlatformVerifier,
    };
    Ok(TlsConfig::builder()
        .root_certs(roots)
        .client_cert(own(settings)?)
        .unversioned_rustls_crypto_provider(provider)
        .build())
}

fn own(settings: &DiscoverySettings) -> Result<Option<ClientCert>, DiscoveryError> {
    let (certificate, key) = match (&settings.cert_file, &settings.key_file) {
        (None, None) => return Ok(None),
        (Some(certificate), Some(key)) => (certificate, key),
        (Some(path), None) => {
            return Err(refuse(CERTIFICATE, path, "set PERIGEE_METADATA_KEY_FILE, too"));
        }
        (None, Some(path)) => return Err(refuse(KEY, path, "set PERIGEE_METADATA_CERT_FILE, too")),
    };
    let chain = certificates(CERTIFICATE, certificate)?;
    let pem = read(KEY, key)?;
    let key = PrivateKey::from_pem(&pem).map_err(|error| refuse(KEY, key, &error.to_string()))?;
    Ok(Some(ClientCert::new_with_certs(&chain, key)))
}

fn certificates(
    variable: &'static str,
    path: &str,
) -> Result<Vec<Certificate<'static>>, DiscoveryError> {
    let pem = read(variable, path)?;
    let items: Result<Vec<PemItem<'static>>, _> = parse_pem(&pem).collect();
    let items = items.map_err(|error| refuse(variable, path, &error.to_string()))?;
    let certificate = |item| match item {
        PemItem::Certificate(certificate) => Some(certificate),
        _ => None,
    };
    let found: Vec<_> = items.into_iter().filter_map(certificate).collect();
    if found.is_empty() {
        return Err(refuse(variable, path, "there is no certificate in it; write a PEM file"));
    }
    Ok(found)
}

fn read(variable: &'static str, path: &str) -> Result<Vec<u8>, DiscoveryError> {
    std::fs::read(path).map_err(|error| refuse(variable, path, &error.to_string()))
}

fn refuse(name: &'static str, path: &str, reason: &str) -> DiscoveryError {
    SettingError::new(name, path, reason).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(change: impl Fn(&mut DiscoverySettings)) -> String {
        let mut settings = DiscoverySettings::default();
        change(&mut settings);
        tls(&settings).unwrap_err().to_string()
    }

    #[test]
    fn files_that_cannot_be_used_are_named_with_their_variable() {
        let folder = tempfile::tempdir().unwrap();
        let empty = folder.path().join("empty.pem").display().to_string();
        std::fs::write(&empty, "nothing").unwrap();
        let text = refusal(|settings| settings.ca_file = Some("/no/such/file".to_owned()));
        assert!(text.contains(CA) && text.contains("/no/such/file"), "{text}");
        let text = refusal(|settings| settings.ca_file = Some(empty.clone()));
        assert!(text.contains("no certificate"), "{text}");
        let text = refusal(|settings| settings.cert_file = Some(empty.clone()));
        assert!(text.contains(KEY), "{text}");
        assert!(tls(&DiscoverySettings::default()).is_ok());
    }
}
