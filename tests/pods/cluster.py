"""The pods of one manifest, with names for their services as the cluster's DNS gives them to ready pods."""

import os
import shutil
import sys
from pathlib import Path

import manifest
from pod import Limits, Pod, wait_until

FOLDER = Path(__file__).resolve().parent
STAND_INS = FOLDER / "stand_ins"


class Cluster:
    """Starts, replaces and deletes pods. Each pod gets an address that no pod had before."""

    _next_address = 2

    def __init__(self, folder, name=None, refuses_io_uring=False, python=sys.executable):
        self.folder = folder
        #: Beside it are the programs that the pods run.
        self.python = python
        self.refuses_io_uring = refuses_io_uring
        self.manifest = manifest.read(name) if name else manifest.Manifest({}, {})
        self.ready = {}
        #: What runs in a pod before it is ended, and with which environment.
        self.pre_stop = {}
        self.pods = []
        self.hosts = {}
        self.resolver = folder / "resolv.conf"
        # No server: names that no pod has fail at once.
        self.resolver.write_text("nameserver 127.0.0.1\noptions attempts:1 timeout:1\n")
        self.programs = self._programs()

    def _programs(self):
        """A folder with the programs that an image has on its PATH beside ours."""
        programs = self.folder / "bin"
        programs.mkdir()
        modules = {"python": "", "python3": "", "vllm": STAND_INS / "vllm_serve.py"}
        for name, module in modules.items():
            script = programs / name
            script.write_text(f'#!/bin/sh\nexec {self.python} {module} "$@"\n')
            script.chmod(0o755)
        return programs

    def environment(self, extra):
        """What an image and a manifest give a container; nothing of the test's own environment."""
        ours = Path(self.python).parent
        # Of modules that were just built the tests of another package know nothing.
        built = os.environ.get("PYTHONPATH") if self.python == sys.executable else None
        modules = [str(STAND_INS), *filter(None, [built])]
        return {
            "PATH": f"{self.programs}:{ours}:{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(modules),
            "PYTHONUNBUFFERED": "1",
            "HOME": "/root",
            "HOSTNAME": "pod",
            **extra,
        }

    def start(self, role, index=0, ready=True, memory_bytes=None, **changes):
        """Starts replica `index` of a role; with `ready`, waits for its readiness probe.

        `changes` are variables; `memory_bytes` is another limit than the manifest's.
        """
        template = self.manifest.roles[role]
        address = self.take_address()
        environment = {**template.environment_in(address), **changes}
        memory = template.memory_bytes if memory_bytes is None else memory_bytes
        limits = Limits(memory, template.shm_bytes, self.refuses_io_uring, template.folders)
        command = template.command_in(address)
        pod = self.start_command(f"{role}-{index}", command, environment, limits, address)
        if template.pre_stop:
            self.pre_stop[pod] = (template.pre_stop, self.environment(environment))
        return self.wait_ready(pod, role) if ready else pod

    def wait_ready(self, pod, role):
        """Waits for the readiness probe of a role; then the services have the pod."""
        template = self.manifest.roles[role]
        pod.wait_for_port(template.ready_port)
        if template.ready_path:

            def is_ready():
                return pod.http("GET", template.ready_port, template.ready_path)[0] == 200

            wait_until(is_ready, lambda: f"{pod.name} answers {template.ready_path}\n{pod.log()}")
        self.ready[pod] = template.labels
        self.write_hosts()
        return pod

    def start_command(self, name, command, environment, limits=None, address=None):
        """Starts a pod that no manifest describes."""
        limits = limits or Limits(refuses_io_uring=self.refuses_io_uring)
        address = address or self.take_address()
        hosts = self.folder / f"{name}.{address}.hosts"
        hosts.write_text("")
        files = {"/etc/hosts": str(hosts), "/etc/resolv.conf": str(self.resolver)}
        self.hosts[hosts] = (address, name)
        self.write_hosts()
        environment = {**self.environment(environment), "HOSTNAME": name}
        pod = Pod(name, address, self.folder, command, environment, files, limits)
        self.pods.append(pod)
        return pod

    def take_address(self):
        number = Cluster._next_address
        Cluster._next_address += 1
        return f"10.88.{number // 250}.{number % 250 + 1}"

    def write_hosts(self):
        """Writes every pod's own lines and the services with ready pods, in place: the files are mounted."""
        services = []
        for service, selector in self.manifest.services.items():
            for pod, labels in self.ready.items():
                if selector.items() <= labels.items():
                    services.append(f"{pod.address} {service}")
        for path, (address, name) in self.hosts.items():
            own = ["127.0.0.1 localhost", "::1 localhost ip6-localhost", f"{address} {name}"]
            lines = [*own, *services]
            path.write_text("\n".join(lines) + "\n")

    def delete(self, pod, grace_s=30):
        """Deletes a pod; its services forget it first. Returns the seconds it took, None for a kill."""
        self.forget(pod)
        if pod in self.pre_stop:
            command, environment = self.pre_stop.pop(pod)
            code, said = pod.run(*command, environment=environment)
            print(f"--- preStop of {pod.name} ended with {code}\n{said}")
        return pod.stop(grace_s)

    def crash(self, pod):
        """Ends a pod without a warning."""
        self.forget(pod)
        pod.kill()

    def forget(self, pod):
        self.ready.pop(pod, None)
        self.write_hosts()

    def logs(self):
        return "\n".join(pod.log() for pod in self.pods)

    def close(self):
        for pod in self.pods:
            pod.kill()
        shutil.rmtree(self.programs, ignore_errors=True)
