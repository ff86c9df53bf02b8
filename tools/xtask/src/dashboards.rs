//! Grafana dashboards from their short form, and the check that queries only use catalogued names
//! and keep hosts apart.
//! Invariant: what is committed under `grafana/`, and as a copy in the Helm chart, which can only
//! read files of its own folder, is what this chore writes.

mod cluster;
mod grafana;
mod host;
mod query;

use crate::repository::{Repository, RepositoryError};
use serde::Deserialize;
use std::collections::BTreeSet;

const FOLDER: &str = "tools/dashboards";
const RULES: [&str; 2] = ["recording.yml", "alerts.yml"];
const CHART: &str = "tools/deploy/helm/perigee/files";

/// A dashboard as people write it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Dashboard {
    title: String,
    uid: String,
    description: String,
    /// Labels to choose from at the top, after the cluster.
    #[serde(default)]
    variables: Vec<String>,
    /// Figures to type in at the top.
    #[serde(default)]
    inputs: Vec<Input>,
    rows: Vec<DashboardRow>,
}

/// A figure that no metric knows, such as a price; queries name it as `$NAME`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    name: String,
    label: String,
    value: f64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DashboardRow {
    title: String,
    panels: Vec<Panel>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Panel {
    title: String,
    #[serde(default)]
    kind: PanelKind,
    #[serde(default)]
    scope: PanelScope,
    unit: String,
    queries: Vec<Query>,
    /// Where the numbers come from; shown to the reader.
    source: String,
}

#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum PanelKind {
    #[default]
    Lines,
    Stat,
    Heatmap,
    /// The labels of what is there now; the name of an instance opens its page.
    Table,
}

/// Whose numbers one line of a panel shows.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum PanelScope {
    /// Those of one host, which its name tells.
    #[default]
    Host,
    /// Those of all hosts together.
    Cluster,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Query {
    expr: String,
    name: String,
}

/// What one run found.
pub(crate) struct DashboardReport {
    /// Files that were written, or are stale.
    pub(crate) changed: Vec<String>,
    /// Queries that use what the catalogue does not have.
    pub(crate) unknown: Vec<String>,
}

impl DashboardReport {
    /// Writes a file unless it is as wanted already, or only notes that it is not.
    fn settle(
        &mut self,
        repository: &Repository,
        target: String,
        wanted: &str,
        check_only: bool,
    ) -> Result<(), RepositoryError> {
        if read(repository, &target).ok().as_deref() == Some(wanted) {
            return Ok(());
        }
        if !check_only {
            write(repository, &target, wanted)?;
        }
        self.changed.push(target);
        Ok(())
    }
}

/// Writes the dashboards, or only compares.
pub(crate) fn run(
    repository: &Repository,
    check_only: bool,
) -> Result<DashboardReport, RepositoryError> {
    let mut report = DashboardReport { changed: Vec::new(), unknown: Vec::new() };
    let recorded = recorded_names(repository)?;
    let files = repository.files()?;
    let prefix = format!("{FOLDER}/");
    for file in &files {
        let name = file.strip_prefix(&prefix).and_then(|name| name.strip_suffix(".yaml"));
        let Some(name) = name.filter(|name| !name.contains('/') && *name != "compose") else {
            continue;
        };
        let dashboard: Dashboard = parse(file, &read(repository, file)?)?;
        for panel in dashboard.rows.iter().flat_map(|row| &row.panels) {
            for query in &panel.queries {
                let mut findings = query::check(&query.expr, &recorded);
                if panel.scope == PanelScope::Host {
                    findings.extend(host::check(&query.expr, Some(&query.name), &recorded));
                }
                let place = format!("{file}: {}", panel.title);
                report.unknown.extend(findings.iter().map(|finding| format!("{place}: {finding}")));
            }
        }
        let wanted = grafana::json(&dashboard);
        for target in
            [format!("{FOLDER}/grafana/{name}.json"), format!("{CHART}/dashboard-{name}.json")]
        {
            report.settle(repository, target, &wanted, check_only)?;
        }
    }
    for rules in RULES {
        let file = format!("{FOLDER}/prometheus/{rules}");
        let text = read(repository, &file)?;
        report.settle(repository, format!("{CHART}/{rules}"), &text, check_only)?;
        for (name, expr) in rule_queries(&file, &text)? {
            let mut findings = query::check(&expr, &recorded);
            findings.extend(host::check(&expr, None, &recorded));
            report
                .unknown
                .extend(findings.iter().map(|finding| format!("{file}: {name}: {finding}")));
        }
    }
    Ok(report)
}

#[derive(Debug, Deserialize)]
struct RuleFile {
    groups: Vec<RuleGroup>,
}

#[derive(Debug, Deserialize)]
struct RuleGroup {
    rules: Vec<PrometheusRule>,
}

#[derive(Debug, Deserialize)]
struct PrometheusRule {
    record: Option<String>,
    alert: Option<String>,
    expr: String,
}

fn rule_queries(file: &str, text: &str) -> Result<Vec<(String, String)>, RepositoryError> {
    let rules: RuleFile = parse(file, text)?;
    let rules = rules.groups.into_iter().flat_map(|group| group.rules);
    let named = |rule: PrometheusRule| (rule.record.or(rule.alert).unwrap_or_default(), rule.expr);
    Ok(rules.map(named).collect())
}

fn recorded_names(repository: &Repository) -> Result<BTreeSet<String>, RepositoryError> {
    let file = format!("{FOLDER}/prometheus/{}", RULES[0]);
    let rules = rule_queries(&file, &read(repository, &file)?)?;
    Ok(rules.into_iter().map(|(name, _)| name).collect())
}

fn parse<T: for<'a> Deserialize<'a>>(file: &str, text: &str) -> Result<T, RepositoryError> {
    serde_yaml_ng::from_str(text).map_err(|error| RepositoryError::Output {
        program: file.into(),
        detail: error.to_string(),
    })
}

fn read(repository: &Repository, file: &str) -> Result<String, RepositoryError> {
    repository.text(file)?.ok_or_else(|| RepositoryError::Output {
        program: file.into(),
        detail: "it is no text".into(),
    })
}

fn write(repository: &Repository, file: &str, text: &str) -> Result<(), RepositoryError> {
    let failed = |source| RepositoryError::Write { path: file.into(), source };
    let path = repository.path(file);
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    std::fs::write(path, text).map_err(failed)
}
