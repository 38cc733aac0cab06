"""`--check-config` accepts exactly the configurations that can start."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

from daemon_process import BIN, VERSION, pipeline, wait_until

AFFINE = [("y", "affine", "a = 2.0\n")]
MOST_STAGES = 512


def pipelines(count):
    return VERSION + "".join(pipeline(f"p{number}", "f32", [16], AFFINE, ["y"]) for number in range(count))


def chain(stages, more=""):
    return VERSION + more + pipeline("chain", "f32", [16], [(f"s{number}", "affine", "a = 1.0\n")
                                                            for number in range(stages)], [f"s{stages - 1}"])


def kept(sessions):
    """So many sessions, whose states have some megabytes each."""
    return (VERSION + f"[sessions]\nmax_sessions = {sessions}\n"
            + pipeline("sums", "f32", [1 << 17], [("y", "accumulate", "frames = 5\n")], ["y"]))


class CheckConfigTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="penstock-")
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name)

    def words(self, text, *more):
        (self.path / "penstock.toml").write_text(text)
        backend = () if "--backend" in more else ("--backend", "host")
        return [BIN / "penstockd", "--config", self.path / "penstock.toml", *backend, *more]

    def check(self, text, *more):
        return subprocess.run(self.words(text, "--check-config", *more), capture_output=True, text=True, timeout=60)

    def assert_refused(self, text, why, *more):
        done = self.check(text, *more)
        self.assertEqual(done.returncode, 78, done.stdout + done.stderr)
        self.assertIn(why, done.stderr)
        self.assertNotIn("good", done.stdout)

    def start(self, text):
        """The exit code of a daemon that does not start; None of one that serves, which ends with 0 then."""
        url = f"ipc://{self.path}/data"
        with open(self.path / "log", "w") as log:
            daemon = subprocess.Popen(self.words(text, "--listen", url, "--admin", f"unix:{self.path}/admin"), stderr=log)
        try:
            serves = wait_until(lambda: daemon.poll() is not None or subprocess.run(
                [BIN / "penstock", "--url", url, "--timeout", "1s", "ping"], capture_output=True).returncode == 0,
                "it serves, or ends", 120)
            self.assertTrue(serves)
            if daemon.poll() is not None:
                return daemon.returncode
            daemon.terminate()
            self.assertEqual(daemon.wait(60), 0, (self.path / "log").read_text())
            return None
        finally:
            if daemon.poll() is None:
                daemon.kill()
                daemon.wait()

    def test_as_many_pipelines_as_clients_can_be_told_of_and_no_more(self):
        self.assert_refused(pipelines(1000), "to describe in WELCOME")
        good, bad = 1, 1000
        while good + 1 < bad:
            middle = (good + bad) // 2
            if self.check(pipelines(middle)).returncode == 0:
                good = middle
            else:
                bad = middle
        self.assertIsNone(self.start(pipelines(good)))
        self.assertEqual(self.start(pipelines(bad)), 78)

    def test_as_many_stages_as_a_stream_takes_and_no_more(self):
        for stages in (MOST_STAGES + 1, 10000):
            self.assert_refused(chain(stages), f"has {stages} stages")
        self.assertEqual(self.check(chain(MOST_STAGES)).returncode, 0)
        self.assertIsNone(self.start(chain(MOST_STAGES, "[device]\nstreams = 1\nslots = 4\n")))

    def test_what_the_host_lacks_is_refused_where_auto_takes_the_host(self):
        import numpy
        numpy.save(self.path / "w.npy", numpy.ones((16, 8), numpy.float32))
        text = VERSION + pipeline("p", "f32", [16], [("y", "matmul", 'weights = "w.npy"\nengine = "xt"\n')], ["y"])
        nowhere = {**os.environ, "PENSTOCK_CUDA_MODULE": "/nonexistent/penstock-cuda.so"}
        for backend, code in (("auto", 78), ("host", 78), ("cuda", 0)):
            with self.subTest(backend):
                done = subprocess.run(self.words(text, "--check-config", "--backend", backend), capture_output=True,
                                      text=True, timeout=60, env=nowhere)
                self.assertEqual(done.returncode, code, done.stdout + done.stderr)
                self.assertEqual("which needs a GPU" in done.stderr, code != 0, done.stderr)

    def test_no_more_memory_than_the_machine_has(self):
        batch = 'batch = { max_frames = 4194304, max_bytes = "16 GiB" }\n'
        large = pipeline("large", "f32", [1024], AFFINE, ["y"], batch)
        self.assert_refused(VERSION + "[device]\nslots = 4096\n" + large, "the slots take")
        self.assertEqual(self.start(VERSION + "[device]\nslots = 4096\n" + large), 78)
        self.assertEqual(self.check(kept(16)).returncode, 0)
        self.assert_refused(kept(65536).replace("[131072]", "[1048576]"), "the states of sessions")

    def test_no_result_that_no_memory_holds(self):
        events = [(f"s{number}", "detect", "high = 1.0\nmax_events = 65535\n") for number in range(1, 5)]
        text = VERSION + pipeline("events", "f32", ["max 8"], [("s0", "reframe", "length = 2\n"), *events], ["s4"])
        self.assert_refused(text, "stage 's3': its result, f32[max 4, 65536, 65536, 65536, 2], is larger than memory")

    def test_no_transform_that_takes_the_memory_before_the_first_frame(self):
        stages = [("y", "ifft", "half = true\nlength = 2147483647\n"), ("first", "slice", "stop = 1\n")]
        text = VERSION + pipeline("long", "cf32", [2], stages, ["first"])
        self.assert_refused(text, "stage 'y', field 'length': must be an integer from 1 to 16777216")

    def test_no_map_with_more_values_than_it_may_have_operations(self):
        values = ", ".join(f"v{number} = {number}.0" for number in range(5000))
        stage = ("y", "map", f'expr = "x * v1"\nvalues = {{ {values} }}\n')
        self.assert_refused(VERSION + pipeline("many", "f32", [8], [stage], ["y"]),
                            "stage 'y', field 'expr': has more than 4096 operations")

    def test_as_many_tunable_numbers_as_clients_can_be_told_of_and_no_more(self):
        def tuned(count):
            names = [f"v{number}" for number in range(count)]
            values = ", ".join(f"{name} = 1.0" for name in names)
            extra = f'expr = "x * v0"\nvalues = {{ {values} }}\ntunable = {json.dumps(names)}\n'
            return VERSION + pipeline("tuned", "f32", [8], [("y", "map", extra)], ["y"])
        self.assertEqual(self.check(tuned(256)).returncode, 0)
        self.assert_refused(tuned(257), "field 'tunable': would have 257 numbers travel with each frame")
        self.assert_refused(tuned(257).replace(json.dumps([f"v{number}" for number in range(257)]), '["v0"]'),
                            "field 'tunable': would have 257 numbers travel with each frame")

    def test_no_rate_that_leaves_what_counts_steps(self):
        mean = 'frames = 1\nalong = "rows"\nevery = 1073741824\n'
        means = [(f"s{number}", "accumulate", mean) for number in range(3)]
        text = VERSION + pipeline("means", "f32", ["max 8"], means, ["s2"])
        self.assert_refused(text, "stage 's1': a step of its result would stand for more than")
        rows = [(f"s{number}", "reframe", "length = 1\nhop = 4194304\n") for number in range(3)]
        text = VERSION + pipeline("rows", "f32", ["max 8"], rows, ["s2"])
        self.assert_refused(text, "stage 's2': a step of its result would stand for more than")

        def resampled(*ratios):
            stages = [(f"s{number}", "resample", f"up = {up}\ndown = {down}\ntaps = [1.0]\n")
                      for number, (up, down) in enumerate(ratios)]
            return VERSION + pipeline("resampled", "f32", ["max 8"], stages, [stages[-1][0]])
        self.assert_refused(resampled((65521, 65519), (65497, 65479)),
                            "stage 's1': a step of its result would stand for more than")
        primes = (65521, 65519, 65497, 65479)
        there_and_back = [ratio for each in primes for ratio in ((1, each), (each, 1))]
        self.assertEqual(self.check(resampled(*there_and_back[:6])).returncode, 0)
        self.assert_refused(resampled(*there_and_back), "stage 's6': a step of its result would stand for more than")

    def test_no_endpoint_that_a_shard_could_not_have(self):
        path = "ipc:///" + "x" * 110
        self.assert_refused(pipelines(1), "the system takes at most 107", "--listen", path)
        self.assertEqual(self.check(pipelines(1), "--listen", "ipc:///" + "x" * 106).returncode, 0)
        two = "[device]\nshards = 2\n"
        text = pipelines(1).replace(VERSION, VERSION + two)
        self.assert_refused(text, "65536", "--listen", "tcp://127.0.0.1:65535")
        self.assert_refused(text, "the system takes at most 107", "--listen", "ipc:///" + "x" * 106)


if __name__ == "__main__":
    unittest.main()
