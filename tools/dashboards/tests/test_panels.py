"""Every panel of every dashboard shows something."""

from __future__ import annotations

import json
import re

import pytest
from cluster import until
from conftest import FOLDER

#: What the variables stand for.
VARIABLES = {"$__rate_interval": "20s", "$cluster": "main", "$device": ".*", "$instance": ".*"}


def panels():
    """Query of everything that is shown, with the figures that a reader would type in."""
    for file in sorted((FOLDER / "grafana").glob("*.json")):
        dashboard = json.loads(file.read_text())
        typed = [one for one in dashboard["templating"]["list"] if one["type"] == "textbox"]
        for panel in dashboard["panels"]:
            for target in panel.get("targets", []):
                query = target["expr"]
                for variable in typed:
                    query = query.replace(f"${variable['name']}", variable["query"])
                yield pytest.param(query, id=f"{file.stem}: {panel['title']}")


#: Figures that a cluster has only while it does what they tell of; the load of this one never asks whether a key is there.
EMPTY_AT_REST = ("Time to full", "Time an object stays", "Keys found0")


@pytest.mark.parametrize("query", list(panels()))
def test_a_panel_shows_something(watched, query, request):
    for variable, value in VARIABLES.items():
        query = query.replace(variable, value)

    if any(title in request.node.name for title in EMPTY_AT_REST):
        watched.ask(query)
        return
    until(lambda: watched.ask(query), f"data for {query}")


def test_the_share_of_the_link_is_known_for_every_nic_that_tells_its_speed(watched):
    devices = {series["metric"]["device"] for series in watched.ask("instance_device:perigee_nic_utilization:ratio_rate1m")}
    assert {rail.name for rail in watched.rails} | {"mlx5_0"} <= devices
    assert "lo" not in devices


@pytest.mark.parametrize("histogram", ["perigee_rpc_duration_seconds", "perigee_flow_latency_seconds"])
def test_prometheus_keeps_the_requests_that_stand_for_values(watched, histogram):
    def kept():
        series = watched.prometheus("query_exemplars", query=f"{histogram}_bucket", start=0, end=2**33)
        return [one for row in series for one in row["exemplars"]]

    (one, *_) = until(kept, f"exemplars of {histogram}")
    assert re.fullmatch("[0-9a-f]{32}", one["labels"]["trace_id"]) and float(one["value"]) > 0


def test_all_rules_are_loaded_and_none_fails(watched):
    groups = watched.prometheus("rules")["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert len(rules) >= 16
    until(
        lambda: all(rule["health"] == "ok" for group in watched.prometheus("rules")["groups"] for rule in group["rules"]),
        "evaluation of all rules",
    )
