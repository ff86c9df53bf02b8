//! etcd behind TLS with certificates on both sides and a user with a password, as large clusters
//! run it.

use crate::engine::Engine;
use crate::server::{Process, free_port};
use crate::wait::until;
use perigee_discovery::settings::Secret;
use perigee_discovery::{Directory, DiscoverySettings};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair,
};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use tempfile::TempDir;
use ureq::Agent;
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig};

const PASSWORD: &str = "open sesame";

/// An authority, and one certificate that all programs share.
struct Papers {
    folder: TempDir,
}

impl Papers {
    fn issue() -> Self {
        let papers = Self { folder: TempDir::new().unwrap() };
        let mut authority = CertificateParams::new(Vec::<String>::new()).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority_key = KeyPair::generate().unwrap();
        let root = authority.self_signed(&authority_key).unwrap();
        let issuer = Issuer::new(authority, authority_key);
        let mut own = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        // With users switched on, etcd refuses certificates with a common name at its gateway.
        own.distinguished_name = DistinguishedName::new();
        own.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            // The gateway inside etcd is a client of etcd.
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let key = KeyPair::generate().unwrap();
        let certificate = own.signed_by(&key, &issuer).unwrap();
        std::fs::write(papers.path("ca.pem"), root.pem()).unwrap();
        std::fs::write(papers.path("cert.pem"), certificate.pem()).unwrap();
        std::fs::write(papers.path("key.pem"), key.serialize_pem()).unwrap();
        papers
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// A client that is let in, for what only the operator does.
    fn operator(&self) -> Agent {
        let read = |name: &str| std::fs::read(self.path(name)).unwrap();
        let certificate = |name: &str| Certificate::from_pem(&read(name)).unwrap();
        let key = PrivateKey::from_pem(&read("key.pem")).unwrap();
        let own = ClientCert::new_with_certs(&[certificate("cert.pem")], key);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::new_with_certs(&[certificate("ca.pem")]))
            .client_cert(Some(own))
            .unversioned_rustls_crypto_provider(provider)
            .build();
        Agent::config_builder().tls_config(tls).build().new_agent()
    }
}

struct Etcd {
    _process: Process,
    url: String,
}

fn start(papers: &Papers, data: &Path) -> Etcd {
    let (url, peer) =
        (format!("https://127.0.0.1:{}", free_port()), format!("http://127.0.0.1:{}", free_port()));
    let process = Process::start(
        Command::new("etcd")
            .args(["--name", "one", "--data-dir"])
            .arg(data)
            .args(["--listen-client-urls", &url, "--advertise-client-urls", &url])
            .args(["--listen-peer-urls", &peer])
            .args(["--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("one={peer}")])
            .args(["--client-cert-auth", "--trusted-ca-file", &papers.text("ca.pem")])
            .args(["--cert-file", &papers.text("cert.pem")])
            .args(["--key-file", &papers.text("key.pem")])
            .stdout(Stdio::null())
            .stderr(Stdio::null()),
    );
    Etcd { _process: process, url }
}

/// Makes etcd ask for a user: from then on only root with the password is let in.
fn lock(operator: &Agent, url: &str) {
    let call = |path: &str, body: String| {
        let sent = operator.post(format!("{url}/v3/{path}")).send(body);
        sent.map(|answer| answer.status().as_u16())
    };
    let user = format!(r#"{{"name":"root","password":"{PASSWORD}"}}"#);
    until("etcd serves", || call("auth/user/add", user.clone()).is_ok_and(|status| status == 200));
    let role = r#"{"user":"root","role":"root"}"#.to_owned();
    call("auth/role/add", r#"{"name":"root"}"#.to_owned()).unwrap();
    call("auth/user/grant", role).unwrap();
    call("auth/enable", "{}".to_owned()).unwrap();
}

fn settings(papers: &Papers, password: &str) -> DiscoverySettings {
    DiscoverySettings {
        ca_file: Some(papers.text("ca.pem")),
        cert_file: Some(papers.text("cert.pem")),
        key_file: Some(papers.text("key.pem")),
        etcd_username: "root".to_owned(),
        etcd_password: Secret::new(password),
        ..crate::engine::settings()
    }
}

#[test]
fn a_locked_etcd_lets_in_only_clients_with_certificate_and_password() {
    let (papers, data) = (Papers::issue(), TempDir::new().unwrap());
    let etcd = start(&papers, &data.path().join("data"));
    lock(&papers.operator(), &etcd.url);
    let address = format!("etcd://{}", etcd.url);
    let open = |settings: DiscoverySettings| Directory::open(&address, settings).unwrap();
    let good = settings(&papers, PASSWORD);
    let engine = Engine::start_with(&address, "a:1", good.clone()).unwrap();
    assert_eq!(*open(good.clone()).segment("a:1").unwrap(), engine.document);

    let refusal =
        |settings: DiscoverySettings| open(settings).segment("a:1").unwrap_err().to_string();
    let wrong = refusal(settings(&papers, "open barley"));
    assert!(wrong.contains("PERIGEE_ETCD_PASSWORD"), "{wrong}");
    assert!(!wrong.contains("barley"), "{wrong}");
    let anonymous = refusal(DiscoverySettings { etcd_username: String::new(), ..good.clone() });
    assert!(anonymous.contains("PERIGEE_ETCD_USERNAME"), "{anonymous}");
    let untrusting = refusal(DiscoverySettings { ca_file: None, ..good.clone() });
    assert!(untrusting.contains("certificate"), "{untrusting}");
    refusal(DiscoverySettings { cert_file: None, key_file: None, ..good });
}
