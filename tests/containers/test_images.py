"""What is made for users to build on: our image, the one of an inference engine, compose files, and the Debian package in a bare Debian."""

from __future__ import annotations

import json
import os
import shutil
import subprocess

import pytest
from daemon import BASE, CACHE, IMAGE, ROOT, TARGET, until

DEPLOY = ROOT / "tools" / "deploy"
#: What our image may add to its base.
ADDED_BYTES_MAX = 120 << 20
START_S = 120
MOONCAKE = "mooncake-transfer-engine-non-cuda"


def test_the_image_is_small_and_runs_as_no_root_user(daemon):
    assert daemon.size(IMAGE) - daemon.size(BASE) < ADDED_BYTES_MAX
    assert daemon.docker("image", "inspect", "--format", "{{.Config.User}}", IMAGE) == "65532:65532"
    assert "perigee master" in daemon.docker("run", "--rm", "--network", "none", IMAGE, "perigee", "master", "--help")


@pytest.fixture(scope="module")
def engine(daemon, tmp_path_factory):
    """An engine's image with Mooncake in it, and ours made from it by the Dockerfile; their names."""
    folder = tmp_path_factory.mktemp("engine")
    dockerfile = folder / "Dockerfile"
    dockerfile.write_text(
        "ARG BASE\nFROM ${BASE}\nCOPY *.whl /wheels/\nRUN python3 -m venv /opt/engine && /opt/engine/bin/pip install "
        f"--no-index --find-links /wheels {MOONCAKE} && rm -rf /wheels\nENV PATH=/opt/engine/bin:$PATH\n"
    )
    daemon.make("engine-today", dockerfile, CACHE / "engine", BASE=BASE)
    daemon.make("engine-perigee", DEPLOY / "Dockerfile.engine", TARGET / "index", BASE="engine-today")
    return "engine-today", "engine-perigee"


def python(daemon, image, code, *options):
    return daemon.docker("run", "--rm", "--network", "none", *options, image, "python3", "-c", code, check=False)


def test_an_engines_image_has_perigee_in_mooncakes_place(daemon, engine):
    today, ours = engine
    assert MOONCAKE in daemon.docker("run", "--rm", "--network", "none", today, "pip", "list")
    listed = daemon.docker("run", "--rm", "--network", "none", ours, "pip", "list")
    assert MOONCAKE not in listed and "perigee-mooncake" in listed, listed
    assert python(daemon, ours, "import mooncake.store as it; print(it.__file__)").endswith("mooncake/store.py")
    # What pods of the guides do at every start.
    again = daemon.docker("run", "--rm", "--network", "none", ours, "pip", "install", "--no-index", "mooncake-transfer-engine")
    assert "already satisfied: mooncake-transfer-engine" in again


def test_a_pod_that_installs_mooncake_over_ours_gets_an_error_at_import(daemon, engine):
    wheels = f"{CACHE / 'engine'}:/wheels:ro"
    code = (
        "import subprocess, sys; subprocess.run([sys.executable, '-m', 'pip', 'install', '--quiet', '--no-index', "
        f"'--find-links', '/wheels', '{MOONCAKE}'], check=True); "
        "sys.exit(subprocess.run([sys.executable, '-c', 'import mooncake.store']).returncode)"
    )
    said = python(daemon, engine[1], code, "--volume", wheels).splitlines()[-1]
    assert said.startswith("ImportError: mooncake.store is not Perigee's") and f"pip uninstall {MOONCAKE}" in said


class Compose:
    """A project of docker-compose; leaving it takes all its containers away."""

    def __init__(self, daemon, *files, **variables):
        self.command = ["docker-compose", "--project-name", "perigee-test"]
        self.command += [word for file in files for word in ("--file", str(DEPLOY / file))]
        self.environment = {**os.environ, "DOCKER_HOST": daemon.socket, "PERIGEE_IMAGE": IMAGE, "PERIGEE_SEGMENT": "256mb", **variables}

    def run(self, *words, check=True):
        done = subprocess.run(
            [*self.command, *words], env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            stdin=subprocess.DEVNULL, timeout=240, check=False,
        )
        assert not check or done.returncode == 0, f"{words}: {done.stdout}"
        return done.stdout

    def __enter__(self):
        self.run("up", "--detach")
        return self

    def __exit__(self, *_):
        self.run("down", "--timeout", "10", "--volumes", check=False)


READ_AND_WRITE = """
from mooncake.store import MooncakeDistributedStore
from mooncake.mooncake_config import MooncakeConfig
config = MooncakeConfig.load_from_env()
store = MooncakeDistributedStore()
assert store.setup("localhost", config.metadata_server, 0, 16 << 20, "tcp", "", config.master_server_address) == 0
assert store.put("key", b"value" * 1000) == 0 and store.get("key") == b"value" * 1000
print("same bytes")
"""


def lends(compose):
    status = compose.run("exec", "-T", "master", "perigee", "status", "--format=json", check=False)
    try:
        return json.loads(status)["segments"]
    except ValueError:
        return None


def test_the_compose_file_makes_a_cluster_that_drains(daemon):
    with Compose(daemon, "compose.yaml") as compose:
        [segment] = until(lambda: lends(compose), lambda: compose.run("logs"), START_S)
        assert segment["reachable"], segment
        assert "same bytes" in compose.run("run", "--rm", "-T", "client", "python3", "-c", READ_AND_WRITE)
        # Nowhere to go: the command says so, and that the objects are still there.
        alone = compose.run("exec", "-T", "store", "perigee", "drain", "--timeout=5s", check=False)
        assert "moved" in alone or "refused" in alone, alone


def test_etcd_takes_the_place_of_the_metadata_service(daemon, tmp_path):
    shutil.copy(shutil.which("etcd"), tmp_path / "etcd")
    (tmp_path / "Dockerfile").write_text("ARG BASE\nFROM ${BASE}\nCOPY etcd /usr/local/bin/etcd\n")
    daemon.make("etcd-test", tmp_path / "Dockerfile", tmp_path, BASE=BASE)
    variables = {"ETCD_IMAGE": "etcd-test", "PERIGEE_METADATA": "etcd://etcd:2379"}
    with Compose(daemon, "compose.yaml", "compose.etcd.yaml", **variables) as compose:
        until(lambda: lends(compose), lambda: compose.run("logs"), START_S)
        assert "same bytes" in compose.run("run", "--rm", "-T", "client", "python3", "-c", READ_AND_WRITE)


INSTALL_AND_REMOVE = """
set -e
dpkg --install /deb/perigee_*.deb
mooncake_master --version
perigee doctor --only=reactor || true
test -e /lib/systemd/system/perigee-master.service
perigee master --config_path=/etc/perigee/master.yaml --log_dir=/tmp 2>/tmp/master.err &
until perigee status 127.0.0.1:50051; do kill -0 $!; sleep 0.2; done
kill $!
wait $!
echo '# changed' >> /etc/perigee/master.yaml
dpkg --remove perigee
test ! -e /usr/bin/perigee
test -e /etc/perigee/master.yaml
dpkg --purge perigee
test ! -e /etc/perigee
test -z "$(find /etc /usr /lib /var -name '*perigee*')"
echo clean
"""


def test_the_debian_package_installs_runs_and_goes_without_a_trace(daemon):
    volume = f"{TARGET / 'debian'}:/deb:ro"
    said = daemon.docker("run", "--rm", "--network", "none", "--volume", volume, BASE, "sh", "-c", INSTALL_AND_REMOVE, check=False)
    assert said.endswith("clean"), said
