//! Reports of agents, and what is made of them.

use super::*;
use perigee_http::RequestOrigin;
use perigee_verdict::{ClusterVerdict, CulpritKind};

/// A master without segments that agents report to.
struct Reported {
    shared: RouteContext,
}

impl Reported {
    fn new() -> Self {
        Self { shared: context(Fake { segments: Vec::new(), down: false, has_quotas: false }) }
    }

    fn ask(&self, request: Request<Body>) -> (u16, String) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let response = router(self.shared.clone()).oneshot(request).await.unwrap();
            let status = response.status().as_u16();
            let body = response.into_body().collect().await.unwrap().to_bytes();
            (status, String::from_utf8(body.to_vec()).unwrap())
        })
    }

    fn get(&self, path: &str) -> String {
        self.ask(Request::get(path).body(Body::empty()).unwrap()).1
    }

    fn report(&self, from: &str, body: &str) -> (u16, String) {
        let request = Request::post("/api/v1/cluster/reports");
        let request = request.extension(RequestOrigin(format!("{from}:5000").parse().unwrap()));
        self.ask(request.body(Body::from(body.to_owned())).unwrap())
    }
}

fn report(host: &str) -> String {
    let suspect = r#"{"kind":"disk","name":"nvme0n1","evidence":"90 ms","since_ms":7}"#;
    format!(r#"{{"host":"{host}","nics":[],"links":[],"suspects":[{suspect}]}}"#)
}

#[test]
fn a_report_is_taken_and_its_host_shown() {
    let master = Reported::new();
    assert_eq!(master.report("10.0.0.1", &report("gpu-1")), (204, String::new()));
    let verdict: ClusterVerdict =
        serde_json::from_str(&master.get("/api/v1/cluster/verdict")).unwrap();
    assert_eq!(verdict.hosts[0].host, "gpu-1");
    let metrics = master.get("/metrics");
    assert!(metrics.contains("\nperigee_cluster_agents 1\n"), "{metrics}");
    assert_eq!(CulpritKind::Disk.word(), "disk");
}

#[test]
fn an_unreadable_or_misattributed_report_is_refused_with_the_reason() {
    let master = Reported::new();
    for body in ["", "{}", "[1]", r#"{"host":7}"#] {
        let (status, text) = master.report("10.0.0.1", body);
        assert_eq!(status, 400, "{body}");
        assert!(text.contains("no report of an agent"), "{text}");
    }
    master.report("10.0.0.1", &report("gpu-1"));
    let (status, text) = master.report("10.0.0.2", &report("gpu-1"));
    assert_eq!(status, 400);
    assert!(text.contains("give each host its own"), "{text}");
    assert!(master.report("10.0.0.2", &report("")).1.contains("needs the name of its host"));
}

#[test]
fn the_page_and_what_it_loads_are_there() {
    let master = Reported::new();
    for (path, part) in [
        ("/cluster", "cluster.js"),
        ("/cluster.js", "api/v1/cluster/verdict"),
        ("/cluster.css", "#matrix"),
    ] {
        assert!(master.get(path).contains(part), "{path}");
    }
}
