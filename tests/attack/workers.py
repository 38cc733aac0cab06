"""Clients of every kind, each a process of its own that checks every result, for tests that kill and stop processes.

As a program: `workers.py KIND URL` sends until its standard input ends, then prints its account as JSON.
"""

import collections
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading

import numpy

CONFIGURATION = """config_version = 1
[device]
slots = 8
streams = 4
[[pipeline]]
name = "line"
input = { dtype = "f32", shape = [16] }
[[pipeline.stage]]
name = "y"
op = "affine"
a = 2.0
b = 1.0
[[pipeline]]
name = "large"
input = { dtype = "f32", shape = [65536] }
batch = { max_frames = 2 }
[[pipeline.stage]]
name = "y"
op = "affine"
a = 2.0
b = 1.0
[[pipeline]]
name = "filter"
input = { dtype = "f32", shape = [16] }
[[pipeline.stage]]
name = "y"
op = "fir"
taps = [1.0, 2.0, 4.0]
"""
KINDS = ("frames", "large", "sessions", "shared", "command")
TIMEOUT = 300.0


class Account:
    """What became of a worker's requests. Every `step` of them it says how many there were."""

    def __init__(self, step):
        self.step, self.sent, self.right, self.told, self.wrong = step, 0, 0, 0, []

    def add(self, right, message=""):
        if right:
            self.right += 1
        else:
            self.wrong.append(message)
        if self.right % self.step == 0:
            print(self.right, flush=True)

    def print(self):
        print(json.dumps({"sent": self.sent, "right": self.right, "told": self.told, "wrong": self.wrong[:5]}),
              flush=True)


def send_frames(url, over, pipeline, length, in_flight, transport):
    """Frames without a session, some at once; each comes back right, and once."""
    import penstock
    account, random = Account(50 if length < 1000 else 5), numpy.random.default_rng(os.getpid())
    with penstock.Client(url, timeout=TIMEOUT, connect_timeout=60, retry_after=0.5, transport=transport) as client:
        pending = collections.deque()
        while pending or not over.is_set():
            if not over.is_set() and len(pending) < in_flight:
                frame = random.integers(-1000, 1000, length).astype(numpy.float32)
                pending.append((frame, client.submit(pipeline, frame)))
                account.sent += 1
                continue
            frame, future = pending.popleft()
            try:
                account.add(numpy.array_equal(future.result(2 * TIMEOUT)["y"], 2 * frame + 1), "another result")
            except penstock.PenstockError as error:
                account.add(False, repr(error))
    account.print()


def send_sessions(url, over):
    """A session's frames go through its filter in order, or the session is said to be lost and a new one begun."""
    import penstock
    account, random = Account(50), numpy.random.default_rng(os.getpid())
    with penstock.Client(url, timeout=TIMEOUT, connect_timeout=60, retry_after=0.5) as client:
        while not over.is_set():
            try:
                with client.session("filter") as session:
                    before = numpy.zeros(2)
                    while not over.is_set():
                        frames = random.integers(-100, 100, (8, 16)).astype(numpy.float32)
                        futures = []
                        for frame in frames:
                            futures.append(session.submit(frame))
                            account.sent += 1
                        for done, future in enumerate(futures):
                            result = future.result(2 * TIMEOUT)["y"].ravel()
                            signal_so_far = numpy.concatenate([before, frames[done]])
                            expected = numpy.convolve(signal_so_far, [1.0, 2.0, 4.0])[2:18]
                            account.add(numpy.array_equal(result, expected), "another result of a session")
                            before = signal_so_far[-2:]
            except penstock.SessionLost:
                account.told = account.sent - account.right - len(account.wrong)
    account.print()


def run_command(url, over):
    """`penstock send`, again and again: the file that comes out is the file that went in, as the pipeline has it."""
    account, random = Account(1), numpy.random.default_rng(os.getpid())
    penstock = pathlib.Path(os.environ["PENSTOCK_BIN"]) / "penstock"
    with tempfile.TemporaryDirectory() as folder:
        given = pathlib.Path(folder) / "given.f32"
        while not over.is_set():
            frames = random.integers(-1000, 1000, (500, 16)).astype(numpy.float32)
            frames.tofile(given)
            account.sent += 1
            done = subprocess.run([penstock, "--url", url, "--timeout", f"{TIMEOUT:.0f}s", "send", "-p", "line", "--force",
                                   "--out", f"{folder}/out", given], capture_output=True, text=True)
            if done.returncode != 0:
                account.add(False, f"exit code {done.returncode}: {done.stderr[-500:]}")
                continue
            got = numpy.load(f"{folder}/out/y.npy")
            account.add(numpy.array_equal(got.reshape(frames.shape), 2 * frames + 1), "another file")
    account.print()


class Worker:
    """A client of that kind, as a process."""

    def __init__(self, kind, url):
        self.kind, self.url, self.right = kind, url, 0
        self.process = subprocess.Popen([sys.executable, __file__, kind, url], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.last = ""
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.last = line
            if line.strip().isdigit():
                self.right = int(line)

    def finish(self):
        """Its account, once everything that it sent is answered."""
        self.process.stdin.close()
        self.process.wait(3 * TIMEOUT)
        self.reader.join()
        self.process.stdout.close()
        return json.loads(self.last)

    def close(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait()
        for end in (self.process.stdin, self.process.stdout):
            end.close()


def main(kind, url):
    over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
    if kind == "frames":
        send_frames(url, over, "line", 16, 32, "zmq")
    elif kind == "large":
        send_frames(url, over, "large", 65536, 4, "zmq")
    elif kind == "shared":
        send_frames(url, over, "large", 65536, 4, "auto")
    elif kind == "sessions":
        send_sessions(url, over)
    else:
        run_command(url, over)


if __name__ == "__main__":
    main(*sys.argv[1:])
