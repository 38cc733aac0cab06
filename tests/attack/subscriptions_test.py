"""Subscribers that mean no good: floods of SUBSCRIBEs take bounded memory and places, and subscribers that never read
cost others neither results nor, by much, time."""

import json
import os
import statistics
import time
import unittest

import numpy
import zmq
from penstock import Client, control
from penstock.wire import MessageType

from attack import LONG, resident_bytes
from daemon_process import VERSION, Daemon, pipeline, wait_until
from raw_client import RawDealer

MEMORY, MOST = 1 << 30, 64
CONFIGURATION = (VERSION + f'[limits]\nmemory = {MEMORY}\n[clients]\nmax_subscriptions = {MOST}\nresume_grace = "0s"\n'
                 + pipeline("p", "f32", [16384], [("y", "affine", "a = 3\n")], ["y"]))
CLIENTS, EACH = (24, 100) if not LONG else (200, 1000)
TURNS = 200 if not LONG else 5000
# As in control_flood_test: the p99 beside the attack, in times of that without it.
MOST_TIMES = 20.0 if not LONG else float(os.environ.get("PENSTOCK_ATTACK_RATIO", "2"))
SLACK_S = 0.03 if not LONG else 0.0


class SubscriptionsTest(unittest.TestCase):
    def setUp(self):
        self.daemon = Daemon("host", "callback", CONFIGURATION)
        self.addCleanup(lambda: self.daemon.stop() if self.daemon.process.poll() is None else None)
        self.context = zmq.Context()
        self.context.setsockopt(zmq.RCVHWM, 1)
        self.addCleanup(self.context.destroy, 0)
        self.x = numpy.random.default_rng(3).standard_normal((1, 16384)).astype(numpy.float32)

    def status(self):
        return self.daemon.counters()["status"]

    def peers(self, count):
        made = []
        for _ in range(count):
            made.append(RawDealer(self.context, self.daemon.url))
            made[-1].hello()
        return made

    def times(self, client):
        times = []
        for _ in range(TURNS):
            begin = time.monotonic()
            y = client.submit("p", self.x).result().array
            times.append(time.monotonic() - begin)
            numpy.testing.assert_array_equal(y, 3 * self.x)
        return times

    def test_a_flood_of_subscribes_is_bounded_and_leaves_room_for_others(self):
        before = self.status()["peer_memory"]["bytes"]
        peers = self.peers(CLIENTS)
        bodies = [json.dumps({"pipelines": ["p"], **more}).encode() for more in (
            {"queue_bytes": (1 << 63) - 1}, {}, {"sessions": ["*a" * 32] * 50}, {"queue_bytes": 1})]
        for number in range(EACH):
            for peer in peers:
                peer.send(MessageType.SUBSCRIBE, number + 1, bodies[number % len(bodies)])
                peer.send(MessageType.UNSUBSCRIBE, number // 2)
        wait_until(lambda: self.status()["received"] >= 2 * CLIENTS * EACH, "all were received")
        now = self.status()
        self.assertLessEqual(now["subscriptions"]["open"], MOST)
        self.assertLessEqual(now["peer_memory"]["bytes"], MEMORY)
        with Client(self.daemon.url, timeout=60, connect_timeout=60) as good:
            numpy.testing.assert_array_equal(good.submit("p", self.x).result().array, 3 * self.x)
        for peer in peers:
            peer.close()
        wait_until(lambda: self.status()["subscriptions"]["open"] == 0, "subscriptions of clients that are gone end")
        wait_until(lambda: self.status()["peer_memory"]["bytes"] <= before,
                   f"the memory of clients that are gone is given back, {before} bytes before")

    def test_subscribers_that_never_read_cost_others_little(self):
        with Client(self.daemon.url, timeout=60, connect_timeout=60) as good:
            self.times(good)
            quiet = self.times(good)
            grown = resident_bytes(self.daemon.process.pid)
            stalled = self.peers(8)
            for peer in stalled:
                peer.send(MessageType.SUBSCRIBE, 9, control.encode(control.Subscribe(("p",), queue_bytes=4 << 20)))
            wait_until(lambda: self.status()["subscriptions"]["open"] == 8, "they subscribe")
            beside = self.times(good)
            grown = resident_bytes(self.daemon.process.pid) - grown
        p99 = [statistics.quantiles(each, n=100)[98] for each in (quiet, beside)]
        now = self.status()["subscriptions"]
        print(f"\np50 {statistics.median(quiet) * 1e3:.2f} ms, beside 8 that never read "
              f"{statistics.median(beside) * 1e3:.2f}; p99 {p99[0] * 1e3:.2f} and {p99[1] * 1e3:.2f}; {now}; grown by "
              f"{grown >> 20} MiB", flush=True)
        self.assertLessEqual(p99[1], MOST_TIMES * p99[0] + SLACK_S)
        self.assertLessEqual(now["queued_bytes"], 8 * ((4 << 20) + 65536))
        self.assertGreaterEqual(now["published"] + now["dropped"] + now["queued_bytes"] // 65536, TURNS)
        self.assertLess(grown, 64 << 20)


if __name__ == "__main__":
    unittest.main()
