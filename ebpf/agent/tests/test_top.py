"""`perigee top` through a terminal of 80 columns and 24 lines, against a live agent."""

from __future__ import annotations

import os
import re
import signal
import subprocess

import pytest
from cluster import PROGRAM, Cluster, free_port, until
from terminal import Terminal

#: Exit code of every program whose server does not answer.
NOT_REACHED = 69
BYTES = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9}


def top(cluster, *flags, **options):
    """A terminal with the program in it."""
    environment = os.environ | {"TERM": "xterm-256color"}
    words = [PROGRAM, "top", f"--agent=127.0.0.1:{cluster.web}", "--delay_ms=200", *flags]
    return Terminal(*words, env=environment, **options)


def rows(terminal):
    """Lines of the table, without title, status and those that are slow, as parts of a busy host may be."""
    return [line for line in terminal.lines()[2:23] if line.strip() and not line.startswith("SLOW ")]


def amounts(terminal, column):
    """A column of rates as numbers, from the top."""
    cells = (line.split()[column] for line in rows(terminal))
    found = (re.fullmatch(r"([\d.]+)([kMG]?)", cell) for cell in cells)
    return [float(match[1]) * BYTES[match[2]] for match in found if match]


def readings(terminal):
    """How many readings the open graph shows."""
    return int(re.search(r"the last (\d+) readings", "\n".join(terminal.lines()))[1])


def dots(terminal):
    """How many cells of the screen hold part of a curve."""
    return sum(0x2800 < ord(character) <= 0x28FF for character in "".join(terminal.lines()))


def test_it_draws_live_rates_of_every_nic_within_80_columns(live):
    with top(live) as terminal:
        names = [rail.name for rail in live.rails]
        lines = terminal.wait_for("perigee top", "NICs", "lo", "M", *names)
        assert all(title in lines[1] for title in ("NIC", "in/s*", "out/s", "used", "p50", "p99"))
        assert "q end" in lines[23]
        assert terminal.screen.alternate
        before = rows(terminal)
        until(lambda: rows(terminal) != before, "other numbers")


def test_every_view_shows_something(live):
    with top(live) as terminal:
        disks = f"{str(live.folder)[:8]} healthy"
        for view in ("resent/s 10.213.", "p50 tcp", "took queue", disks, "vda write", "perigee-data", "interfaces"):
            terminal.press("Tab")
            terminal.wait_for(*view.split())
        terminal.press("Left")
        terminal.wait_for("perigee-data")


def test_keys_sort_by_another_column_and_filter_rows(live):
    with top(live) as terminal:
        first = live.rails[0].name
        terminal.wait_for(first, "M")
        until(lambda: amounts(terminal, 3) == sorted(amounts(terminal, 3), reverse=True), "order")
        terminal.press("s")
        terminal.wait_for("out/s*", absent=["in/s*"])
        until(lambda: amounts(terminal, 4) == sorted(amounts(terminal, 4), reverse=True), "order")
        terminal.press("f", first)
        lines = terminal.wait_for(f"filter: {first}_")
        assert [line.split()[0] for line in rows(terminal)] == [first], lines
        terminal.press("Enter")
        terminal.wait_for(f"filter: {first}  ")
        terminal.press("Escape")
        terminal.wait_for(live.rails[1].name, absent=["filter:"])


def test_enter_opens_the_graph_of_a_row_and_escape_closes_it(live):
    with top(live) as terminal:
        terminal.wait_for(live.rails[1].name, "M")
        terminal.press("Down", "Enter")
        terminal.wait_for("readings", "in", "out")
        until(lambda: readings(terminal) > 3 and dots(terminal) > 5, "curve that grows")
        terminal.press("Escape")
        terminal.wait_for("in/s*", absent=["readings"])
        terminal.press("?")
        terminal.wait_for("Keys", "next view")
        terminal.press("Escape")
        terminal.wait_for("in/s*", absent=["next view"])


@pytest.mark.parametrize("way", ["q", "\x03", signal.SIGTERM, signal.SIGINT])
def test_however_it_ends_the_terminal_is_as_before(live, way):
    with top(live) as terminal:
        terminal.wait_for("NICs")
        assert not terminal.is_restored()
        if isinstance(way, str):
            terminal.press(way)
        else:
            terminal.process.send_signal(way)
        assert terminal.ends_with() == 0
        until(terminal.is_restored, "terminal as it was")


def test_a_window_too_small_is_reported_and_one_that_grows_is_used(live):
    with top(live, columns=30, lines=5) as terminal:
        terminal.wait_for("perigee top needs 40x6")
        terminal.resize(80, 24)
        terminal.wait_for("NICs", live.rails[0].name, "q end")
        terminal.resize(20, 3)
        terminal.wait_for("perigee top needs")
        terminal.press("q")
        assert terminal.ends_with() == 0


def test_without_the_agent_it_says_so_and_ends_with_an_error():
    port = free_port()
    words = [PROGRAM, "top", f"--agent=127.0.0.1:{port}"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == NOT_REACHED and done.stdout == ""
    assert f"The agent at 127.0.0.1:{port} does not answer" in done.stderr
    assert "start `perigee agent`" in done.stderr
    with Terminal(*words) as terminal:
        assert terminal.ends_with() == NOT_REACHED
        terminal.wait_for("does not answer")
        assert terminal.is_restored()


def test_an_agent_that_dies_is_reported_and_one_that_is_back_is_shown_again(tmp_path):
    with Cluster(tmp_path) as alone:
        alone.start_agent("--ebpf=false")
        with top(alone) as terminal:
            terminal.wait_for("lo", "loopback")
            alone.stop("agent", kill=True)
            lines = terminal.wait_for("No new numbers")
            assert any(line.startswith("lo") for line in lines), "the last numbers stay"
            alone.start_agent("--ebpf=false")
            terminal.wait_for("q end", absent=["No new numbers"])
            alone.processes["agent"].send_signal(signal.SIGSTOP)
            terminal.press("?")
            terminal.wait_for("next view")
            terminal.press("q")
            assert terminal.ends_with() == 0, "keys must not wait for an agent that hangs"
            alone.processes["agent"].send_signal(signal.SIGCONT)


def test_it_reads_the_host_itself_where_no_agent_is_asked_for(live):
    words = [PROGRAM, "top", "--once"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, env=live.environment)
    assert done.returncode == 0, done.stderr
    assert all(part in done.stdout for part in ("NICs", live.rails[0].name, "perigee-data"))
