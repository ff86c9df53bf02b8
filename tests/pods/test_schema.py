"""The manifests of tools/deploy/kubernetes against Kubernetes' own schemas: no unknown field, no wrong type."""

import kubernetes_validate
import manifest
import pytest

VERSION = "1.37"
#: Kinds of operators, whose schemas are not Kubernetes'.
OPERATORS = ("workloads.x-k8s.io/", "monitoring.coreos.com/")
#: A scrape configuration of Prometheus, no manifest.
MANIFESTS = sorted(path.name for path in manifest.FOLDER.glob("*.yaml"))


def objects(name):
    """The documents of a manifest; of an operator's, what it makes of each role."""
    for document in manifest.documents(name):
        if not document["apiVersion"].startswith(OPERATORS):
            yield document
        for role in document.get("spec", {}).get("roles", []):
            yield deployment(role)


def deployment(role):
    labels = {"role": role["name"]}
    template = {**role["template"], "metadata": {"labels": labels}}
    spec = {"replicas": role["replicas"], "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": role["name"]}, "spec": spec}


@pytest.mark.parametrize("name", MANIFESTS)
def test_each_object_is_what_kubernetes_takes(name):
    for one in objects(name):
        kubernetes_validate.validate(one, VERSION, strict=True)


def test_a_misspelt_field_is_found():
    [one, *_] = objects("store.yaml")
    one["spec"]["template"]["spec"]["containers"][0]["comand"] = ["true"]
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(one, VERSION, strict=True)
