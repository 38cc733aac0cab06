"""All attacks at once beside a well-behaved client: its account balances, its latency is bounded, and memory and
descriptors come back."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
import unittest

import numpy
import zmq

import penstock
from attack import LONG, descriptors, resident_bytes
from daemon_process import Daemon, wait_until
from penstock import wire
from workers import CONFIGURATION

ATTACK_SECONDS = LONG or 4.0
MEBIBYTE = 1 << 20


def message(kind, body=b"", **fields):
    parts = [wire.encode_header(wire.Header(kind, fields.pop("request_id", 1), **fields))]
    return parts + ([body] if body else [])


def dealer(context, url):
    made = context.socket(zmq.DEALER)
    made.set(zmq.LINGER, 0)
    made.set(zmq.SNDHWM, 100)
    made.set(zmq.RCVHWM, 1)
    made.connect(url)
    return made


HELLO = message(wire.MessageType.HELLO, b'{"client": "attacker", "version": "1"}')


def flood(url, over, parts):
    """One connection that says HELLO and then the same thing, as fast as it can."""
    context = zmq.Context()
    with contextlib.closing(dealer(context, url)) as link:
        link.send_multipart(HELLO)
        while not over.is_set():
            try:
                link.send_multipart(parts, zmq.NOBLOCK)
            except zmq.Again:
                link.poll(10, zmq.POLLOUT)
            with contextlib.suppress(zmq.Again):
                link.recv_multipart(zmq.NOBLOCK)
    context.term()


def churn(url, over, parts):
    """Connections that say one thing and go."""
    context = zmq.Context()
    while not over.is_set():
        try:
            with contextlib.closing(dealer(context, url)) as link:
                link.set(zmq.LINGER, 100)
                link.send_multipart(parts)
        except zmq.ZMQError:  # out of descriptors of its own, until those that it closed have gone
            over.wait(0.05)
    context.term()


def babble(url, over):
    """Bytes that are no ZeroMQ."""
    path = url.removeprefix("ipc://")
    while not over.is_set():
        with contextlib.closing(socket.socket(socket.AF_UNIX)) as link, contextlib.suppress(OSError):
            link.settimeout(1)
            link.connect(path)
            for _ in range(10):
                link.sendall(os.urandom(1000))


ATTACKS = {
    "status": lambda url, over: flood(url, over, message(wire.MessageType.GET_STATUS)),
    "trace": lambda url, over: flood(url, over, message(wire.MessageType.GET_TRACE)),
    "hello": lambda url, over: flood(url, over, HELLO),
    "json": lambda url, over: flood(url, over, message(
        wire.MessageType.HELLO, json.dumps({f"key{index}": index for index in range(4000)}).encode())),
    "open": lambda url, over: flood(url, over, message(
        wire.MessageType.OPEN_SESSION, b'{"pipeline": 2, "name": ""}')),
    "submit": lambda url, over: flood(url, over, message(wire.MessageType.SUBMIT, os.urandom(5000), tensors=1)),
    "churn": lambda url, over: churn(url, over, HELLO),
    "babble": babble,
}


# The good client's p99 while they attack its daemon, in times of that while they attack another: the attackers are
# processes that take processors from everybody.
MOST_TIMES = 2
# Those of them that a run is about.
CHOSEN = os.environ.get("PENSTOCK_ATTACKS", ",".join(ATTACKS)).split(",")


@contextlib.contextmanager
def attackers_of(url):
    """All of them at work, each a process."""
    attackers = [subprocess.Popen([sys.executable, __file__, kind, url], stdin=subprocess.PIPE) for kind in CHOSEN]
    try:
        yield
    finally:
        for each in attackers:
            each.stdin.close()
        for each in attackers:
            each.wait(60)


class Together(unittest.TestCase):
    def setUp(self):
        self.daemon = Daemon("host", "callback", CONFIGURATION)
        self.addCleanup(self.daemon.stop)

    def latencies(self, client, seconds):
        """Of frames one after another for so long, in seconds. Each result must be right."""
        taken, end, value = [], time.monotonic() + seconds, 0
        while time.monotonic() < end:
            frame = numpy.full(16, value, numpy.float32)
            begin = time.monotonic()
            result = client.submit("line", frame).result(60)["y"]
            taken.append(time.monotonic() - begin)
            numpy.testing.assert_array_equal(result.ravel(), 2 * frame + 1)
            value += 1
        return taken

    def test_a_good_client_is_served_and_everything_comes_back(self):
        pid = self.daemon.process.pid
        with penstock.Client(self.daemon.url, transport="zmq", retry_after=30) as good:
            before = (descriptors(pid), resident_bytes(pid))
            elsewhere = Daemon("host", "callback", CONFIGURATION)
            self.addCleanup(elsewhere.stop)
            with attackers_of(elsewhere.url):
                beside = self.latencies(good, ATTACK_SECONDS / 2)
            with attackers_of(self.daemon.url):
                attacked = self.latencies(good, ATTACK_SECONDS)

            def comes_back():
                self.latencies(good, 0.1)
                return (descriptors(pid) <= before[0] + 2 and resident_bytes(pid) <= before[1] + 64 * MEBIBYTE)

            wait_until(comes_back, f"descriptors and memory as before, {before}; now {descriptors(pid)}, "
                                   f"{resident_bytes(pid)}", 10 if LONG else 60)
            p99 = [float(numpy.quantile(each, 0.99)) * 1e6 for each in (beside, attacked)]
            print(f"p99 {p99[0]:.0f} µs beside, {p99[1]:.0f} µs under {', '.join(CHOSEN)}", flush=True)
        status = self.daemon.counters()["status"]
        self.assertTrue(status["balanced"], status)
        self.assertEqual(status["requests"]["in_flight"], 0)
        if LONG and len(os.sched_getaffinity(0)) > len(CHOSEN) + 2:
            self.assertLess(p99[1], MOST_TIMES * p99[0])

    @unittest.skipUnless("churn" in CHOSEN, "not asked for")
    def test_connections_that_come_and_go_are_taken_at_a_bounded_rate(self):
        with penstock.Client(self.daemon.url, transport="zmq", retry_after=30) as good:
            attacker = subprocess.Popen([sys.executable, __file__, "churn", self.daemon.url], stdin=subprocess.PIPE)
            try:
                wait_until(lambda: self.metric("penstock_connections_too_often_total") > 0, "the rate is met")
                begin, taken = time.monotonic(), self.metric("penstock_handshakes_total")
                # Another process has a rate of its own, and its places are to be had.
                for _ in range(3):
                    self.daemon.cli("--timeout", "20s", "ping")
                self.latencies(good, 1)
                taken = self.metric("penstock_handshakes_total") - taken
                seconds = time.monotonic() - begin
            finally:
                attacker.stdin.close()
                attacker.wait(60)
        print(f"{taken / seconds:.0f} connections a second", flush=True)
        # What came at once, and the metrics' own time.
        self.assertLess(taken, 128 + 250 * (seconds + 1))

    def metric(self, name):
        """The sum of a counter."""
        lines = self.daemon.ask("/metrics")[1].splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(name))


def main(kind, url):
    over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
    ATTACKS[kind](url, over)


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in ATTACKS:
        main(*sys.argv[1:])
    else:
        unittest.main()
