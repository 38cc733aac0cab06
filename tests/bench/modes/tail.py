#!/usr/bin/env python3
"""What the tail of completion by callback is made of, beside polling, at 10 to 70 % load.

Usage: tail.py PENSTOCKD PENSTOCK [--backend cuda|host] [--repeats N] [--seconds S] [--clients N] [--loads 10,30,50,70]
       [--only callback,poll,...] [--json FILE]

One daemon for each way stands through a repeat, and the ways take turns at each load; the order turns from repeat to
repeat. A turn says p50, p99 and the longest time of a request of 4 KiB in an open loop, and of the turn's last batches
how long after the device's end of the copy out the shard saw it (`seen`), by the daemon's own timeline. Beside them
stand, for each kind of the daemon's threads, how long it waited for a processor while it could have run, and how often
the process's control group was stopped for its quota.
"""

import argparse
import collections
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

# way: (completion, lines of [daemon], streams, what to do with the driver's threads)
WAYS = {
    "callback": ("callback", "", 8, None),
    "poll": ("poll", "", 8, None),
    "auto": ("auto", "", 8, None),
    "callback_spinning": ("callback", 'spin = "1 ms"\n', 8, None),
    "callback_anywhere": ("callback", "avoid_interrupts = false\n", 8, None),
    "callback_one_stream": ("callback", "", 1, None),
    "callback_real_time": ("callback", "", 8, "real time"),
    "callback_pinned": ("callback", "", 8, "pinned"),
}

CONFIGURATION = """config_version = 1
[daemon]
log_level = "warn"
{daemon}[device]
streams = {streams}
[clients]
credit_requests = 1024
[timing]
recent_batches = 2048
[[pipeline]]
name = "y"
input = {{ dtype = "f32", shape = [1024] }}
[[pipeline.stage]]
name = "y"
op = "affine"
a = 2.0
b = 1.0
"""


def threads_of(pid):
    """Of each thread: its number and name, the seconds that it waited for a processor, and how often it was put off one."""
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        try:
            name = (task / "comm").read_text().strip()
            waited = int((task / "schedstat").read_text().split()[1]) * 1e-9
            status = (task / "status").read_text()
        except (OSError, IndexError, ValueError):
            continue
        preempted = next((int(line.split()[1]) for line in status.splitlines() if line.startswith("nonvoluntary")), 0)
        yield int(task.name), name, waited, preempted


def scheduling(pid):
    waits = collections.Counter()
    preempted = collections.Counter()
    for _, name, waited, put_off in threads_of(pid):
        waits[name] += waited
        preempted[name] += put_off
    return waits, preempted


def throttled():
    """(times, seconds) that the quota of this control group stopped it; zeros where there is none."""
    for line_file in ("/sys/fs/cgroup/cpu.stat", "/sys/fs/cgroup/cpu/cpu.stat"):
        try:
            found = dict(line.split() for line in pathlib.Path(line_file).read_text().splitlines())
        except OSError:
            continue
        seconds = int(found.get("throttled_usec", 0)) * 1e-6 or int(found.get("throttled_time", 0)) * 1e-9
        return int(found.get("nr_throttled", 0)), seconds
    return 0, 0.0


class Daemon:
    def __init__(self, options, folder, way):
        completion, daemon, streams, driver_threads = WAYS[way]
        self.way = way
        self.client = options.penstock
        self.url = f"ipc://{folder}/{way}.sock"
        self.folder = folder
        configuration = folder / f"{way}.toml"
        configuration.write_text(CONFIGURATION.format(daemon=daemon, streams=streams))
        self.process = subprocess.Popen(
            [options.penstockd, "--config", configuration, "--listen", self.url, "--admin", "none",
             "--backend", options.backend, "--completion", completion])
        self.driver_threads = driver_threads
        self.note = ""

    def wait(self):
        limit = time.monotonic() + 60
        while subprocess.run([self.client, "--url", self.url, "ping", "-n", "1"], capture_output=True).returncode != 0:
            if time.monotonic() > limit or self.process.poll() is not None:
                sys.exit(f"{self.way}: the daemon does not answer")
            time.sleep(0.1)
        self.note = self.arrange(self.driver_threads) if self.driver_threads else ""

    def arrange(self, how):
        """The threads that the driver has made, which keep the names that it gave them."""
        own = [tid for tid, name, _, _ in threads_of(self.process.pid) if name.startswith("cuda")]
        others = [tid for tid, name, _, _ in threads_of(self.process.pid) if name == "penstockd" and
                  tid != self.process.pid]
        chosen = own + others
        try:
            if how == "real time":
                for tid in chosen:
                    os.sched_setscheduler(tid, os.SCHED_RR, os.sched_param(10))
            else:
                free = sorted(os.sched_getaffinity(self.process.pid))
                for at, tid in enumerate(chosen):
                    os.sched_setaffinity(tid, {free[-1 - at % len(free)]})
        except OSError as error:
            return f"not possible here: {error}"
        return f"{len(chosen)} threads"

    def bench(self, *arguments):
        file = self.folder / "bench.json"
        file.unlink(missing_ok=True)
        done = subprocess.run([self.client, "--url", self.url, "bench", "-p", "y", "--json", file, *arguments],
                              capture_output=True, text=True)
        if not file.exists():
            sys.exit(f"{self.way}: {done.stdout}{done.stderr}")
        return json.loads(file.read_text())

    def capacity(self, clients):
        return self.bench("--clients", str(clients), "--in-flight", "16", "--warmup", "200ms", "--duration",
                          "500ms")["requests_per_s"]

    def turn(self, rate, clients, seconds):
        waits, preempted = scheduling(self.process.pid)
        stopped, stopped_s = throttled()
        measured = self.bench("--clients", str(clients), "--rate", str(round(rate)), "--warmup", "100ms", "--duration",
                              f"{seconds}s")
        again_stopped, again_stopped_s = throttled()
        again_waits, again_preempted = scheduling(self.process.pid)
        longest = sorted(((again_waits[name] - waits[name]) * 1e3, name) for name in again_waits)[-4:]
        return {
            **{key: measured["latency_us"][key] for key in ("p50", "p99", "p99.9", "max")},
            "errors": measured["errors"],
            "seen": self.seen(),
            "stopped": again_stopped - stopped,
            "stopped_ms": (again_stopped_s - stopped_s) * 1e3,
            "waited_ms": {name: round(waited, 2) for waited, name in reversed(longest)},
            "preempted": sum((again_preempted - preempted).values()),
        }

    def seen(self):
        """How long after its copy out the shard saw each batch of the last seconds that was timed."""
        file = self.folder / "trace.json"
        subprocess.run([self.client, "--url", self.url, "trace", "--last", "5s", "-o", file], capture_output=True,
                       check=True)
        ends, completed = {}, {}
        for event in json.loads(file.read_text())["traceEvents"]:
            batch = event.get("args", {}).get("batch")
            if event["ph"] == "X" and batch is not None:
                kept = completed if event["cat"] == "request" else ends
                kept[batch] = max(kept.get(batch, 0.0), event["ts"] + event["dur"])
        times = sorted(completed[batch] - end for batch, end in ends.items() if batch in completed)
        if not times:
            return None
        return {"batches": len(times), "p50": times[len(times) // 2], "p99": times[len(times) * 99 // 100],
                "max": times[-1]}

    def stop(self):
        self.process.terminate()
        self.process.wait(60)


def show(load, way, turns, poll):
    middle = {key: statistics.median(turn[key] for turn in turns) for key in ("p50", "p99", "max")}
    seen = [turn["seen"] for turn in turns if turn["seen"]]
    seen_text = "-" if not seen else " / ".join(
        f"{statistics.median(each[key] for each in seen):.0f}" for key in ("p50", "p99", "max"))
    ratio = f"{middle['p99'] / poll:5.2f}" if poll else "    -"
    waited = collections.Counter()
    for turn in turns:
        waited.update(turn["waited_ms"])
    text = ", ".join(f"{name} {ms:.1f}" for name, ms in waited.most_common(3))
    print(f"{load:4d} %  {way:20s} p50 {middle['p50']:8.0f}  p99 {middle['p99']:8.0f}  max {middle['max']:8.0f} us  "
          f"p99/poll {ratio}  seen {seen_text} us  stopped {sum(t['stopped'] for t in turns)} times "
          f"{sum(t['stopped_ms'] for t in turns):.0f} ms  waited (ms) {text}; each p99: "
          + " ".join(f"{turn['p99']:.0f}" for turn in turns), flush=True)


def main():
    asked = argparse.ArgumentParser()
    asked.add_argument("penstockd")
    asked.add_argument("penstock")
    asked.add_argument("--backend", default="cuda")
    asked.add_argument("--repeats", type=int, default=5)
    asked.add_argument("--seconds", type=float, default=0.6)
    asked.add_argument("--clients", type=int, default=4)
    asked.add_argument("--loads", default="10,30,50,70")
    asked.add_argument("--only", default=",".join(WAYS))
    asked.add_argument("--json")
    options = asked.parse_args()
    ways = options.only.split(",")
    loads = [int(each) for each in options.loads.split(",")]
    rows = {(load, way): [] for load in loads for way in ways}
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        for repeat in range(options.repeats):
            folder = pathlib.Path(name) / str(repeat)
            folder.mkdir()
            daemons = [Daemon(options, folder, way) for way in ways]
            for each in daemons:
                each.wait()
                if each.note and repeat == 0:
                    print(f"{each.way}: {each.note}", flush=True)
            if repeat == 0:
                reached = {each.way: each.capacity(options.clients) for each in daemons}
                full = min(reached.values())
                print(f"100 % are {full:.0f} requests/s, the least of " +
                      ", ".join(f"{way} {most:.0f}" for way, most in reached.items()), flush=True)
            turned = daemons[repeat % len(daemons):] + daemons[:repeat % len(daemons)]
            for load in loads:
                for each in turned:
                    rows[load, each.way].append(each.turn(full * load / 100, options.clients, options.seconds))
            for each in daemons:
                each.stop()
            print(f"after {repeat + 1} of {options.repeats} repeats, medians", flush=True)
            for load in loads:
                polled = rows.get((load, "poll"))
                poll = statistics.median(turn["p99"] for turn in polled) if polled else None
                for way in ways:
                    show(load, way, rows[load, way], poll)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(
            [{"load": load, "way": way, "turns": turns} for (load, way), turns in rows.items()], indent=1))


main()
