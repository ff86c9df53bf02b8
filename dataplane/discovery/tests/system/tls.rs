//! `https://`: a server whose certificate the system trusts is used, any other is not.
//! Trust comes from the environment, so the trusting client is another process.

use crate::engine::directory;
use crate::strict_http::serve;
use crate::wait::until;
use perigee_discovery::SegmentDocument;
use rcgen::generate_simple_self_signed;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::collections::HashMap;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::thread::spawn;

const ADDRESS: &str = "PERIGEE_TEST_TLS_ADDRESS";

/// Serves records over TLS until the test program ends; writes the certificate to `trusted`.
fn start(trusted: &Path) -> String {
    let own = generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    std::fs::write(trusted, own.cert.pem()).unwrap();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(own.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![own.cert.der().clone()], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    spawn(move || {
        let mut records = HashMap::new();
        for stream in listener.incoming() {
            let session = ServerConnection::new(Arc::clone(&config)).unwrap();
            // A client that does not trust the certificate breaks off.
            let _ = serve(&mut records, StreamOwned::new(session, stream.unwrap()));
        }
    });
    format!("https://127.0.0.1:{port}/metadata")
}

#[test]
#[ignore = "the process that trusts the certificate"]
fn client() {
    let Ok(address) = std::env::var(ADDRESS) else {
        return;
    };
    let document = SegmentDocument::new("a:1", "tcp");
    let own = directory(&address);
    own.publish(&document).unwrap();
    assert_eq!(*directory(&address).segment("a:1").unwrap(), document);
}

#[test]
fn trusted_servers_are_used_and_others_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let trusted = folder.path().join("trusted.pem");
    let address = start(&trusted);
    let refused = directory(&address).segment("a:1").unwrap_err().to_string();
    assert!(refused.contains("certificate"), "{refused}");

    let mut client = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "tls::client", "--ignored"])
        .env(ADDRESS, &address)
        .env("SSL_CERT_FILE", &trusted)
        .spawn()
        .unwrap();
    until("the client has ended", || client.try_wait().unwrap().is_some());
    assert!(client.wait().unwrap().success());
}
