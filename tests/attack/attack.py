"""What the attacks share: how long they run, and what is looked at of the daemon's process meanwhile."""

import json
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "system"))

from unix_connection import UnixConnection  # noqa: E402

# How long a test attacks, in seconds, where it is asked to attack for long; 0 in CI.
LONG = float(os.environ.get("PENSTOCK_ATTACK_SECONDS", "0"))

# A long run may be one of several that share the cases: PENSTOCK_ATTACK_SLICE=2/16 is the second of sixteen.
SLICE, SLICES = (int(each) for each in os.environ.get("PENSTOCK_ATTACK_SLICE", "1/1").split("/"))


def chosen(cases, few):
    """The cases of a sweep that are tried: all of this run's slice, or where no long run is asked for, a few from the
    first to the last."""
    cases = list(cases)
    if LONG or len(cases) <= few:
        return cases[SLICE - 1::SLICES]
    return [cases[each * (len(cases) - 1) // (few - 1)] for each in range(few)]


def share(count):
    """How many of so many repetitions are this run's."""
    return count * SLICE // SLICES - count * (SLICE - 1) // SLICES


def wait_until(holds, what, seconds=30.0):
    """Waits until `holds()`, and returns what it gave. Raises AssertionError with `what` after `seconds`."""
    end = time.monotonic() + seconds
    while True:
        found = holds()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds:g} s: {what}")
        time.sleep(0.02)


def descriptors(pid):
    """How many descriptors a process has open."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def resident_bytes(pid):
    """What a process has in memory."""
    return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def ask_for_reload(daemon):
    """The status of the admin's answer, and what it says."""
    http = UnixConnection(daemon.admin.removeprefix("unix:"))
    try:
        http.request("POST", "/api/v1/reload", headers={"X-Penstock": "1"})
        answer = http.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        http.close()


def asked(daemon, path):
    """What the admin endpoint (a Unix socket) of a daemon answers: the status and the text."""
    from unix_connection import UnixConnection
    http = UnixConnection(daemon.admin.removeprefix("unix:"))
    try:
        http.request("GET", path)
        answer = http.getresponse()
        return answer.status, answer.read().decode()
    finally:
        http.close()


def failing_checks(daemon):
    """The reasons of /readyz by check; {} when the daemon is ready."""
    status, text = asked(daemon, "/readyz")
    found = {each["name"]: each["reason"] for each in json.loads(text)["checks"] if not each["passed"]}
    if (status == 200) != (not found):
        raise AssertionError(f"/readyz says {status}: {text}")
    return found


def processor_seconds(pid):
    """The time that a process has had on processors."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
