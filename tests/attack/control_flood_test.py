"""Floods of control messages and JSON bodies that are slow to parse: a well-behaved client beside them is served."""

import json
import os
import statistics
import subprocess
import sys
import time
import unittest

import numpy
import zmq
from penstock import Client, wire
from penstock.wire import MessageType

from attack import LONG
from daemon_process import VERSION, Daemon, pipeline, wait_until

CONFIGURATION = (VERSION + pipeline("p", "f32", [64], [("y", "affine", "a = 3\n")], ["y"])
                 + pipeline("q", "f32", [64], [("y", "fir", "taps = [1.0, 2.0]\n")], ["y"])
                 + pipeline("t", "f32", [64], [(f"y{n}", "affine", 'tunable = ["a", "b"]\n') for n in range(8)], ["y7"]))
# Of a turn, with a flood and without one.
TURN_S = 0.12 if not LONG else 1.0
ROUNDS = 1 if not LONG else 3
# The good client's p99 beside a flood, in times of its p99 alone. Unmended it was 70 to 2240 on idle cores. In CI other
# tests run on the same cores, and the flood's own process takes one of them.
MOST_TIMES = 20.0 if not LONG else float(os.environ.get("PENSTOCK_ATTACK_RATIO", "2"))
SLACK_S = 0.03 if not LONG else 0.0


def header(kind, number, **fields):
    return wire.encode_header(wire.Header(kind, number, **fields))


def submit(number, pipeline_id):
    frame = numpy.ones((1, 64), numpy.float32)
    return [header(MessageType.SUBMIT, number, pipeline=pipeline_id, tensors=1, frames=1)
            + wire.encode_tensor(wire.tensor_header(frame)), frame.tobytes()]


def malformed(number):
    whole = bytearray(header(MessageType.PING, number))
    whole[6:8] = b"\x01\x00"  # a header_len of 1
    return [bytes(whole)]


HELLO = b'{"client":"flood","version":"1"}'
SET = json.dumps({"values": [{"stage": f"y{n}", "name": "a", "value": 0.1 * n} for n in range(8)]}).encode()
SESSION = 0  # the flood's own, of the tuned pipeline
FLOODS = {
    "GET_STATUS": lambda number: [header(MessageType.GET_STATUS, number)],
    "GET_TRACE": lambda number: [header(MessageType.GET_TRACE, number)],
    "HELLO": lambda number: [header(MessageType.HELLO, number), HELLO],
    "PING": lambda number: [header(MessageType.PING, number)],
    "CANCEL": lambda number: [header(MessageType.CANCEL, number)],
    "OPEN": lambda number: [header(MessageType.OPEN_SESSION, number), b'{"pipeline":1,"name":""}'],
    "OPEN and CLOSE": lambda number: ([header(MessageType.OPEN_SESSION, number), b'{"pipeline":1,"name":"one"}']
                                      if number % 2 else [header(MessageType.CLOSE_SESSION, number, session=1)]),
    "SUBSCRIBE": lambda number: [header(MessageType.SUBSCRIBE, number), b'{"pipelines":["p"],"queue_bytes":65536}'],
    "SUBSCRIBE and UNSUBSCRIBE": lambda number: (
        [header(MessageType.SUBSCRIBE, number), b'{"pipelines":["p","q"]}'] if number % 2
        else [header(MessageType.UNSUBSCRIBE, number - 1)]),
    "SET": lambda number: [header(MessageType.SET_VALUES, number, session=SESSION), SET],
    "SET garbage": lambda number: [header(MessageType.SET_VALUES, number, session=SESSION), b"[" * 4096],
    "GET_VALUES": lambda number: [header(MessageType.GET_VALUES, number, session=SESSION)],
    "ATTACH": lambda number: [header(MessageType.ATTACH, number), b'{"bytes":4096}'],
    "ATTACH garbage": lambda number: [header(MessageType.ATTACH, number), b"[" * 4096],
    "unknown type": lambda number: [header(99, number)],
    "malformed": malformed,
    "SUBMIT to nowhere": lambda number: submit(number, 77),
    "SUBMIT of a wrong session": lambda number: submit(number, 1),
    "SUBMIT again": lambda number: submit(1, 0),
    "HELLO and GOODBYE": lambda number: [header(MessageType.HELLO, number), HELLO] if number % 2 else
                                        [header(MessageType.GOODBYE, number)],
}


def flood(url, kind):
    """Another process: floods until its standard input ends. Answers are read and let go of."""
    import zmq
    context = zmq.Context()
    socket = context.socket(zmq.DEALER)
    socket.setsockopt(zmq.LINGER, 0)
    socket.connect(url)
    socket.send_multipart([header(MessageType.HELLO, 1), HELLO])
    socket.recv_multipart()
    socket.send_multipart([header(MessageType.OPEN_SESSION, 1), b'{"pipeline":2,"name":"tuned"}'])
    global SESSION
    SESSION = wire.decode_header(socket.recv_multipart()[0]).session
    make, number = FLOODS[kind], 0
    prepared = [make(each) for each in range(2, 402)]
    if kind == "SUBMIT again":
        socket.send_multipart(submit(1, 0))
    print("flooding", flush=True)
    poller = zmq.Poller()
    poller.register(sys.stdin.fileno(), zmq.POLLIN)
    sent = 0
    while True:
        try:
            socket.send_multipart(prepared[number], zmq.DONTWAIT)
            number = (number + 1) % len(prepared)
            sent += 1
        except zmq.Again:
            pass
        if sent % 64 == 0:
            try:
                while True:
                    socket.recv_multipart(zmq.DONTWAIT)
            except zmq.Again:
                pass
            if poller.poll(0):
                break
    print(sent, flush=True)


class Flood:
    """Beside the test, for as long as a `with`."""

    def __init__(self, url, kind):
        self.process = subprocess.Popen([sys.executable, __file__, "--flood", url, kind], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        assert self.process.stdout.readline().strip() == "flooding"
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.sent = int(self.process.stdout.readline() or 0)
        self.process.stdout.close()
        self.process.wait(30)


class ControlFloodTest(unittest.TestCase):
    def setUp(self):
        self.daemon = Daemon("host", "callback", CONFIGURATION)
        self.addCleanup(lambda: self.daemon.stop() if self.daemon.process.poll() is None else None)

    def turn(self, client):
        """How long requests take, one after the other, with a PING now and then."""
        frame, times = numpy.ones((1, 64), numpy.float32), []
        end = time.monotonic() + TURN_S
        while time.monotonic() < end or len(times) < 50:
            begin = time.monotonic()
            client.submit("p", frame).result()
            times.append(time.monotonic() - begin)
        return times

    def test_a_flood_of_any_kind_costs_others_little(self):
        table, wrong = [], []
        with Client(self.daemon.url, retry_after=60, timeout=60) as good:
            self.turn(good)
            for kind in FLOODS:
                quiet, flooded, pings, sent = [], [], [], 0
                for _ in range(ROUNDS):
                    quiet += self.turn(good)
                    with Flood(self.daemon.url, kind) as beside:
                        flooded += self.turn(good)
                        pings.append(good.ping(30))
                    sent += beside.sent
                p50 = [statistics.median(times) for times in (quiet, flooded)]
                p99 = [statistics.quantiles(times, n=100)[98] for times in (quiet, flooded)]
                table.append(f"{kind:26} {p50[0] * 1e3:8.2f} {p50[1] * 1e3:8.2f} {p99[0] * 1e3:8.2f} {p99[1] * 1e3:8.2f} {p99[1] / p99[0]:7.1f} "
                             f"{max(pings) * 1e3:8.2f} {sent / ROUNDS / TURN_S / 1e3:6.0f}")
                if p99[1] > MOST_TIMES * p99[0] + SLACK_S:
                    wrong.append(kind)
        print("\n" + f"{'flood by one client':26} {'p50':>8} {'beside':>8} {'p99':>8} {'beside':>8} {'times':>7} {'ping':>8} "
              "1000/s   (times in ms)\n" + "\n".join(table), flush=True)
        self.assertEqual(wrong, [])
        status = wait_until(lambda: (lambda read: read if read["requests"]["in_flight"] == 0 else None)(
            self.daemon.counters()["status"]), "nothing in flight")
        self.assertTrue(status["balanced"], status)

    def test_who_owes_time_is_served_when_it_has_earned_again(self):
        with Client(self.daemon.url, retry_after=60, timeout=60) as client:
            # One question after the other costs more than a client's share, and yet nothing is dropped.
            begin = time.monotonic()
            for _ in range(2000):
                self.assertGreaterEqual(client.status(60)["uptime_s"], 0)
                if time.monotonic() - begin > 2:
                    break
            self.assertLess(client.ping(60), 10)
            control = client.status(60)["control"]
        self.assertEqual(control["dropped"], 0, json.dumps(control))


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
    if sys.argv[1:2] == ["--flood"]:
        flood(*sys.argv[2:])
    else:
        unittest.main()
