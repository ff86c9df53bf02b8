"""What Grafana is given: dashboards in its form, and files that bring them up with one command."""

from __future__ import annotations

import itertools
import json
import re

import pytest
import yaml
from conftest import FOLDER

DASHBOARDS = sorted((FOLDER / "grafana").glob("*.json"))
COLUMNS = 24
KINDS = {"row", "stat", "timeseries", "heatmap", "table"}


@pytest.fixture(params=DASHBOARDS, ids=lambda file: file.stem)
def dashboard(request):
    """A dashboard as Grafana reads it."""
    return json.loads(request.param.read_text())


def test_there_is_one_for_each_reader_and_one_for_the_nics():
    assert {file.stem for file in DASHBOARDS} == {"owner", "operator", "nic", "developer"}
    uids = [json.loads(file.read_text())["uid"] for file in DASHBOARDS]
    assert len(set(uids)) == len(uids) and all(0 < len(uid) <= 40 for uid in uids)


def test_a_dashboard_has_what_grafana_asks_for(dashboard):
    assert dashboard["schemaVersion"] >= 36 and dashboard["title"] and "id" not in dashboard
    variables = {variable["name"]: variable for variable in dashboard["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource"
    assert variables["cluster"]["includeAll"] and variables["cluster"]["allValue"] == ".*"
    numbers = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(numbers)) == len(numbers)
    for panel in dashboard["panels"]:
        assert panel["type"] in KINDS and panel["title"]
        if panel["type"] == "row":
            continue
        assert panel["description"].startswith("Source: ")
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        if panel["type"] == "table":
            assert all(target["format"] == "table" and target["instant"] for target in panel["targets"])
        references = [target["refId"] for target in panel["targets"]]
        assert references and len(set(references)) == len(references)
        used = set(re.findall(r"\$(\w+)", " ".join(target["expr"] for target in panel["targets"])))
        assert used <= variables.keys() | {"__rate_interval"}


def test_percentiles_of_traced_calls_ask_for_requests_that_stand_for_them(dashboard):
    targets = [target for panel in dashboard["panels"] for target in panel.get("targets", [])]
    traced = re.compile(r"histogram_quantile.*perigee_(flow_latency|rpc_duration|transfer)_seconds_bucket")
    for target in targets:
        assert target.get("exemplar", False) == bool(traced.search(target["expr"])), target["expr"]


def test_panels_lie_side_by_side_and_none_on_another(dashboard):
    places = [panel["gridPos"] for panel in dashboard["panels"]]
    assert all(place["x"] + place["w"] <= COLUMNS for place in places)
    for one, other in itertools.combinations(places, 2):
        apart = (
            one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
            or one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        )
        assert apart, (one, other)


def test_one_command_brings_up_the_data_source_and_all_dashboards():
    services = yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]
    source = yaml.safe_load((FOLDER / "provisioning/datasources/perigee.yaml").read_text())
    provider = yaml.safe_load((FOLDER / "provisioning/dashboards/perigee.yaml").read_text())
    mounts = {
        target: here
        for service in services.values()
        for here, target in (volume.split(":")[:2] for volume in service["volumes"])
    }
    for target, here in mounts.items():
        assert not here.startswith("./") or (FOLDER / here).is_dir(), target
    shown = provider["providers"][0]["options"]["path"]
    assert FOLDER / mounts[shown] == FOLDER / "grafana"
    home = services["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert (FOLDER / mounts[shown] / home.removeprefix(f"{shown}/")).is_file()
    (exemplars,) = source["datasources"][0]["jsonData"]["exemplarTraceIdDestinations"]
    assert exemplars["name"] == "trace_id" and "${__value.raw}" in exemplars["url"].replace("$$", "$")
    assert "--enable-feature=exemplar-storage" in services["prometheus"]["command"]
    assert "/etc/grafana/provisioning" in mounts
    flags = services["prometheus"]["command"]
    assert f"--web.listen-address={source['datasources'][0]['url'].removeprefix('http://')}" in flags
    configuration = "--config.file=/etc/prometheus/"
    file = next(flag.removeprefix(configuration) for flag in flags if flag.startswith(configuration))
    assert (FOLDER / mounts["/etc/prometheus"] / file).is_file()
