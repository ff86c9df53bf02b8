"""Kubernetes manifests as this test plays them: pods with command, arguments, environment and sizes, and services.

Sizes are scaled down; nothing else of a manifest is changed.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

import yaml

FOLDER = Path(__file__).resolve().parents[2] / "tools" / "deploy" / "kubernetes"
#: Segments of 50 GB become 100 MB.
SCALE = 512
#: Variables of Mooncake that are sizes of segments.
SIZES = ("MOONCAKE_GLOBAL_SEGMENT_SIZE",)
SIZE_FLAG = re.compile(r"^(--global_segment_size=)(.+)$")
#: What the programs take beside the segment, which does not shrink with it: interpreter, buffers, rings.
OVERHEAD_BYTES = 320 << 20
UNITS = {
    "": 1,
    **{unit: 1 << shift for unit, shift in (("kb", 10), ("mb", 20), ("gb", 30), ("tb", 40))},
    **{unit: 1 << shift for unit, shift in (("ki", 10), ("mi", 20), ("gi", 30), ("ti", 40))},
}


def size_bytes(text):
    number, unit = re.fullmatch(r"\s*([\d.]+)\s*([a-zA-Z]*)\s*", str(text)).groups()
    return int(float(number) * UNITS[unit.lower()])


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
    memory_bytes: int
    shm_bytes: int
    labels: dict = field(default_factory=dict)

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


def read(name):
    roles, services = {}, {}
    for document in yaml.safe_load_all((FOLDER / name).read_text()):
        kind, title = document["kind"], document["metadata"]["name"]
        if kind == "RoleBasedGroup":
            for role in document["spec"]["roles"]:
                labels = {"group": title, "role": role["name"]}
                roles[role["name"]] = _template(role["name"], role["replicas"], role["template"], labels)
                # The operator makes one headless service per role.
                services[f"s-{title}-{role['name']}"] = labels
        elif kind == "Deployment":
            spec = document["spec"]
            labels = spec["template"]["metadata"]["labels"]
            roles[title] = _template(title, spec["replicas"], spec["template"], labels)
        elif kind == "Service":
            services.setdefault(title, document["spec"]["selector"])
    return Manifest(roles, services)


def _template(name, replicas, template, labels):
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
    return Template(
        name=name,
        replicas=replicas,
        command=command,
        environment=environment,
        ready_port=container["readinessProbe"]["tcpSocket"]["port"],
        memory_bytes=size_bytes(memory) // SCALE + OVERHEAD_BYTES if memory else 0,
        shm_bytes=_shm_bytes(template["spec"], container),
        labels=labels,
    )


def _shm_bytes(spec, container):
    """Size of /dev/shm: a volume of the manifest there, else the runtime's 64 MiB."""
    mounts = {mount["mountPath"]: mount["name"] for mount in container.get("volumeMounts", [])}
    for volume in spec.get("volumes", []):
        if volume["name"] == mounts.get("/dev/shm"):
            return max(64 << 20, size_bytes(volume["emptyDir"]["sizeLimit"]) // SCALE)
    return 64 << 20
