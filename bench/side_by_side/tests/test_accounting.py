"""Facts about the accounts of a session."""

import subprocess
import sys

from bench.side_by_side.accounting import cpu_seconds, resident_bytes, session_members, stat_fields

#: Starts a child of its own and says so, then waits for both to be let go.
SCRIPT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "print('up', flush=True); input()"])
child.wait()
"""


def test_a_session_counts_the_children_of_its_leader():
    leader = subprocess.Popen(
        [sys.executable, "-c", SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    try:
        assert leader.stdout.readline() == b"up\n"
        assert len(list(session_members(leader.pid))) == 2
        assert resident_bytes(leader.pid) > 0
        assert cpu_seconds(leader.pid) >= 0
    finally:
        leader.communicate(b"\n")
    assert resident_bytes(leader.pid) == 0


def test_a_process_that_is_gone_has_no_fields():
    assert stat_fields(2**22 + 1) is None
