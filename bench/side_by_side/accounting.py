"""CPU time and memory of a started program with all it started: wrapper scripts start the real program as a child."""

import os

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# Positions behind the name in /proc/PID/stat.
SESSION, USER, SYSTEM, RESIDENT = 3, 11, 12, 21


def stat_fields(pid):
    """Fields of /proc/PID/stat behind the name; None if there is no such process any more."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
            return stat.read().rpartition(")")[2].split()
    except OSError:
        return None


def session_members(leader):
    """Fields of every process in the session that `leader` opened."""
    for name in os.listdir("/proc"):
        fields = stat_fields(name) if name.isdecimal() else None
        if fields and int(fields[SESSION]) == leader:
            yield fields


def cpu_seconds(leader):
    """User and system time of a session's processes."""
    ticks = sum(int(fields[USER]) + int(fields[SYSTEM]) for fields in session_members(leader))
    return ticks / TICKS_PER_SECOND


def resident_bytes(leader):
    """Resident memory of a session's processes, shared memory included."""
    return sum(int(fields[RESIDENT]) for fields in session_members(leader)) * PAGE_BYTES
