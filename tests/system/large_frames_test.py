"""Frames large enough that the host backend reads them in place and writes results over them."""

import collections
import unittest

import numpy as np

from daemon_process import VERSION, Daemons, pipeline

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


if __name__ == "__main__":
    unittest.main()
