"""Frames large enough that the host backend reads them in place and writes results over them."""

import collections
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

import numpy as np

from daemon_process import BIN, VERSION, Daemons, pipeline

MOST = 1 << 20  # elements of a frame, 4 MiB
ROW = 5000
BRANCHES = [("a", "affine", 'from = "input"\na = 2\n'), ("b", "affine", 'from = "input"\na = 3\n'),
            ("sum", "add", 'from = ["a", "b"]\n')]
CONFIGURATION = (
    VERSION + '[device]\nslots = 6\nstreams = 3\n'
    + pipeline("scale", "f32", [f"max {MOST}"], [("y", "affine", "a = 2\nb = 1\n")], ["y"])
    + pipeline("branches", "f32", [f"max {MOST}"], BRANCHES, ["sum"])
    + pipeline("window", "cf32", [2, ROW], [("w", "window", 'window = "hann"\n')], ["w"])
    + pipeline("both", "f32", [f"max {MOST}"], BRANCHES[:2], ["a", "b"]))
HANN = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(ROW) / ROW)
EXPECTED = {"scale": {"y": lambda x: 2 * x + 1}, "branches": {"sum": lambda x: 2 * x + 3 * x},
            "both": {"a": lambda x: 2 * x, "b": lambda x: 3 * x}}


def frames(count, seed=1):
    """Of lengths about the 64 and 256 KiB from which on they stay where they came in, and a few of 4 MiB."""
    random = np.random.default_rng(seed)
    for number in range(count):
        length = MOST if number % 16 == 0 else int(random.integers(1, 1 << 17))
        yield random.standard_normal((1, length)).astype(np.float32)


class LargeFramesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemons = Daemons(CONFIGURATION)
        cls.addClassCleanup(cls.daemons.stop)

    def check(self, name, result, frame):
        self.assertEqual(set(result), set(EXPECTED[name]))
        for output, expected in EXPECTED[name].items():
            np.testing.assert_array_equal(np.asarray(result[output]).ravel(), expected(frame).ravel(), name)

    def walk(self, submit, name, seed):
        """Several in flight at once, each result compared."""
        waiting = collections.deque()
        for frame in frames(100, seed):
            waiting.append((submit(frame), frame))
            if len(waiting) > 12:
                future, sent = waiting.popleft()
                self.check(name, future.result(60), sent)
        for future, sent in waiting:
            self.check(name, future.result(60), sent)

    def test_results_are_right_while_many_are_in_flight(self):
        def served(daemon):
            from penstock import Client
            with Client(daemon.url, transport="zmq", timeout=60) as client:
                for seed, name in enumerate(EXPECTED):
                    with self.subTest(pipeline=name):
                        self.walk(lambda frame: client.submit(name, frame), name, seed)
        self.daemons.each(self, served)

    def test_several_frames_of_complex_rows(self):
        def served(daemon):
            from penstock import Client
            random = np.random.default_rng(3)
            with Client(daemon.url, transport="zmq", timeout=60) as client:
                for count in (1, 2, 7, 30):
                    x = random.standard_normal((count, 2, ROW, 2)).astype(np.float32).view(np.complex64)[..., 0]
                    result = client.submit("window", x).result(60)
                    np.testing.assert_allclose(np.asarray(result["w"]).reshape(x.shape), HANN * x, atol=2e-6)
        self.daemons.each(self, served)

    def test_results_of_a_session_come_in_its_order(self):
        def served(daemon):
            from penstock import Client
            with Client(daemon.url, transport="zmq", timeout=60) as client, client.session("scale") as session:
                order = []

                def submit(frame):
                    number = submit.count = getattr(submit, "count", 0) + 1
                    future = session.submit(frame)
                    future.add_done_callback(lambda _: order.append(number))
                    return future
                self.walk(submit, "scale", 7)
                self.assertEqual(order, sorted(order))
                self.assertEqual(len(order), 100)
        self.daemons.each(self, served)

    def test_a_cancelled_frame_takes_nobody_elses_result(self):
        def served(daemon):
            from penstock import Cancelled, Client
            with Client(daemon.url, transport="zmq", timeout=60) as client:
                waiting, ends = [], collections.Counter()
                for number, frame in enumerate(frames(100, 5)):
                    future = client.submit("scale", frame)
                    waiting.append((future, frame))
                    if number % 3 == 0:
                        client.cancel(future)
                    if len(waiting) == 10:
                        for done, sent in waiting:
                            try:
                                self.check("scale", done.result(60), sent)
                                ends["result"] += 1
                            except Cancelled:
                                ends["cancelled"] += 1
                        waiting = []
                self.assertEqual(sum(ends.values()), 100)
        self.daemons.each(self, served)


class MemoryTest(unittest.TestCase):
    """What --check-config says of the memory that slots take: each of these has 2 frames of 4 MiB in and 2 out."""

    def check(self, slots, elements=MOST):
        text = (VERSION + f'[device]\nbackend = "host"\nslots = {slots}\nstreams = 1\n'
                + pipeline("scale", "f32", [elements], [("y", "affine", "a = 2\n")], ["y"],
                           'batch = { max_frames = 2, max_bytes = "128 MiB" }\n'))
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "penstock.toml")
            file.write_text(text)
            return subprocess.run([BIN / "penstockd", "--config", file, "--check-config"], capture_output=True,
                                  text=True, timeout=60)

    def test_is_told_and_warned_of_above_a_quarter_of_the_machine(self):
        done = self.check(2)
        self.assertEqual(done.returncode, 0, done.stderr)
        slot = re.search(r"pipeline 'scale': a batch has up to 2 frames; its slot takes ([0-9.]+) MiB in, "
                         r"([0-9.]+) MiB out and ([0-9.]+) MiB in its arena\n", done.stdout)
        self.assertIsNotNone(slot, done.stdout)
        self.assertEqual([float(slot[1]), float(slot[2])], [8, 8])
        each = sum(map(float, slot.groups()))
        refused = self.check(4096, 15 * MOST)
        self.assertEqual(refused.returncode, 78, refused.stdout)
        machine = int(re.search(r"this machine has ([0-9]+) MiB", refused.stderr)[1])
        for share, warned in ((0.2, False), (0.3, True)):
            slots = round(share * machine / each)
            done = self.check(slots)
            self.assertEqual(done.returncode, 0, done.stderr)
            total = re.search(rf"{slots} slots as large as the largest, and the states: ([0-9.]+) MiB of the host",
                              done.stdout)
            self.assertAlmostEqual(float(total[1]) / (slots * each), 1, delta=0.02)
            self.assertEqual("warning: that can be " + total[1] + " MiB of the " in done.stdout, warned, done.stdout)


if __name__ == "__main__":
    unittest.main()
