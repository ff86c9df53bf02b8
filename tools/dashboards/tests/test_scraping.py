"""What is shipped to scrape the agents fits the rules: their job, and an interval that fills their windows."""

from __future__ import annotations

import re

import pytest
import yaml
from conftest import FOLDER

DEPLOYED = FOLDER.parent / "deploy/kubernetes"
#: A rate wants this many samples in its window: one may be late, one lost.
SAMPLES = 4


def seconds(text):
    number, unit = re.fullmatch(r"(\d+)([smh])", text).groups()
    return int(number) * {"s": 1, "m": 60, "h": 3600}[unit]


def jobs():
    """Job and interval of each way of scraping."""
    cluster = yaml.safe_load((FOLDER / "prometheus/perigee.yml").read_text())
    for job in cluster["scrape_configs"]:
        yield "perigee.yml", job["job_name"], cluster["global"]["scrape_interval"]
    for job in yaml.safe_load((DEPLOYED / "scrape.yml").read_text())["scrape_configs"]:
        yield "scrape.yml", job["job_name"], job["scrape_interval"]
    monitor = yaml.safe_load((DEPLOYED / "podmonitor.yaml").read_text())
    for endpoint in monitor["spec"]["podMetricsEndpoints"]:
        (job,) = (rule["replacement"] for rule in endpoint["relabelings"] if rule["targetLabel"] == "job")
        yield "podmonitor.yaml", job, endpoint["interval"]


def rules():
    files = (FOLDER / "prometheus" / name for name in ("alerts.yml", "recording.yml"))
    return "".join(file.read_text() for file in files)


#: What each file scrapes: the whole of a small cluster, or the agents of a Kubernetes cluster.
SCRAPED = {
    "perigee.yml": {"perigee-master", "perigee-node", "perigee-agent"},
    "scrape.yml": {"perigee-agent"},
    "podmonitor.yaml": {"perigee-agent"},
}


@pytest.mark.parametrize("way", SCRAPED)
def test_programs_are_scraped_under_the_jobs_that_alerts_ask_for(way):
    assert SCRAPED["perigee.yml"] == set(re.findall(r'job="([^"]+)"', rules()))
    assert SCRAPED[way] == {job for file, job, _ in jobs() if file == way}


def test_the_chart_scrapes_under_these_jobs_too():
    template = (FOLDER.parent / "deploy/helm/perigee/templates/podmonitor.yaml").read_text()
    assert 'replacement: perigee-{{ get $jobs $name }}' in template
    words = re.findall(r'"(\w+)"', re.search(r"\$jobs := dict (.*?) }}", template).group(1))
    assert {f"perigee-{job}" for job in words[1::2]} == SCRAPED["perigee.yml"]


def test_every_interval_and_the_one_in_the_readmes_fill_the_windows():
    shortest = min(map(seconds, re.findall(r"\[(\d+[smh])\]", rules())))
    assert all(SAMPLES * seconds(interval) <= shortest for _, _, interval in jobs())
    for readme in (FOLDER / "README.md", DEPLOYED.parent / "README.md"):
        (longest,) = re.findall(r"at least every (\d+) seconds", " ".join(readme.read_text().split()))
        assert SAMPLES * int(longest) == shortest


def test_the_agent_that_is_deployed_is_the_one_that_is_scraped():
    pods = yaml.safe_load((DEPLOYED / "perigee-agent.yaml").read_text())["spec"]["template"]
    monitor = yaml.safe_load((DEPLOYED / "podmonitor.yaml").read_text())["spec"]
    assert monitor["selector"]["matchLabels"].items() <= pods["metadata"]["labels"].items()
    ports = {port["name"] for container in pods["spec"]["containers"] for port in container["ports"]}
    assert {endpoint["port"] for endpoint in monitor["podMetricsEndpoints"]} <= ports
    # Twice scraped, under another job, is what annotations lead to.
    assert "annotations" not in pods["metadata"]
