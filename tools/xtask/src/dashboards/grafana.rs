//! A dashboard in Grafana's form: a grid 24 columns wide.

use super::cluster::{CLUSTER, chosen};
use super::{Dashboard, Input, Panel, PanelKind};
use serde_json::{Value, json};

const COLUMNS: usize = 24;
const ROW_HEIGHT: usize = 1;
const STAT_HEIGHT: usize = 4;
const PANEL_HEIGHT: usize = 8;
/// Grafana's schema that these files were written for.
const SCHEMA: u32 = 39;

/// The text of the file.
pub(super) fn json(dashboard: &Dashboard) -> String {
    let mut panels = Vec::new();
    let mut y = 0;
    for row in &dashboard.rows {
        panels.push(json!({
            "type": "row", "title": row.title, "collapsed": false, "panels": [],
            "id": panels.len() + 1, "gridPos": { "x": 0, "y": y, "w": COLUMNS, "h": ROW_HEIGHT },
        }));
        y += ROW_HEIGHT;
        y = place(&mut panels, &row.panels, y);
    }
    let document = json!({
        "title": dashboard.title,
        "uid": dashboard.uid,
        "description": dashboard.description,
        "tags": ["perigee"],
        "schemaVersion": SCHEMA,
        "editable": true,
        "refresh": "10s",
        "time": { "from": "now-30m", "to": "now" },
        "templating": { "list": variables(dashboard) },
        "links": [{
            "type": "dashboards", "title": "Perigee", "tags": ["perigee"], "asDropdown": true,
            "includeVars": true, "keepTime": true,
        }],
        "panels": panels,
    });
    serde_json::to_string_pretty(&document).unwrap_or_default() + "\n"
}

/// Puts panels side by side; returns the line below them.
fn place(grid: &mut Vec<Value>, panels: &[Panel], top: usize) -> usize {
    let (mut x, mut y, mut height) = (0, top, 0);
    for panel in panels {
        let (width, tall) = match panel.kind {
            PanelKind::Stat => (COLUMNS / 6, STAT_HEIGHT),
            PanelKind::Lines | PanelKind::Heatmap => (COLUMNS / 2, PANEL_HEIGHT),
            PanelKind::Table => (COLUMNS, PANEL_HEIGHT),
        };
        if x + width > COLUMNS {
            (x, y, height) = (0, y + height, 0);
        }
        let mut value = draw(panel, grid.len() + 1);
        value["gridPos"] = json!({ "x": x, "y": y, "w": width, "h": tall });
        grid.push(value);
        x += width;
        height = height.max(tall);
    }
    y + height
}

fn draw(panel: &Panel, id: usize) -> Value {
    let (kind, options) = match panel.kind {
        PanelKind::Stat => ("stat", json!({ "reduceOptions": { "calcs": ["lastNotNull"] } })),
        PanelKind::Heatmap => (
            "heatmap",
            json!({ "calculate": false, "yAxis": { "unit": panel.unit }, "cellGap": 0 }),
        ),
        PanelKind::Table => ("table", json!({ "showHeader": true })),
        PanelKind::Lines => (
            "timeseries",
            json!({ "tooltip": { "mode": "multi", "sort": "desc" },
                    "legend": { "displayMode": "list", "placement": "bottom" } }),
        ),
    };
    let format = match panel.kind {
        PanelKind::Heatmap => "heatmap",
        PanelKind::Table => "table",
        PanelKind::Stat | PanelKind::Lines => "time_series",
    };
    let targets = panel.queries.iter().enumerate().map(|(index, query)| {
        let mut target = json!({
            "refId": char::from(b'A' + (index % 26) as u8).to_string(),
            "expr": chosen(&query.expr), "legendFormat": query.name,
            "format": format,
            "datasource": datasource(),
        });
        if has_exemplars(&query.expr) && matches!(panel.kind, PanelKind::Lines) {
            target["exemplar"] = true.into();
        }
        if matches!(panel.kind, PanelKind::Table) {
            target["instant"] = true.into();
        }
        target
    });
    let mut drawn = json!({
        "id": id, "type": kind, "title": panel.title,
        "description": format!("Source: {}", panel.source),
        "datasource": datasource(),
        "fieldConfig": { "defaults": { "unit": panel.unit }, "overrides": [] },
        "options": options,
        "targets": targets.collect::<Vec<_>>(),
    });
    if matches!(panel.kind, PanelKind::Table) {
        drawn["transformations"] = json!([
            { "id": "organize", "options": { "excludeByName": { "Time": true, "Value": true } } },
        ]);
        drawn["fieldConfig"]["overrides"] = json!([page_link()]);
    }
    drawn
}

/// Instances open their own page.
fn page_link() -> Value {
    json!({
        "matcher": { "id": "byName", "options": "instance" },
        "properties": [{
            "id": "links",
            "value": [{
                "title": "page of this agent, with the evidence",
                "url": "http://${__value.text}/", "targetBlank": true,
            }],
        }],
    })
}

/// Whether requests stand for values of what is asked for: of percentiles of histograms whose calls
/// are traced.
fn has_exemplars(expression: &str) -> bool {
    const TRACED: [&str; 3] = [
        "perigee_flow_latency_seconds_bucket",
        "perigee_rpc_duration_seconds_bucket",
        "perigee_transfer_seconds_bucket",
    ];
    expression.contains("histogram_quantile") && TRACED.iter().any(|name| expression.contains(name))
}

fn datasource() -> Value {
    json!({ "type": "prometheus", "uid": "${datasource}" })
}

fn variables(dashboard: &Dashboard) -> Vec<Value> {
    let source = json!({
        "name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source",
    });
    let cluster = label_variable(CLUSTER, "up");
    let labels = dashboard.variables.iter().enumerate().map(|(index, label)| {
        // Each choice narrows those after it.
        let before = std::iter::once(CLUSTER).chain(dashboard.variables.iter().map(String::as_str));
        let chosen: Vec<_> =
            before.take(index + 1).map(|other| format!("{other}=~\"${other}\"")).collect();
        label_variable(label, &format!("perigee_nic_up{{{}}}", chosen.join(",")))
    });
    let inputs = dashboard.inputs.iter().map(input_variable);
    [source, cluster].into_iter().chain(labels).chain(inputs).collect()
}

/// A choice among the values that a label has in these series.
fn label_variable(label: &str, series: &str) -> Value {
    json!({
        "name": label, "type": "query", "multi": true, "includeAll": true, "allValue": ".*",
        "current": { "text": "All", "value": "$__all" }, "refresh": 2,
        "datasource": datasource(),
        "query": { "query": format!("label_values({series}, {label})"), "refId": "A" },
    })
}

/// A figure that the reader types in.
fn input_variable(input: &Input) -> Value {
    let value = input.value.to_string();
    json!({
        "name": input.name, "type": "textbox", "label": input.label, "query": value,
        "current": { "text": value, "value": value },
    })
}
