"""Pods: containers that share an address, behind one bridge."""

from __future__ import annotations

import secrets
import subprocess

from daemon import HERE, IMAGE, until

#: What runs in the field: the profile of today's runtimes, no root, nothing to write to but /tmp and 64 MiB of /dev/shm.
LIMITS = (
    "--security-opt", f"seccomp={HERE / 'seccomp.json'}", "--security-opt", "no-new-privileges",
    "--user", "65532:65532", "--read-only", "--tmpfs", "/tmp", "--shm-size", "64m",
    "--ulimit", "memlock=8388608:8388608", "--memory", "1g", "--memory-swap", "1g",
)
ANSWER_S = 120


def run(*words):
    """Run a command that must succeed and return what it printed."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


class Container:
    """One container that runs or has ended."""

    def __init__(self, daemon, name):
        self.daemon, self.name = daemon, name

    def log(self):
        """What it has written."""
        return self.daemon.docker("logs", self.name)

    def status(self):
        """Exit code, or None while it runs."""
        state = self.daemon.docker("inspect", "--format", "{{.State.Running}} {{.State.ExitCode}}", self.name)
        running, code = state.split()
        return None if running == "true" else int(code)

    def says(self, text, deadline_s=ANSWER_S):
        """Wait for a line that begins so, and return the rest of it; fail if the container ends without."""

        def found():
            ended = self.status() is not None
            lines = [line for line in self.log().splitlines() if line.startswith(text)]
            assert lines or not ended, f"{self.name} ended with {self.status()} without {text!r}:\n{self.log()}"
            return lines

        return until(found, lambda: f"{text!r} of {self.name}:\n{self.log()}", deadline_s)[-1].removeprefix(text).strip()

    def ends(self, deadline_s=ANSWER_S):
        """Wait for its end, which must be a good one, and return what it wrote."""
        until(lambda: self.status() is not None, lambda: f"end of {self.name}:\n{self.log()}", deadline_s)
        assert self.status() == 0, f"{self.name} ended with {self.status()}:\n{self.log()}"
        return self.log()

    def stop(self, grace_s=20):
        """SIGTERM, as the kubelet does; the exit code."""
        self.daemon.docker("stop", "--time", grace_s, self.name)
        return self.status()


class Pods:
    """Use as a context: the bridge and the addresses go with it."""

    def __init__(self, daemon):
        self.daemon = daemon
        self.space = f"perigee-ct-{secrets.token_hex(3)}"
        self.addresses, self.pids = {}, {}

    def __enter__(self):
        run("ip", "netns", "add", self.space)
        inside = ["ip", "-n", self.space]
        # An address of its own: otherwise the bridge takes that of its newest port, and peers forget where it is.
        run(*inside, "link", "add", "bridge0", "address", "02:00:00:00:00:01", "type", "bridge")
        run(*inside, "address", "add", "10.213.0.1/24", "dev", "bridge0")
        run(*inside, "link", "set", "bridge0", "up")
        return self

    def __exit__(self, *_):
        subprocess.run(["ip", "netns", "del", self.space], capture_output=True, check=False)

    def add(self, *names):
        """Pods of these names; each knows the names of the others by its hosts file."""
        new = {name: f"10.213.0.{len(self.addresses) + number}" for number, name in enumerate(names, 2)}
        self.addresses |= new
        hosts = [word for name, address in self.addresses.items() for word in ("--add-host", f"{name}:{address}")]
        for name in new:
            self.daemon.containers.append(name)
            self.daemon.docker(
                "run", "--detach", "--name", name, "--hostname", name, "--network", "none", "--init", *hosts, IMAGE,
                "sleep", "infinity",
            )
            self.plug(name)

    def plug(self, name):
        """Give a pod its interface on the bridge."""
        pid = self.pids[name] = self.daemon.docker("inspect", "--format", "{{.State.Pid}}", name)
        port = f"p{self.addresses[name].rpartition('.')[2]}"
        run("ip", "-n", self.space, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", pid)
        run("ip", "-n", self.space, "link", "set", port, "master", "bridge0", "up")
        inside = ["nsenter", "--target", pid, "--net", "ip"]
        run(*inside, "address", "add", f"{self.addresses[name]}/24", "dev", "eth0")
        run(*inside, "link", "set", "eth0", "up")

    def start(self, pod, *command, env=None, limits=LIMITS):
        """Start a container in a pod."""
        name = f"{pod}-{secrets.token_hex(3)}"
        self.daemon.containers.append(name)
        variables = [word for key, value in (env or {}).items() for word in ("--env", f"{key}={value}")]
        self.daemon.docker(
            "run", "--detach", "--name", name, "--network", f"container:{pod}", *limits, *variables,
            "--volume", f"{HERE / 'drivers'}:/drivers:ro", IMAGE, *command,
        )
        return Container(self.daemon, name)

    def fetch(self, pod, port, path, method="GET", body=None):
        """What a pod answers at a path, or None without a good answer."""
        command = ["ip", "netns", "exec", self.space, "curl", "--silent", "--fail", "--max-time", "10", "--request", method]
        if body is not None:
            command += ["--header", "Content-Type: application/json", "--data", body]
        command.append(f"http://{self.addresses[pod]}:{port}{path}")
        asked = subprocess.run(command, capture_output=True, text=True, check=False)
        return asked.stdout if asked.returncode == 0 else None

    def answers(self, container, pod, port, path, **request):
        """Wait for an answer with a body; fail at once if the container ends."""

        def asked():
            assert container.status() is None, f"{container.name} ended with {container.status()}:\n{container.log()}"
            return self.fetch(pod, port, path, **request)

        return until(asked, lambda: f"{path} of {pod}:\n{container.log()}", ANSWER_S)
