"""penstock trace draws the batches of every shard, and says what they no longer remember."""

import importlib.util
import json
import re
import unittest

from daemon_process import Daemon
from pipeline_text import VERSION, pipeline

MISSING = [each for each in ("numpy", "zmq") if importlib.util.find_spec(each) is None]
FRAME = 8192
TAPS = [1.0] * 1024
# A batch takes a while, on one stream: what comes meanwhile is one batch, of up to 64 requests.
PIPELINE = pipeline("slow", "f32", [FRAME], [("y", "correlate", f'mode = "valid"\nmethod = "direct"\n'
                                                               f"template = {TAPS}\n")], ["y"],
                    "batch = { max_frames = 64 }\n")


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

    def send(self, client, count):
        import numpy
        frame = numpy.ones(FRAME, numpy.float32)
        for future in [client.submit("slow", frame) for _ in range(count)]:
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
        self.send(self.clients[0], 100)
        events, said = self.trace("--last", "1m")
        drawn = sum(event.get("cat") == "request" and event["ph"] == "X" for event in events)
        told = re.search(r"^(\d+) of 100 requests not drawn: the daemon remembers the first 16 of a batch$", said, re.M)
        self.assertIsNotNone(told, said)
        left_out = int(told[1])
        self.assertEqual(drawn + left_out, 100)
        self.assertGreater(left_out, 0)


if __name__ == "__main__":
    unittest.main()
