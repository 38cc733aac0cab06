"""`penstock bench`, `penstock trace`, and error messages for invalid values."""

import importlib.util
import json
import re
import signal
import subprocess
import unittest

from daemon_process import BIN, VERSION, Daemon, pipeline
from guarded_daemon import GuardedDaemon

MOST_SESSIONS = 4
CONFIGURATION = (VERSION + "[device]\nslots = 4\nstreams = 2\n"  # large ones: a sanitizer takes long to touch them
                 + f"[sessions]\nmax_sessions = {MOST_SESSIONS}\nmax_per_client = {MOST_SESSIONS}\n"
                 + pipeline("smooth", "f32", [64], [("y", "fir", "taps = [0.5, 0.5]\n")], ["y"])
                 + pipeline("double", "f32", [64], [("y", "affine", "a = 2.0\n")], ["y"])
                 + pipeline("large", "f32", [4 << 20], [("y", "affine", "a = 2.0\n")], ["y"],
                            'batch = { max_bytes = "32 MiB" }\n'))


class BenchSessionsTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon("host", "callback", CONFIGURATION)

    @classmethod
    def tearDownClass(cls):
        cls.daemon.stop()

    def bench(self, *words, duration="200ms"):
        return subprocess.run([BIN / "penstock", "--url", self.daemon.url, "bench", "--duration", duration, "--warmup",
                               "10ms", "--json", self.daemon.path / "figures", *words], capture_output=True, text=True,
                              timeout=60)

    def figures(self, *words, duration="200ms"):
        done = self.bench(*words, duration=duration)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        found = json.loads((self.daemon.path / "figures").read_text())
        self.assertGreater(found["requests"], 0)
        self.assertEqual(found["errors"], {})
        return found, done.stdout

    def test_a_pipeline_with_state_has_a_session_of_each_client(self):
        for way in ((), ("--rate", "500")):
            with self.subTest(way=way):
                found, said = self.figures("--pipeline", "smooth", "--clients", "2", *way)
                self.assertEqual(found["sessions"], 1)
                self.assertIn('"smooth", 2 clients with 1 session each, 1 frame', said)
        self.assertIn('"smooth", 1 client with 1 session, 1 frame', self.figures("--pipeline", "smooth")[1])

    def test_a_pipeline_without_state_has_none_unless_asked(self):
        found, said = self.figures("--pipeline", "double")
        self.assertEqual(found["sessions"], 0)
        self.assertIn('"double", 1 client, 1 frame', said)
        self.assertEqual(self.figures("--pipeline", "double", "--sessions", "3")[0]["sessions"], 3)

    def test_a_plan_comes_with_warnings_of_what_seems_to_take_channels_for_time(self):
        file = self.daemon.path / "doubt.toml"
        file.write_text(VERSION + pipeline("p", "f32", [1280, 3], [("y", "power_spectrum", "")], ["y"]))
        done = subprocess.run([BIN / "penstockd", "--config", file, "--backend", "host", "--print-plan", "p"],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0)
        self.assertIn("power_spectrum", done.stdout)
        self.assertRegex(done.stderr, r"^warning: .*stage 'y': 'power_spectrum' works along the last dimension")

    def test_sessions_are_of_each_client(self):
        self.figures("--pipeline", "smooth", "--clients", "2", "--sessions", str(MOST_SESSIONS // 2))
        done = self.bench("--pipeline", "smooth", "--clients", "2", "--sessions", str(MOST_SESSIONS // 2 + 1))
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("TOO_MANY_SESSIONS", done.stderr)

    def test_large_requests_have_room_in_shared_memory(self):
        found, said = self.figures("--pipeline", "large", "--in-flight", "3", duration="3s")
        self.assertEqual(found["unshared_requests"], 0)
        self.assertNotIn("went through the socket", said)


MISSING = [each for each in ("numpy", "zmq") if importlib.util.find_spec(each) is None]
FRAME = 256
# A batch takes a while, on one stream: what comes meanwhile is one batch, of up to 64. All requests of a test fit in the
# buffer of a socket.
PIPELINE = pipeline("slow", "f32", [FRAME], [("y", "correlate", f'mode = "valid"\nmethod = "direct"\n'
                                                               f"template = {[1.0] * 32768}\n"),
                                             ("stats", "moments", "")], ["stats"], "batch = { max_frames = 64 }\n")


@unittest.skipIf(MISSING, f"not installed: {', '.join(MISSING)}")
class TraceTest(unittest.TestCase):

    def start(self, recent_batches):
        import penstock
        self.daemon = Daemon("host", "callback", VERSION + "[device]\nshards = 2\nstreams = 1\n[timing]\n"
                             f"recent_batches = {recent_batches}\n" + PIPELINE)
        self.addCleanup(self.daemon.stop)
        self.clients = [penstock.Client(self.daemon.url) for _ in range(2)]  # the daemon puts one on each shard
        for client in self.clients:
            self.addCleanup(client.close)

    def submit(self, client, count):
        import numpy
        frame = numpy.ones(FRAME, numpy.float32)
        return [client.submit("slow", frame) for _ in range(count)]

    def send(self, client, count):
        for future in self.submit(client, count):
            future.result(60)

    def trace(self, *words):
        """The events that were drawn, and what was said about them."""
        done = self.daemon.cli("trace", "--output", "-", *words)
        return json.loads(done.stdout)["traceEvents"], done.stderr

    def test_draws_the_requests_of_every_shard(self):
        self.start(recent_batches=16)
        for client in self.clients:
            self.send(client, 1)
        events, said = self.trace("--last", "100000h")  # since before any clock began
        requests = [event["pid"] for event in events if event.get("cat") == "request" and event["ph"] == "X"]
        self.assertEqual(sorted(requests), [0, 1])
        names = [event["args"]["name"] for event in events if event["name"] == "process_name"]
        self.assertEqual([name.split(":")[0] for name in names], ["shard 0", "shard 1"])
        self.assertEqual(said, "2 batches of 1 pipeline on 2 shards, 2 of them timed on the device\n")

    def test_says_how_far_back_a_shard_remembers_where_that_is_less_than_was_asked_for(self):
        self.start(recent_batches=16)
        for _ in range(20):
            self.send(self.clients[0], 1)
        self.send(self.clients[1], 1)
        shard = self.clients[0].status()["shard"]
        events, said = self.trace("--last", "1m")
        batches = [event for event in events if event["name"] == "on device"]
        self.assertEqual(len(batches), 17)
        self.assertRegex(said, rf"penstock: shard {shard} goes back only [0-9.]+ m?s of 60.0 s: it remembers no more")
        self.assertEqual(said.count("goes back only"), 1)

    def test_says_how_many_requests_it_does_not_draw(self):
        self.start(recent_batches=100)  # all that there can be
        self.daemon.process.send_signal(signal.SIGSTOP)  # it finds them all there, however quick it is
        waiting = self.submit(self.clients[0], 100)
        self.daemon.process.send_signal(signal.SIGCONT)
        for future in waiting:
            future.result(60)
        events, said = self.trace("--last", "1m")
        drawn = sum(event.get("cat") == "request" and event["ph"] == "X" for event in events)
        told = re.search(r"^(\d+) of 100 requests not drawn: the daemon remembers the first 16 of a batch$", said, re.M)
        self.assertIsNotNone(told, said)
        left_out = int(told[1])
        self.assertEqual(drawn + left_out, 100)
        self.assertGreater(left_out, 0)


class CommandLines(unittest.TestCase):
    """What `penstock` says of a value that it can't take."""

    def refusal(self, *words):
        done = subprocess.run([BIN / "penstock", *words], capture_output=True, text=True, timeout=60)
        self.assertNotEqual(done.returncode, 0)
        self.assertLess(len(done.stderr), 300, done.stderr)
        return done.stderr

    def test_numbers_and_times_are_refused_with_what_is_wrong_with_them(self):
        self.assertIn("a point, not a comma", self.refusal("bench", "-p", "x", "--rate", "1000,5"))
        self.assertIn("a point, not a comma", self.refusal("send", "-p", "x", "--rate", "1000,5", "-"))
        self.assertIn("'parsecs' is none of the units", self.refusal("--timeout", "5 parsecs", "ping"))

    def test_trace_that_cannot_be_written_says_why(self):
        daemon = GuardedDaemon(security="", url=lambda path: f"ipc://{path}/data")
        self.addCleanup(daemon.close)
        self.assertIn("can't write /nosuch/trace.json: No such file or directory",
                      daemon.cli("trace", "-o", "/nosuch/trace.json").stderr)


if __name__ == "__main__":
    unittest.main()
