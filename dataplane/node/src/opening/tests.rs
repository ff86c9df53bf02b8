//! Waiting for a master that is not there. Invariant: the ports used here were free a moment ago.

use super::*;
use crate::config::NodeStart;
use perigee_flags::ProcessEnvironment;
use perigee_settings::SettingError;
use std::net::TcpListener;

fn config(arguments: &[&str]) -> NodeConfig {
    let arguments: Vec<String> = arguments.iter().map(|text| (*text).to_owned()).collect();
    match NodeConfig::load(&arguments, &ProcessEnvironment::default()).unwrap() {
        NodeStart::Serve(config) => *config,
        NodeStart::Print(text) => panic!("printed {text}"),
    }
}

fn unused_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

#[test]
fn a_start_without_patience_gives_up_and_names_the_master() {
    let address = unused_address();
    let master = format!("--master_server_address={address}");
    let error = open(&config(&[&master, "--max_wait_time=0"]), &NodePhase::default()).unwrap_err();
    assert!(matches!(error, NodeError::GaveUp { .. }), "{error}");
    assert!(error.to_string().contains(&address), "{error}");
    assert_eq!(error.exit_code(), Status::RpcFail.exit());
}

#[test]
fn a_metadata_service_is_asked_only_when_it_is_a_url() {
    assert!(probe_metadata(NO_METADATA).is_ok());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/metadata", listener.local_addr().unwrap());
    assert!(probe_metadata(&url).is_ok());
    drop(listener);
    assert!(
        matches!(probe_metadata(&url), Err(OpeningError::Metadata(reason)) if reason.contains(&url))
    );
}

#[test]
fn a_given_metadata_service_is_waited_for_like_the_master() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let master = format!("--master_server_address={}", listener.local_addr().unwrap());
    let url = format!("http://{}/metadata", unused_address());
    let metadata = format!("--metadata_server={url}");
    let error = open(&config(&[&master, &metadata, "--max_wait_time=0"]), &NodePhase::default())
        .unwrap_err();
    assert!(matches!(&error, NodeError::GaveUp { reason, .. } if reason.contains(&url)), "{error}");
}

#[test]
fn an_obstacle_is_reported_once_until_it_changes() {
    let mut reported = Reported::default();
    reported.report("refused", 9);
    assert!(reported.is_known("refused"));
    assert!(!reported.is_known("timed out"));
}

#[test]
fn a_refused_segment_is_final() {
    let refused = refusal(StoreError::Mount(Status::InvalidParams));
    assert!(matches!(refused, OpeningError::Final(_)));
}

#[test]
fn a_host_that_is_not_ours_is_refused_by_the_name_of_the_flag() {
    let refused =
        refusal(SettingError::new(LOCAL_HOSTNAME, "elsewhere:1", "it does not resolve").into());
    let OpeningError::Final(error) = refused else {
        panic!("a wrong host never becomes right by waiting");
    };
    assert!(error.to_string().contains("`host`"), "{error}");
    assert_eq!(error.exit_code(), perigee_flags::USAGE_EXIT_CODE);
}
