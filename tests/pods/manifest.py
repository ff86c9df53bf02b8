"""Kubernetes manifests as this test plays them: pods with command, arguments, environment and sizes, and services.

Sizes are scaled down; nothing else of a manifest is changed.
"""

import json
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

import yaml

sys.path.append(str(Path(__file__).resolve().parent / "stand_ins"))
from sizes import size_bytes  # noqa: E402

FOLDER = Path(__file__).resolve().parents[2] / "tools" / "deploy" / "kubernetes"
#: Segments of 50 GB become 100 MB.
SCALE = 512
#: Variables of Mooncake that are sizes of segments.
SIZES = ("MOONCAKE_GLOBAL_SEGMENT_SIZE",)
#: The same in files for vLLM's connector.
SIZE_KEYS = ("global_segment_size", "local_buffer_size")
SIZE_FLAG = re.compile(r"^(--global_segment_size=)(.+)$")
#: Hosts of the cluster, for daemon sets.
HOSTS = 2
#: What the programs take beside the segment, which does not shrink with it: interpreter, buffers, rings.
OVERHEAD_BYTES = 320 << 20


def scaled(text):
    return str(size_bytes(text) // SCALE)


@dataclass
class Template:
    """What each replica of a role runs."""

    name: str
    replicas: int
    command: list
    environment: dict
    ready_port: int
    #: What an HTTP probe asks for; empty for one that only connects.
    ready_path: str
    memory_bytes: int
    shm_bytes: int
    labels: dict = field(default_factory=dict)
    #: Files of config maps by the folder where they are mounted.
    folders: dict = field(default_factory=dict)
    #: What runs in the pod before it gets SIGTERM.
    pre_stop: list = field(default_factory=list)

    def command_in(self, address):
        return [self._substituted(part, address) for part in self.command]

    def environment_in(self, address):
        return {name: self._substituted(text, address) for name, text in self.environment.items()}

    def _substituted(self, text, address):
        """With `$(NAME)` replaced as the kubelet does."""

        def value(match):
            found = self.environment.get(match.group(1))
            if found is None:
                return match.group(0)
            return address if found == "$(POD_IP)" else found

        return address if text == "$(POD_IP)" else re.sub(r"\$\((\w+)\)", value, text)


@dataclass
class Manifest:
    """Roles by name, and for each service the labels of its pods."""

    roles: dict
    services: dict


def documents(name):
    return list(yaml.safe_load_all((FOLDER / name).read_text()))


def read(source):
    """The manifest of a file of `tools/deploy/kubernetes`, or of documents."""
    roles, services = {}, {}
    all_documents = documents(source) if isinstance(source, str) else source
    maps = {
        one["metadata"]["name"]: {file: scaled_file(text) for file, text in one["data"].items()}
        for one in all_documents
        if one["kind"] == "ConfigMap"
    }
    for document in all_documents:
        kind, title = document["kind"], document["metadata"]["name"]
        if kind == "RoleBasedGroup":
            for role in document["spec"]["roles"]:
                labels = {"group": title, "role": role["name"]}
                roles[role["name"]] = _template(role["name"], role["replicas"], role["template"], labels, maps)
                # The operator makes one headless service per role.
                services[f"s-{title}-{role['name']}"] = labels
        elif kind in ("Deployment", "StatefulSet", "DaemonSet"):
            spec = document["spec"]
            labels = spec["template"]["metadata"]["labels"]
            # Each of a daemon set's pods is on a host of its own, as all pods are here.
            roles[title] = _template(title, spec.get("replicas", HOSTS), spec["template"], labels, maps)
        elif kind == "Service":
            space = document["metadata"].get("namespace", "default")
            for known in (title, f"{title}.{space}", f"{title}.{space}.svc.cluster.local"):
                services.setdefault(known, document["spec"]["selector"])
    return Manifest(roles, services)


def scaled_file(text):
    """A file of a config map, with the sizes in it scaled."""
    try:
        values = json.loads(text)
    except ValueError:
        return text
    return json.dumps({key: scaled(value) if key in SIZE_KEYS else value for key, value in values.items()})


def _template(name, replicas, template, labels, maps):
    [container] = template["spec"]["containers"]
    environment = {}
    for entry in container.get("env", []):
        if "valueFrom" in entry:
            assert entry["valueFrom"]["fieldRef"]["fieldPath"] == "status.podIP"
            environment[entry["name"]] = "$(POD_IP)"
        else:
            assert isinstance(entry["value"], str), f"{name}: {entry['name']} is no string"
            environment[entry["name"]] = entry["value"]
    for size in SIZES:
        if size in environment:
            environment[size] = scaled(environment[size])
    command = [*container["command"], *container.get("args", [])]
    command = [SIZE_FLAG.sub(lambda m: m.group(1) + scaled(m.group(2)), part) for part in command]
    memory = container.get("resources", {}).get("limits", {}).get("memory")
    ready_port, ready_path = _readiness(container)
    before_end = container.get("lifecycle", {}).get("preStop", {}).get("exec", {})
    return Template(
        name=name,
        replicas=replicas,
        command=command,
        environment=environment,
        ready_port=ready_port,
        ready_path=ready_path,
        memory_bytes=size_bytes(memory) // SCALE + OVERHEAD_BYTES if memory else 0,
        shm_bytes=_shm_bytes(template["spec"], container),
        labels=labels,
        folders=_folders(template["spec"], container, maps),
        pre_stop=before_end.get("command", []),
    )


def _readiness(container):
    """Port and path of the readiness probe; a port may be named."""
    probe = container["readinessProbe"]
    asked = probe.get("httpGet") or probe["tcpSocket"]
    named = {port["name"]: port["containerPort"] for port in container.get("ports", []) if "name" in port}
    return named.get(asked["port"], asked["port"]), asked.get("path", "")


def _folders(spec, container, maps):
    """Where a container sees the files of config maps, and folders of the host, which are empty here."""
    mounts = {mount["name"]: mount["mountPath"] for mount in container.get("volumeMounts", [])}
    volumes = spec.get("volumes", [])
    named = [volume for volume in volumes if "configMap" in volume]
    files = {mounts[volume["name"]]: maps[volume["configMap"]["name"]] for volume in named}
    disks = [volume["name"] for volume in volumes if volume.get("hostPath", {}).get("type") == "Directory"]
    return {**files, **{mounts[name]: {} for name in disks}}


def _shm_bytes(spec, container):
    """Size of /dev/shm: a volume of the manifest there, else the runtime's 64 MiB."""
    mounts = {mount["mountPath"]: mount["name"] for mount in container.get("volumeMounts", [])}
    for volume in spec.get("volumes", []):
        if volume["name"] == mounts.get("/dev/shm"):
            return max(64 << 20, size_bytes(volume["emptyDir"]["sizeLimit"]) // SCALE)
    return 64 << 20
