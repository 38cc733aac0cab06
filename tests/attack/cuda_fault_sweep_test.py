"""Every CUDA call of a start, of serving, of a reload and of a stop fails once, by a runtime that needs no GPU.

A call is refused, or fails with the device, or does its work and says that it failed; a callback never comes. Whatever
it is, the daemon ends with a documented code, or serves the same configuration on with right results; every request is
answered; one refusal ends nothing. CI takes a few calls of each phase; PENSTOCK_ATTACK_SECONDS asks for all of them.
"""

import os
import pathlib
import signal
import subprocess
import tempfile
import unittest

import numpy as np
from penstock import Client, PenstockError

from attack import chosen
from daemon_process import BIN, wait_until
from faults import FAKE_CUDA, FakeCuda, Kind

HEAD = """config_version = 1
[device]
slots = 4
streams = 2
hang_timeout = "HANG"
[sessions]
max_sessions = 4
[shared_memory]
max_bytes = 0
"""
PIPELINES = """
[[pipeline]]
name = "branches"
input = { dtype = "f32", shape = [64] }
batch = { max_frames = 4 }
outputs = ["twice", "stats"]
[[pipeline.stage]]
name = "twice"
op = "affine"
a = 2.0
[[pipeline.stage]]
name = "stats"
op = "moments"
from = "input"
[[pipeline]]
name = "mean"
input = { dtype = "f32", shape = [4] }
batch = { max_frames = 4 }
[[pipeline.stage]]
name = "mean"
op = "accumulate"
frames = 4
"""
ADDED = """
[[pipeline]]
name = "added"
input = { dtype = "f32", shape = [8] }
[[pipeline.stage]]
name = "same"
op = "affine"
"""
LOST, UNAVAILABLE = 75, 69
SHORT = 3  # seconds, for requests to a daemon that ends
# Calls of a phase that CI makes fail. A daemon that has lost its device waits for its clients before it ends.
SAMPLE = {Kind.REFUSED: 5, Kind.ENQUEUED: 3, Kind.STICKY: 2}
FRAME = np.arange(64, dtype=np.float32)


class FaultyDaemon:
    """A daemon on the fake device."""

    def __init__(self, cuda, completion, hang_timeout):
        self.cuda = cuda
        self.folder = tempfile.TemporaryDirectory(prefix="penstock-")
        self.path = pathlib.Path(self.folder.name)
        self.url = f"ipc://{self.path}/data"
        self.configuration = self.path / "penstock.toml"
        self.configuration.write_text((HEAD + PIPELINES).replace("HANG", hang_timeout))
        self.log_file = open(self.path / "log", "w+")
        self.process = subprocess.Popen(
            [BIN / "penstockd", "--config", self.configuration, "--listen", self.url, "--admin", "none", "--backend",
             "cuda", "--completion", completion], stdout=self.log_file, stderr=self.log_file,
            env={**os.environ, **cuda.environment})

    @property
    def log(self):
        return (self.path / "log").read_text()

    def ready(self):
        """Waits; False when it ended instead."""
        return wait_until(lambda: "ready: " in self.log or self.process.poll() is not None, "ready",
                          60) and self.process.poll() is None

    def code(self):
        """Its exit code, which has to come by itself."""
        try:
            return self.process.wait(60)
        except subprocess.TimeoutExpired:
            raise AssertionError("it hangs:\n" + self.log) from None

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.code()

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.log_file.close()
        self.folder.cleanup()


def work(client, patience=20):
    """Some requests of each pipeline, with that timeout. Returns how many had results, which must be right, and the errors of others."""
    results, errors = 0, []
    expected = []
    for each in range(3):
        expected.append((client.submit("branches", FRAME + each, timeout=patience), "twice", 2 * (FRAME + each)))
    try:
        with client.session("mean", timeout=patience) as session:
            for each in range(4):
                value = np.full(4, each, dtype=np.float32)
                expected.append((session.submit(value, timeout=patience), "mean", np.full(4, each / 2)))
                expected[-1][0].exception(60)  # one batch each
    except PenstockError as error:
        errors.append(error)
    for future, output, right in expected:
        error = future.exception(60)
        if error is not None:
            errors.append(error)
            continue
        np.testing.assert_array_equal(future.result()[output], right)
        results += 1
    return results, errors


@unittest.skipUnless(FAKE_CUDA.exists(), f"{FAKE_CUDA.name} is built where CUDA's headers are")
class CudaFaultSweep(unittest.TestCase):

    def setUp(self):
        self.cuda = FakeCuda()
        self.hang_timeout = "20s"
        self.daemon = None
        self.client = None
        self.refusals = 0

    def tearDown(self):
        self.end()

    def begin(self, completion="callback"):
        self.end()
        self.cuda.reset()
        self.refusals = 0
        self.daemon = FaultyDaemon(self.cuda, completion, self.hang_timeout)

    def serve(self, completion="callback"):
        """A daemon that may still refuse a call without being lost: two in ten seconds."""
        if self.daemon is None or self.daemon.process.poll() is not None or self.refusals == 2:
            self.begin(completion)
            self.assertTrue(self.daemon.ready(), self.daemon.log)
            self.client = Client(self.daemon.url)
            self.assertEqual(work(self.client), (7, []))
        self.refusals += 1

    def end(self):
        self.cuda.arm(0, Kind.REFUSED)
        if self.client is not None:
            self.client.close()
        if self.daemon is not None:
            self.daemon.end()
        self.daemon = self.client = None

    def each(self, phase, calls, kinds, action):
        """`action`, with the number and the kind of each failure."""
        self.assertGreater(calls, 0)
        for kind in kinds:
            for number in chosen(range(1, calls + 1), SAMPLE[kind]):
                with self.subTest(phase, call=number, kind=kind.name):
                    action(number, kind)

    def calls_of(self, action):
        before = self.cuda.calls
        action()
        return self.cuda.calls - before

    def expect_good(self):
        self.cuda.arm(0, Kind.REFUSED)
        with Client(self.daemon.url) as other:
            self.assertEqual(work(other), (7, []), self.daemon.log)
            self.assertEqual(sorted(other.pipelines)[-2:], ["branches", "mean"])
            status = other.status()
        self.assertTrue(status["balanced"], status)
        self.assertEqual(status["requests"]["in_flight"], 0)

    def test_a_start(self):
        def start(number, kind):
            self.end()
            self.cuda.reset()
            self.cuda.arm(number, kind)
            self.daemon = FaultyDaemon(self.cuda, "callback", self.hang_timeout)
            if not self.daemon.ready():
                self.assertIn(self.daemon.code(), (UNAVAILABLE, LOST), self.daemon.log)
            elif kind is Kind.STICKY:
                self.assertEqual(self.daemon.code(), LOST, self.daemon.log)  # by itself, with nothing to do
            else:
                self.expect_good()

        self.begin()
        self.assertTrue(self.daemon.ready())
        self.each("start", self.cuda.calls, (Kind.REFUSED, Kind.STICKY, Kind.ENQUEUED), start)

    def test_serving(self):
        def fail(number, kind):
            self.serve()
            self.cuda.arm(number, kind)
            results, errors = work(self.client, SHORT if kind is Kind.STICKY else 20)
            if kind is Kind.STICKY and self.cuda.met:
                self.assertEqual(self.daemon.code(), LOST, self.daemon.log)
                return
            # Of the session, all behind a refused frame.
            self.assertGreaterEqual(results, 3, self.daemon.log)
            self.assertTrue(self.cuda.met or not errors, errors)
            self.assertIsNone(self.daemon.process.poll(), self.daemon.log)
            self.expect_good()

        self.serve()
        calls = self.calls_of(lambda: work(self.client))
        self.each("serving", calls, (Kind.REFUSED, Kind.ENQUEUED, Kind.STICKY), fail)

    def test_polling(self):
        for function in ("cudaEventRecord", "cudaEventQuery"):
            for kind in (Kind.REFUSED, Kind.ENQUEUED):
                with self.subTest(function, kind=kind.name):
                    self.serve("poll")
                    self.cuda.arm(1, kind, function)
                    results, _ = work(self.client)
                    self.assertEqual(self.cuda.met, function)
                    self.assertGreaterEqual(results, 3, self.daemon.log)
                    self.expect_good()

    def test_a_callback_that_never_comes(self):
        self.hang_timeout = "1s"
        self.serve()
        self.cuda.arm(1, Kind.NEVER, "cudaStreamAddCallback")
        _, errors = work(self.client, SHORT)
        self.assertTrue(errors)
        self.assertEqual(self.daemon.code(), LOST, self.daemon.log)

    def test_three_refusals_lose_the_device(self):
        self.serve()
        for _ in range(3):
            self.cuda.arm(1, Kind.REFUSED)
            work(self.client, SHORT)
        self.assertEqual(self.daemon.code(), LOST, self.daemon.log)
        self.assertIn("device lost: cudaErrorMemoryAllocation", self.daemon.log)

    def test_a_reload(self):
        def reload(text):
            self.daemon.configuration.write_text(text)
            before = self.reloads()
            self.daemon.process.send_signal(signal.SIGHUP)
            wait_until(lambda: self.reloads() > before or self.daemon.process.poll() is not None, "reloaded", 60)

        def fail(number, kind):
            self.begin()
            self.assertTrue(self.daemon.ready(), self.daemon.log)
            self.cuda.arm(number, kind)
            reload((HEAD + ADDED + PIPELINES).replace("HANG", self.hang_timeout))
            if kind is Kind.STICKY and self.cuda.met:
                self.assertEqual(self.daemon.code(), LOST, self.daemon.log)
            else:
                self.expect_good()

        self.begin()
        self.assertTrue(self.daemon.ready())
        calls = self.calls_of(lambda: reload((HEAD + ADDED + PIPELINES).replace("HANG", self.hang_timeout)))
        self.each("reload", calls, (Kind.REFUSED, Kind.STICKY), fail)

    def reloads(self):
        return self.daemon.log.count("configuration reloaded: ") + self.daemon.log.count("reload refused: ")

    def test_a_stop(self):
        def fail(number, kind):
            self.begin()
            self.assertTrue(self.daemon.ready(), self.daemon.log)
            self.cuda.arm(number, kind)
            self.assertIn(self.daemon.stop(), (0, LOST), self.daemon.log)

        self.serve()
        calls = self.calls_of(self.daemon.stop)
        self.each("stop", calls, (Kind.REFUSED, Kind.STICKY), fail)


if __name__ == "__main__":
    unittest.main()
