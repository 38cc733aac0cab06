"""Every allocation of a check, a start, a reload and of serving fails, once or from then on, as without memory.

Whatever fails, the daemon ends with a documented code (71, or SIGABRT where a library in C aborts), or does what it
would have done: it never says that a configuration is wrong, never serves another one, never hangs, and every request
is answered or its client is told that the daemon is gone. CI takes a few allocations; PENSTOCK_ATTACK_SECONDS asks for
all of them.
"""

import os
import pathlib
import signal
import subprocess
import tempfile
import threading
import unittest

import numpy as np
from penstock import Client, PenstockError, Shutdown

from attack import chosen
from daemon_process import BIN, wait_until
from faults import FAIL_MALLOC, FailMalloc

HEAD = """config_version = 1
[device]
backend = "host"
slots = 4
streams = 2
host_threads = 2
[shared_memory]
max_bytes = 0
"""
PIPELINES = """
[[pipeline]]
name = "twice"
input = { dtype = "f32", shape = [64] }
[[pipeline.stage]]
name = "twice"
op = "affine"
a = 2.0
[[pipeline]]
name = "mean"
input = { dtype = "f32", shape = [4] }
[[pipeline.stage]]
name = "mean"
op = "accumulate"
frames = 4
"""
FILTER = """
[[pipeline]]
name = "filter"
input = { dtype = "f32", shape = [64] }
[[pipeline.stage]]
name = "fir"
op = "fir"
taps = "taps.npy"
"""
ADDED = FILTER.replace('"filter"', '"added"')
NO_MEMORY = 71
# libzmq aborts where malloc gives it nothing: see docs/operating.md.
ENDS = (NO_MEMORY, -signal.SIGABRT)
# A thread that can't be had, as without memory for its stack, is a limit of threads to the daemon. And glibc follows a
# null pointer in getprotobyname_r, which libpgm calls when libzmq begins.
START_ENDS = (*ENDS, 69, -signal.SIGSEGV)
SAMPLE = 12  # allocations of a phase that CI makes fail
FRAME = np.arange(64, dtype=np.float32)


def work(client):
    """Some requests. Returns the errors of those that had no result; results must be right."""
    futures, errors = [], []
    try:
        for each in range(3):
            futures.append((client.submit("twice", FRAME + each, timeout=10), "twice", 2 * (FRAME + each)))
        with client.session("mean", timeout=10) as session:
            futures.append((session.submit(np.ones(4, dtype=np.float32), timeout=10), "mean", np.ones(4)))
            futures[-1][0].exception(60)
    except PenstockError as error:
        errors.append(error)
    for future, output, right in futures:
        error = future.exception(60)
        if error is None:
            np.testing.assert_array_equal(future.result()[output], right)
        else:
            errors.append(error)
    return errors


@unittest.skipUnless(FAIL_MALLOC.exists(), f"there is no {FAIL_MALLOC}")
class AllocationSweep(unittest.TestCase):

    def setUp(self):
        self.memory = FailMalloc()
        self.folder = tempfile.TemporaryDirectory(prefix="penstock-")
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)
        self.url = f"ipc://{self.path}/data"
        self.admin = f"unix:{self.path}/admin"
        self.configuration = self.path / "penstock.toml"
        np.save(self.path / "taps.npy", np.ones(8, dtype=np.float32))
        self.configuration.write_text(HEAD + PIPELINES + FILTER)
        self.log = self.path / "log"
        self.process = None
        self.addCleanup(self.kill)

    def kill(self):
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def check(self):
        return subprocess.run([BIN / "penstockd", "--config", self.configuration, "--check-config"],
                              capture_output=True, text=True, timeout=60, env={**os.environ, **self.memory.environment})

    def begin(self):
        self.kill()
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                [BIN / "penstockd", "--config", self.configuration, "--listen", self.url, "--admin", self.admin],
                stdout=log, stderr=log, env={**os.environ, **self.memory.environment}, cwd=self.path)

    def ready(self):
        """Waits; False when it ended instead."""
        wait_until(lambda: "ready: " in self.log.read_text() or self.process.poll() is not None, "ready", 60)
        return self.process.poll() is None

    def code(self):
        try:
            return self.process.wait(60)
        except subprocess.TimeoutExpired:
            raise AssertionError("it hangs:\n" + self.log.read_text()) from None

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.code()

    def expect_good_or_ended(self, *pipelines):
        """It serves these, all of them, and stops well; or it has ended for want of memory."""
        self.memory.arm(0)
        try:
            with Client(self.url, connect_timeout=20) as client:
                self.assertEqual(sorted(client.pipelines), sorted(pipelines), self.log.read_text())
                errors = work(client)
        except PenstockError as error:
            errors = [error]
        if errors:
            self.assertIn(self.code(), ENDS, self.log.read_text())
        else:
            self.assertIn(self.stop(), (0, *ENDS), self.log.read_text())

    def test_a_check(self):
        self.memory.reset()
        good = self.check()
        self.assertEqual(good.returncode, 0, good.stderr)
        calls = self.memory.calls
        self.assertGreater(calls, 100)
        for onwards in (False, True):
            for number in chosen(range(1, calls + 1), 2 * SAMPLE):
                with self.subTest(allocation=number, onwards=onwards):
                    self.memory.reset()
                    self.memory.arm(number, onwards)
                    done = self.check()
                    if done.returncode == 0:
                        self.assertEqual(done.stdout, good.stdout)
                    else:
                        self.assertIn(done.returncode, START_ENDS, done.stderr)

    def test_a_start(self):
        self.memory.reset()
        self.begin()
        self.assertTrue(self.ready(), self.log.read_text())
        calls = self.memory.calls
        for onwards in (False, True):
            for number in chosen(range(1, calls + 1), SAMPLE // 2):
                with self.subTest(allocation=number, onwards=onwards):
                    self.kill()
                    self.memory.reset()
                    self.memory.arm(number, onwards)
                    self.begin()
                    if self.ready():
                        self.expect_good_or_ended("twice", "mean", "filter")
                    else:
                        self.assertIn(self.code(), START_ENDS, self.log.read_text())

    def test_serving(self):
        """As under a service manager, which starts it again: then even what was in flight has its results."""
        self.configuration.write_text(HEAD + PIPELINES)
        self.memory.reset()
        self.begin()
        self.assertTrue(self.ready(), self.log.read_text())

        def serve():
            while True:  # one that stops refuses HELLO with SHUTDOWN, and its successor takes it
                try:
                    with Client(self.url, connect_timeout=30) as client:
                        return work(client)
                except Shutdown:
                    wait_until(lambda: self.log.read_text().count("ready: ") and "draining" not in self.log.read_text(),
                               "it is started again", 60)

        before = self.memory.calls
        self.assertEqual(serve(), [])
        calls = self.memory.calls - before
        for number in chosen(range(1, calls + 1), SAMPLE // 2):
            with self.subTest(allocation=number):
                self.begin()
                self.assertTrue(self.ready(), self.log.read_text())
                self.memory.arm(number)
                manager = threading.Thread(target=self.start_again_once)
                manager.start()
                errors = serve()
                self.assertTrue(self.memory.failed or not errors, errors)
                self.memory.arm(0)
                self.assertEqual(serve(), [], self.log.read_text())
                self.process.send_signal(signal.SIGTERM)
                manager.join()

    def start_again_once(self):
        code = self.process.wait()
        if code != 0:
            self.assertIn(code, ENDS, self.log.read_text())
            self.begin()
            self.process.wait()

    def test_idling(self):
        """Its own probes allocate then, in libzmq too, which does not end what it had no memory to begin."""
        self.configuration.write_text(HEAD + PIPELINES)
        for number in range(1, 7):
            with self.subTest(allocation=number):
                self.memory.reset()
                self.begin()
                self.assertTrue(self.ready(), self.log.read_text())
                self.memory.arm(number)
                wait_until(lambda: self.memory.failed or self.process.poll() is not None, "a failed allocation", 30)
                self.memory.arm(0)
                try:
                    code = self.process.wait(2)
                except subprocess.TimeoutExpired:  # it could do without
                    code = self.stop()
                self.assertIn(code, (0, *ENDS), self.log.read_text())

    def test_a_reload(self):
        def reload():
            self.configuration.write_text(HEAD + PIPELINES + ADDED)
            self.process.send_signal(signal.SIGHUP)
            wait_until(lambda: "configuration reloaded: " in self.log.read_text() or "reload refused: " in
                       self.log.read_text() or self.process.poll() is not None, "reloaded", 60)

        def begin():
            self.configuration.write_text(HEAD + PIPELINES)
            self.begin()
            self.assertTrue(self.ready(), self.log.read_text())

        self.memory.reset()
        begin()
        before = self.memory.calls
        reload()
        calls = self.memory.calls - before
        for number in chosen(range(1, calls + 1), SAMPLE // 2):
            with self.subTest(allocation=number):
                begin()
                self.memory.arm(number)
                reload()
                if self.process.poll() is not None:
                    self.assertIn(self.code(), ENDS, self.log.read_text())
                    continue
                taken = "configuration reloaded: " in self.log.read_text()
                self.expect_good_or_ended("twice", "mean", *(["added"] if taken else []))


if __name__ == "__main__":
    unittest.main()
