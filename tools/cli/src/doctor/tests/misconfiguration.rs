//! Every misconfiguration is injected into a sound host and must be named, and nothing else with
//! it.

use super::cases::{self, Case, hardware, network};
use super::sample::Sample;
use super::{all_checks, examine};
use crate::doctor::checks::CHECKS;
use std::collections::BTreeSet;

#[test]
fn every_injected_misconfiguration_is_named_and_nothing_else() {
    let cases = cases::all();
    assert!(cases.len() >= 40);
    let sound = Sample::sound();
    let mut faults = Vec::new();
    for Case { check, named, also, inject, adjust } in cases {
        let broken = inject.map(|inject| {
            let sample = Sample::sound();
            inject(&sample);
            sample
        });
        let mut host = broken.as_ref().unwrap_or(&sound).host();
        adjust(&mut host);
        let report = examine(&host, &all_checks());
        let is_named = report
            .findings()
            .any(|(of, finding)| of.name == check && finding.subject.contains(named));
        let is_alone = report.findings().all(|(of, _)| of.name == check || of.name == also);
        let text = report.text(false);
        let has_fixes = report.findings().all(|(_, finding)| {
            !finding.fix.is_empty() && text.contains(&format!("fix: {}\n", finding.fix))
        });
        if !is_named || !is_alone || !has_fixes {
            faults.push(format!("{check} for {named}:\n{}", report.text(false)));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_check_has_an_injected_misconfiguration() {
    let injected: BTreeSet<&str> = cases::all().iter().map(|case| case.check).collect();
    let all: BTreeSet<&str> = CHECKS.iter().map(|check| check.name).collect();
    assert_eq!(injected, all);
}

#[test]
fn many_misconfigurations_at_once_are_all_named() {
    let sample = Sample::sound();
    let rest = network::cases().into_iter().take(4).chain(hardware::cases().into_iter().take(4));
    let cases: Vec<Case> = rest.collect();
    let broken = cases.iter().filter_map(|case| case.inject);
    broken.for_each(|inject| inject(&sample));
    let report = examine(&sample.host(), &all_checks());
    for case in &cases {
        assert!(report.findings().any(|(of, _)| of.name == case.check), "{}", case.check);
    }
}
