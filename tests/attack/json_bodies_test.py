"""JSON bodies from a stranger that are long to read: a body is bounded before it is read, and read in linear time."""

import json
import time
import unittest

import numpy
import zmq

from attack import LONG, wait_until
from daemon_process import Daemon
from penstock import Client, wire
from penstock.wire import MessageType
from pipeline_text import VERSION, pipeline

CONFIGURATION = VERSION + pipeline("p", "f32", [64], [("y", "affine", "a = 3\n")], ["y"])
ATTACKS = int(300 * max(LONG / 10, 1))
# As measured before there was a bound: 8190 keys that are all different, of which each was compared with all before it.
MANY_KEYS = json.dumps({"client": "c", "version": "v", **{f"{key:04x}": 0 for key in range(6000)}},
                       separators=(",", ":")).encode()
# As long as a HELLO may be, and as slow to read.
LONGEST = json.dumps({"client": "c", "version": "v", **{f"{key:02x}": 0 for key in range(560)}},
                     separators=(",", ":")).encode()[:4096]


class Stranger:
    """A DEALER without an accepted HELLO."""

    def __init__(self, url):
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.DEALER)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.setsockopt(zmq.SNDHWM, 0)
        self.socket.setsockopt(zmq.RCVHWM, 0)
        self.socket.setsockopt(zmq.RCVTIMEO, 60000)
        self.socket.connect(url)

    def send(self, kind, number, *bodies):
        self.socket.send_multipart([wire.encode_header(wire.Header(kind, number)), *bodies])

    def close(self):
        self.context.destroy(linger=0)


def seconds_of_pings(client, count):
    times = []
    for _ in range(count):
        begin = time.monotonic()
        client.ping(60)
        times.append(time.monotonic() - begin)
    return times


class JsonBodiesTest(unittest.TestCase):
    def setUp(self):
        self.daemon = Daemon("host", "callback", CONFIGURATION)
        self.addCleanup(lambda: self.daemon.stop() if self.daemon.process.poll() is None else None)
        self.client = Client(self.daemon.url, retry_after=60, timeout=60)
        self.addCleanup(self.client.close)
        self.stranger = Stranger(self.daemon.url)
        self.addCleanup(self.stranger.close)

    def refusals(self, earlier):
        """What became of the stranger's messages: how many were refused with each status, and how many dropped
        because the stranger owed the shard more time than could wait. All that is answered is an ERROR."""
        def taken():
            read = self.daemon.counters()["status"]
            found = {name: count - earlier["refused"].get(name, 0) for name, count in read["refused"].items()}
            found["dropped"] = read.get("control", {}).get("dropped", 0) - earlier.get("control", {}).get("dropped", 0)
            found = {name: count for name, count in found.items() if count}
            return found if sum(found.values()) >= ATTACKS else None
        found = wait_until(taken, "every message refused or dropped", 120)
        for _ in range(ATTACKS - found.get("dropped", 0)):
            header = wire.decode_header(self.stranger.socket.recv_multipart()[0])
            self.assertEqual(header.type, MessageType.ERROR)
        self.assertEqual(sum(found.values()), ATTACKS, found)
        return set(found) - {"dropped"}

    def attack(self, kind, body):
        """Sends that many; what a good client waited for meanwhile, and how long the daemon took for all of them."""
        earlier = self.daemon.counters()["status"]
        begin = time.monotonic()
        for number in range(ATTACKS):
            self.stranger.send(kind, number + 1, body)
        times = seconds_of_pings(self.client, 50)
        answers = self.refusals(earlier)
        return times, time.monotonic() - begin, answers

    def test_three_hundred_hellos_of_many_keys_hold_nobody_up(self):
        self.assertGreater(len(MANY_KEYS), 50000)
        self.assertEqual(self.client.submit("p", numpy.ones((1, 64), numpy.float32)).result()["y"][0, 0], 3)
        quiet = sorted(seconds_of_pings(self.client, 50))
        times, took, answers = self.attack(MessageType.HELLO, MANY_KEYS)
        print(f"ping median {quiet[25] * 1e3:.2f} ms quiet, {sorted(times)[25] * 1e3:.2f} ms under attack, worst "
              f"{max(times) * 1e3:.1f} ms; {ATTACKS} bodies of {len(MANY_KEYS)} bytes in {took:.2f} s", flush=True)
        self.assertEqual(answers, {"TOO_LARGE"})
        # It was 30 s and more for all, and up to that for one ping. A second is long for what now takes milliseconds.
        self.assertLess(max(times), 5.0)
        self.assertLess(sorted(times)[25], 50 * quiet[25] + 0.1)
        self.assertEqual(self.client.submit("p", numpy.ones((1, 64), numpy.float32)).result()["y"][0, 0], 3)

    def test_the_longest_hello_that_is_read_is_read_at_once(self):
        quiet = sorted(seconds_of_pings(self.client, 50))
        times, took, answers = self.attack(MessageType.HELLO, LONGEST)
        print(f"ping median {quiet[25] * 1e3:.2f} ms quiet, {sorted(times)[25] * 1e3:.2f} ms under attack; "
              f"{ATTACKS} bodies of {len(LONGEST)} bytes in {took:.2f} s", flush=True)
        self.assertEqual(answers, {"MALFORMED"})
        self.assertLess(sorted(times)[25], 50 * quiet[25] + 0.1)

    def test_every_kind_of_body_has_its_bound(self):
        self.stranger.send(MessageType.HELLO, 1, b'{"client":"c","version":"v"}')
        self.assertEqual(wire.decode_header(self.stranger.socket.recv_multipart()[0]).type, MessageType.WELCOME)
        long = b'{"client":"c","version":"v","pipeline":0,"name":"n","bytes":1}' + b" " * 4096
        deep = b'{"client":"c","version":"v","pipeline":0,"name":"n","bytes":1,"x":' + b"[" * 9 + b"]" * 9 + b"}"
        for kind in (MessageType.HELLO, MessageType.OPEN_SESSION, MessageType.ATTACH):
            for body, status in ((long, wire.Status.TOO_LARGE), (deep, wire.Status.MALFORMED)):
                with self.subTest(kind=kind, status=status):
                    self.stranger.send(kind, 7, body)
                    self.assertEqual(wire.decode_header(self.stranger.socket.recv_multipart()[0]).status, status)


if __name__ == "__main__":
    unittest.main()
