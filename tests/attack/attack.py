"""What the attacks share: their duration, the cases of a run, and the resources of a process."""

import os
import pathlib

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


def descriptors(pid):
    """How many descriptors a process has open."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def resident_bytes(pid):
    """What a process has in memory."""
    return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def processor_seconds(pid):
    """The time that a process has had on processors."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
