"""The Helm chart: accepted by helm's own lint, and what it renders is what Kubernetes takes."""

import json
import re

import kubernetes_validate
import pytest
import yaml
from conftest import ROOT, TOOLS, run

CHART = ROOT / "tools" / "deploy" / "helm" / "perigee"
HELM = TOOLS / "helm"
VERSION = "1.37"
#: Values by what they show.
CASES = {
    "defaults": {},
    "daemonset": {"store": {"kind": "DaemonSet", "hostNetwork": True, "nodeSelector": {"gpu": "yes"}}},
    "rdma": {"store": {"protocol": "rdma"}, "rdma": {"resource": "rdma/mlx5", "count": 2}},
    "rdma-without-plugin": {"store": {"protocol": "rdma"}, "rdma": {"resource": "", "ipcLock": False, "required": False}},
    "everything": {
        "agent": {"enabled": True, "tolerations": [{"operator": "Exists"}]},
        "podMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
        "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}},
        "dashboards": {"enabled": True, "annotations": {"grafana_folder": "Perigee"}},
        "networkPolicy": {
            "clients": [{"namespaceSelector": {"matchLabels": {"team": "inference"}}}],
            "monitoring": [{"namespaceSelector": {"matchLabels": {"team": "monitoring"}}}],
        },
        "imagePullSecrets": [{"name": "registry"}],
        "master": {"args": ["--client_ttl=20"], "affinity": {"nodeAffinity": {}}},
        "store": {"args": ["--huge_pages"], "tolerations": [{"key": "gpu", "operator": "Exists"}]},
    },
    "disk-of-the-host": {"store": {"kind": "DaemonSet", "disk": {"hostPath": "/nvme0/kv", "limit": "400Gi"}}, "agent": {"enabled": True}},
    "disk-by-claim": {"store": {"disk": {"claimSize": "500Gi", "storageClass": "local-nvme"}}},
    "encrypted-disk": {"store": {"kind": "DaemonSet", "disk": {"hostPath": "/nvme0/kv", "keySecret": "kv-key", "keySecretItem": "key"}}},
    "encrypted-claim": {"store": {"disk": {"claimSize": "500Gi", "keySecret": "kv-key"}}, "agent": {"enabled": True}},
    "least": {"master": {"metadataServer": False}, "store": {"drainSeconds": 0}, "networkPolicy": {"enabled": False}},
}


@pytest.fixture
def rendered(tmp_path):
    def render(values):
        file = tmp_path / "values.yaml"
        file.write_text(json.dumps(values))
        text = run(HELM, "template", "cache", CHART, "--values", file)
        return {(one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all(text) if one}

    return render


def container(document):
    [only] = document["spec"]["template"]["spec"]["containers"]
    return only


@pytest.mark.parametrize("name", CASES)
def test_helm_lint_finds_nothing(tmp_path, name):
    file = tmp_path / "values.yaml"
    file.write_text(json.dumps(CASES[name]))
    said = run(HELM, "lint", "--strict", CHART, "--values", file)
    assert "[WARNING]" not in said and "[ERROR]" not in said, said


@pytest.mark.parametrize("name", CASES)
def test_each_object_is_what_kubernetes_takes(rendered, name):
    documents = rendered(CASES[name])
    assert len(documents) >= 4
    for document in documents.values():
        if not document["apiVersion"].startswith("monitoring.coreos.com/"):
            kubernetes_validate.validate(document, VERSION, strict=True)


def test_a_store_pod_lends_within_its_limit_and_drains_before_it_stops(rendered):
    store = rendered({"store": {"segmentSize": "40Gi", "overhead": "512Mi", "drainSeconds": 45}})["StatefulSet", "cache-store"]
    pod, only = store["spec"]["template"]["spec"], container(store)
    assert f"--global_segment_size={40 << 30}" in only["args"]
    assert only["resources"]["limits"]["memory"] == f"{40 * 1024 + 512}Mi" == only["resources"]["requests"]["memory"]
    assert only["lifecycle"]["preStop"]["exec"]["command"] == [
        "perigee", "drain", "--master=cache-master:50051", "--timeout=45s"
    ]
    assert pod["terminationGracePeriodSeconds"] > 45
    assert "lifecycle" not in container(rendered(CASES["least"])["StatefulSet", "cache-store"])


def test_a_disk_is_mounted_for_the_store_and_the_master_uses_it(rendered):
    documents = rendered(CASES["disk-of-the-host"])
    store = documents["DaemonSet", "cache-store"]
    pod, only = store["spec"]["template"]["spec"], container(store)
    assert {"--enable_offload", "--ssd_offload_path=/mnt/kv"} <= set(only["args"])
    assert {"name": "disk", "mountPath": "/mnt/kv"} in only["volumeMounts"]
    assert {"name": "disk", "hostPath": {"path": "/nvme0/kv", "type": "Directory"}} in pod["volumes"]
    assert {"name": "MOONCAKE_OFFLOAD_TOTAL_SIZE_LIMIT_BYTES", "value": str(400 << 30)} in only["env"]
    assert "--enable_offload" in container(documents["Deployment", "cache-master"])["args"]
    claimed = rendered(CASES["disk-by-claim"])["StatefulSet", "cache-store"]["spec"]
    [claim] = claimed["volumeClaimTemplates"]
    assert (claim["metadata"]["name"], claim["spec"]["storageClassName"]) == ("disk", "local-nvme")
    assert claim["spec"]["resources"]["requests"]["storage"] == "500Gi"
    security = claimed["template"]["spec"]["securityContext"]
    assert security["fsGroup"] == security["runAsUser"], "a new volume is root's"
    without = rendered({})
    assert "--enable_offload" not in container(without["Deployment", "cache-master"])["args"]
    assert "volumeMounts" not in container(without["StatefulSet", "cache-store"])


@pytest.mark.parametrize(("name", "kind", "item"), [("encrypted-disk", "DaemonSet", "key"), ("encrypted-claim", "StatefulSet", "disks.key")])
def test_only_the_group_of_the_pod_can_read_the_key_of_disks(rendered, name, kind, item):
    store = rendered(CASES[name])[kind, "cache-store"]
    pod, only = store["spec"]["template"]["spec"], container(store)
    [key] = [volume for volume in pod["volumes"] if volume["name"] == "disk-key"]
    assert key["secret"] == {"secretName": "kv-key", "defaultMode": 0o400, "items": [{"key": item, "path": "disks.key"}]}
    [mount] = [mount for mount in only["volumeMounts"] if mount["name"] == "disk-key"]
    assert mount["readOnly"] is True
    assert f"--ssd_key_file={mount['mountPath']}/disks.key" in only["args"]
    security = pod["securityContext"]
    assert security["fsGroup"] == security["runAsGroup"], "the file is root's, and its group's is the pod's"
    plain = container(rendered(CASES["disk-of-the-host"])["DaemonSet", "cache-store"])
    assert not any(word.startswith("--ssd_key_file") for word in plain["args"])


@pytest.mark.parametrize("store", [
    {"kind": "DaemonSet", "disk": {"claimSize": "500Gi"}},
    {"disk": {"claimSize": "500Gi", "hostPath": "/nvme0/kv"}},
    {"disk": {"hostPath": "nvme0/kv"}},
    {"disk": {"keySecret": "kv-key"}},
    {"disk": {"hostPath": "/nvme0/kv", "keySecret": "Not a name"}},
    {"disk": {"hostPath": "/nvme0/kv", "keySecret": "kv-key", "keySecretItem": "../key"}},
])
def test_a_disk_that_cannot_be_is_refused(rendered, store):
    with pytest.raises(AssertionError, match="disk"):
        rendered({"store": store})


def test_rdma_brings_the_device_and_the_right_to_lock_memory(rendered):
    only = container(rendered(CASES["rdma"])["StatefulSet", "cache-store"])
    assert only["resources"]["limits"]["rdma/mlx5"] == 2
    assert only["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["IPC_LOCK"]}
    assert {"name": "PERIGEE_REQUIRE_RDMA", "value": "1"} in only["env"]
    bare = container(rendered(CASES["rdma-without-plugin"])["StatefulSet", "cache-store"])
    assert bare["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert set(bare["resources"]["limits"]) == {"memory"}


def test_selectors_services_policies_and_monitors_meet_their_pods(rendered):
    documents = rendered(CASES["everything"])
    pods = {
        name.removeprefix("cache-"): one["spec"]["template"]
        for (kind, name), one in documents.items()
        if kind in ("Deployment", "StatefulSet", "DaemonSet")
    }
    assert pods.keys() == {"master", "store", "agent"}
    selectors = {
        "Service": lambda one: one["spec"]["selector"],
        "NetworkPolicy": lambda one: one["spec"]["podSelector"]["matchLabels"],
        "PodMonitor": lambda one: one["spec"]["selector"]["matchLabels"],
    }
    seen = set()
    for (kind, name), one in documents.items():
        if kind in selectors:
            seen.add((kind, name))
            labels = pods[name.removeprefix("cache-")]["metadata"]["labels"]
            assert selectors[kind](one).items() <= labels.items(), (kind, name)
            ports = {port["name"] for port in pods[name.removeprefix("cache-")]["spec"]["containers"][0]["ports"]}
            assert ports_of(kind, one) <= ports, (kind, name)
    assert {kind for kind, _ in seen} == set(selectors) and len(seen) == 7


def ports_of(kind, one):
    """Names of the ports that an object refers to."""
    if kind == "Service":
        return {port["targetPort"] for port in one["spec"]["ports"]}
    if kind == "PodMonitor":
        return {endpoint["port"] for endpoint in one["spec"]["podMetricsEndpoints"]}
    return {port["port"] for rule in one["spec"]["ingress"] for port in rule["ports"]}


def test_only_stores_and_monitoring_reach_the_port_that_can_empty_the_cache(rendered):
    policy = rendered(CASES["everything"])["NetworkPolicy", "cache-master"]
    allowed = [rule["from"] for rule in policy["spec"]["ingress"] if {"protocol": "TCP", "port": "metrics"} in rule["ports"]]
    stores = {"app.kubernetes.io/name": "perigee", "app.kubernetes.io/instance": "cache", "app.kubernetes.io/component": "store"}
    assert allowed == [[{"podSelector": {"matchLabels": stores}}], CASES["everything"]["networkPolicy"]["monitoring"]]


def test_rules_and_dashboards_match_the_repository_and_the_scraped_jobs(rendered):
    documents = rendered(CASES["everything"])
    source = ROOT / "tools" / "dashboards"
    for name in ("recording", "alerts"):
        rule = documents["PrometheusRule", f"cache-{name}"]
        assert rule["metadata"]["labels"]["release"] == "prometheus"
        assert rule["spec"] == yaml.safe_load((source / "prometheus" / f"{name}.yml").read_text())
    jobs = {
        relabeling["replacement"]
        for (kind, _), one in documents.items()
        if kind == "PodMonitor"
        for relabeling in one["spec"]["podMetricsEndpoints"][0]["relabelings"]
        if relabeling.get("targetLabel") == "job"
    }
    alerts = json.dumps(documents["PrometheusRule", "cache-alerts"])
    assert jobs == set(re.findall(r'job=\\"([a-z-]+)', alerts))
    boards = {path.stem: json.loads(path.read_text()) for path in (source / "grafana").glob("*.json")}
    assert len(boards) >= 4
    for name, board in boards.items():
        shown = documents["ConfigMap", f"cache-dashboard-{name}"]
        assert shown["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert shown["metadata"]["annotations"] == {"grafana_folder": "Perigee"}
        assert json.loads(shown["data"][f"perigee-{name}.json"]) == board
        assert len(json.dumps(shown)) < 1 << 20, "what Kubernetes takes"


def test_pods_without_rights_pass_pod_security_restricted(rendered):
    documents = rendered({})
    for key in (("Deployment", "cache-master"), ("StatefulSet", "cache-store")):
        pod = documents[key]["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container(documents[key])["securityContext"]["allowPrivilegeEscalation"] is False
        assert container(documents[key])["securityContext"]["capabilities"] == {"drop": ["ALL"]}


@pytest.mark.parametrize(
    "values",
    [
        {"store": {"kind": "Deployment"}},
        {"store": {"protocol": "nvlink"}},
        {"store": {"segmentSize": "40gb"}},
        {"stor": {}},
        {"master": {"replicas": 3}},
        {"networkPolicy": {"clients": {}}},
    ],
    ids=str,
)
def test_values_that_mean_nothing_are_refused(tmp_path, values):
    file = tmp_path / "values.yaml"
    file.write_text(json.dumps(values))
    assert "values don't meet the specifications" in run(HELM, "template", "cache", CHART, "--values", file, code=1)


def test_every_value_is_documented_and_in_the_schema():
    text = (CHART / "values.yaml").read_text()
    schema = json.loads((CHART / "values.schema.json").read_text())["properties"]
    for name, value in yaml.safe_load(text).items():
        known = schema[name]
        if known.get("additionalProperties") is False:
            assert set(value) == set(known["properties"]), name
    assert set(yaml.safe_load(text)) | {"global"} == set(schema)
