//! The server with a master that misbehaves. Invariant: every read has a deadline.

use super::*;
use crate::key_report::KeyReport;
use crate::master_view::{
    AdminRefusal, DrainInfo, DrainRequest, KeyCursor, KeyEventCounts, KeyPlaces, ObjectPage,
    SegmentInfo,
};
use perigee_metrics::{MasterCells, MasterNumbers, TenantNumbers};
use perigee_schemas::{Status, TenantId};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// A master that never answers questions about objects, but has numbers.
struct Stuck;

impl ControlPlane for Stuck {
    fn readiness(&self) -> Result<(), String> {
        Ok(())
    }

    fn locate(&self, _: &[String]) -> Result<Vec<KeyPlaces>, Status> {
        panic!("a defect of the master")
    }

    fn inspect(&self, _: &str) -> Result<KeyReport, Status> {
        Err(Status::InternalError)
    }

    fn list_objects(
        &self,
        _: Option<&TenantId>,
        _: Option<&str>,
        _: Option<KeyCursor>,
        _: usize,
    ) -> Result<ObjectPage, Status> {
        Err(Status::InternalError)
    }

    fn key_events(&self) -> Option<KeyEventCounts> {
        None
    }

    fn segments(&self, _: Option<&str>) -> Result<Vec<SegmentInfo>, Status> {
        Ok(Vec::new())
    }

    fn remove_all(&self, _: Option<&TenantId>, _: bool) -> Result<u64, Status> {
        Ok(0)
    }

    fn create_drain(&self, _: DrainRequest) -> Result<u128, AdminRefusal> {
        Err(Status::UnavailableInCurrentMode.into())
    }

    fn drain_job(&self, _: u128) -> Result<DrainInfo, Status> {
        Err(Status::JobNotFound)
    }

    fn cancel_drain(&self, _: u128) -> Result<(), Status> {
        Err(Status::JobNotFound)
    }

    fn tenants(&self, _: Option<&TenantId>) -> Option<Vec<TenantNumbers>> {
        None
    }

    fn set_quota(&self, _: &TenantId, _: u64) -> Result<TenantNumbers, AdminRefusal> {
        Err(Status::InternalError.into())
    }

    fn remove_quota(&self, _: &TenantId) -> Result<(), AdminRefusal> {
        Err(Status::InternalError.into())
    }

    fn numbers(&self) -> Result<MasterNumbers, Status> {
        Err(Status::InternalError)
    }

    fn cells(&self) -> Vec<Arc<MasterCells>> {
        Vec::new()
    }
}

fn start() -> AdminHandle {
    let build = BuildInfo { version: "1", commit: "c", reactor: "epoll" };
    let options = AdminOptions { build, report: true };
    AdminServer::start(SocketAddr::from(([127, 0, 0, 1], 0)), Arc::new(Stuck), options)
        .expect("a loopback port is free")
}

fn status_of(handle: &AdminHandle, target: &str) -> String {
    let mut stream = TcpStream::connect(handle.local_addr()).expect("the server listens");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout can be set");
    let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("the server reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("the answer is text");
    answer.split(' ').nth(1).expect("the answer has a status").to_owned()
}

#[test]
fn a_defect_of_the_master_costs_one_answer_and_not_the_server() {
    let handle = start();
    assert_eq!(status_of(&handle, "/query_key?key=a"), "500");
    assert_eq!(status_of(&handle, "/metrics"), "500");
    assert_eq!(status_of(&handle, "/livez"), "200");
}

#[test]
fn stop_ends_both_threads_and_frees_the_port() {
    let handle = start();
    let address = handle.local_addr();
    handle.stop();
    assert!(TcpStream::connect(address).is_err());
}
