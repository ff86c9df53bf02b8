"""The units of systemd: accepted by systemd itself, and hardened."""

import re
import shutil

import pytest
from conftest import ROOT, run

FOLDER = ROOT / "tools" / "deploy" / "systemd"
UNITS = sorted(FOLDER.glob("*.service"))
#: Highest exposure that systemd may find, of 100. The agent's capabilities are what it is for.
EXPOSURE_MAX = 25


@pytest.fixture(params=UNITS, ids=lambda unit: unit.stem)
def unit(request, tmp_path, unpacked):
    """A unit as it stands, with its program at a place that exists here."""
    text = request.param.read_text()
    program = unpacked / "usr" / "bin" / "perigee"
    service = tmp_path / "mc_store_rest_server"
    shutil.copy("/bin/true", service)
    text = text.replace("ExecStart=perigee ", f"ExecStart={program} ")
    text = text.replace("/opt/perigee/bin/mc_store_rest_server", str(service))
    copy = tmp_path / request.param.name
    copy.write_text(text)
    return copy


def test_systemd_accepts_the_unit(unit):
    assert run("systemd-analyze", "verify", "--man=no", unit) == ""


def test_systemd_finds_it_hardened(unit):
    judged = run("systemd-analyze", "security", "--offline=true", "--no-pager", f"--threshold={EXPOSURE_MAX}", unit)
    assert re.search(r"Overall exposure level .* OK", judged), judged


def test_a_misspelt_setting_is_found(unit):
    unit.write_text(unit.read_text().replace("LimitNOFILE=", "LimitNoFiles=").replace("LimitMEMLOCK=", "LimitMemlok="))
    assert "Unknown key" in run("systemd-analyze", "verify", "--man=no", unit, code=None)


@pytest.mark.parametrize("path", UNITS, ids=lambda unit: unit.stem)
def test_units_lock_what_their_program_locks_and_read_variables(path):
    text = path.read_text()
    assert re.search(r"^EnvironmentFile=-/etc/default/" + path.stem + "$", text, re.M)
    if path.stem in ("perigee-node", "perigee-store-service", "perigee-agent"):
        assert "LimitMEMLOCK=infinity" in text
