"""The Debian package: clean by lintian, complete, and its settings start the programs. Installed and removed in tests/containers."""

import subprocess

import pytest
from conftest import run

PROGRAMS = (
    "perigee", "mooncake_master", "mooncake_client", "mooncake_http_metadata_server", "transfer_engine_bench",
    "transfer_engine_topology_dump",
)


def test_lintian_finds_nothing(package):
    said = run("lintian", "--allow-root", "--fail-on", "error,warning", "--pedantic", package)
    assert "E:" not in said and "W:" not in said, said


def test_each_program_has_a_page_of_manual_and_says_its_version(unpacked):
    for name in PROGRAMS:
        program = unpacked / "usr/bin" / name
        assert (unpacked / f"usr/share/man/man1/{name}.1.gz").exists(), name
        assert run(program, "--version").startswith(name)


def test_settings_are_files_of_configuration(package, unpacked):
    listed = set(run("dpkg-deb", "--info", package, "conffiles").split())
    found = {f"/{path.relative_to(unpacked)}" for path in (unpacked / "etc").rglob("*") if path.is_file()}
    assert listed == found and len(found) == 6


@pytest.mark.parametrize(
    ("name", "header"), [("transfer_engine", "transfer_engine_c.h"), ("mooncake_store", "store_c.h")]
)
def test_c_programs_find_libraries_and_headers_by_pkg_config(unpacked, name, header):
    text = (unpacked / f"usr/share/pkgconfig/{name}.pc").read_text()
    folders = dict(line.split("=", 1) for line in text.splitlines() if line.partition("=")[0].isalpha())
    assert (unpacked / folders["libdir"].lstrip("/") / f"lib{name}.so").exists()
    assert (unpacked / folders["includedir"].lstrip("/") / header).exists()


def test_only_the_c_library_is_needed(package):
    depends = run("dpkg-deb", "--field", package, "Depends")
    names = {word.split()[0] for word in depends.strip().split(", ")}
    assert names <= {"libc6", "libgcc-s1"}, depends


def start(unpacked, *words):
    command = [unpacked / "usr/bin/perigee", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("program", "cannot"),
    [
        # An address that no host has, and a master that is not there.
        ("master", ["--rpc_address=192.0.2.1"]),
        ("node", ["--max_wait_time=0", "--master_server_address=127.0.0.1:1"]),
    ],
)
def test_the_settings_are_what_the_program_reads(unpacked, tmp_path, program, cannot):
    file = unpacked / "etc/perigee" / f"{program}.yaml"
    ended = start(unpacked, program, f"--config_path={file}", *cannot)
    assert ended.returncode in (69, 75), ended.stderr
    wrong = tmp_path / f"{program}.yaml"
    wrong.write_text(file.read_text() + "\nno_such_setting: 1\n")
    refused = start(unpacked, program, f"--config_path={wrong}", *cannot)
    assert refused.returncode == 2 and "no_such_setting" in refused.stderr
