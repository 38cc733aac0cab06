"""Connections that break and are taken over: no request is lost or run twice, and no resource leaks.

PENSTOCK_ATTACK_SECONDS: how long connections are cut; without it for some seconds.
"""

import contextlib
import json
import pathlib
import random
import selectors
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
import unittest

from attack import LONG, descriptors, resident_bytes
from daemon_process import BIN, VERSION, Daemon, pipeline, wait_until
from guarded_daemon import GuardedDaemon
from raw_client import RawDealer

try:
    import numpy as np
    import zmq
    from penstock import Client, control, wire
    from penstock.keys import read_keys
except ImportError:
    zmq = None


class CuttingProxy:
    """Carries bytes between a TCP port on loopback and the daemon's Unix socket, on a thread of its own."""

    def __init__(self, path):
        self.path = str(path)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.setblocking(False)
        self.url = "tcp://127.0.0.1:%d" % self.listener.getsockname()[1]
        self.cuts = 0
        self._peers = {}  # of each socket the other end, and what is to be sent to it
        self._selector = selectors.DefaultSelector()
        self._wake, self._woken = socket.socketpair()
        self._orders, self._closing = 0, False
        self._selector.register(self.listener, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def cut(self):
        """Breaks every connection, in the middle of whatever it carries."""
        self.cuts += 1
        self._orders += 1
        self._wake.send(b"x")

    def close(self):
        self._closing = True
        self._wake.send(b"x")
        self._thread.join()
        for each in [*self._peers, self.listener, self._wake, self._woken]:
            each.close()
        self._selector.close()

    def _run(self):
        while not self._closing:
            for key, events in self._selector.select():
                if key.fileobj is self.listener:
                    self._accept()
                elif key.fileobj is self._woken:
                    self._woken.recv(4096)
                    for each in list(self._peers):
                        self._drop(each)
                elif key.fileobj in self._peers:
                    self._carry(key.fileobj, events)

    def _accept(self):
        client, _ = self.listener.accept()
        daemon = socket.socket(socket.AF_UNIX)
        try:
            daemon.connect(self.path)
        except OSError:
            client.close()
            daemon.close()
            return
        for one, other in ((client, daemon), (daemon, client)):
            one.setblocking(False)
            self._peers[one] = [other, b""]
            self._selector.register(one, selectors.EVENT_READ)

    def _carry(self, one, events):
        other, _ = self._peers[one]
        try:
            if events & selectors.EVENT_READ:
                data = one.recv(1 << 16)
                if not data:
                    raise OSError("closed")
                self._peers[other][1] += data
                self._flush(other)
            if events & selectors.EVENT_WRITE and one in self._peers:
                self._flush(one)
        except BlockingIOError:
            pass
        except OSError:
            self._drop(one)

    def _flush(self, peer):
        """Sends what it can; reads no more from the other end while something is left."""
        other, left = self._peers[peer]
        try:
            left = left[peer.send(left):] if left else left
        except BlockingIOError:
            pass
        self._peers[peer][1] = left
        self._selector.modify(other, self._interest(other, reads=not left))
        self._selector.modify(peer, self._interest(peer, reads=not self._peers[other][1]))

    def _interest(self, peer, reads):
        wants = selectors.EVENT_WRITE if self._peers[peer][1] else 0
        return (selectors.EVENT_READ if reads else 0) | wants or selectors.EVENT_WRITE

    def _drop(self, one):
        other, _ = self._peers.get(one, (None, b""))
        for each in (one, other):
            if each in self._peers:
                del self._peers[each]
                self._selector.unregister(each)
                # A reset, so that what is under way is lost.
                if each.family == socket.AF_INET:
                    each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                each.close()


SECONDS = max(LONG, 2.5)
TAKEOVERS = 1000
TEXT = VERSION + '[clients]\nmax_clients = 64\ncredit_requests = 64\n' + pipeline(
    "double", "f32", [16], [("out", "affine", "a = 2.0\n")], ["out"]) + pipeline(
    "sums", "f32", ["max 16"], [("out", "fir", 'from = "input"\ntaps = [1.0, 1.0]\n')], ["out"])


@unittest.skipUnless(zmq, "numpy or pyzmq is missing")
class Takeovers(unittest.TestCase):
    def setUp(self):
        self.daemon = Daemon("host", "callback", TEXT)
        self.addCleanup(self.stop)
        self.proxy = CuttingProxy(f"{self.daemon.path}/data")
        self.addCleanup(self.proxy.close)
        self.pid = self.daemon.process.pid

    def stop(self):
        code, log = self.daemon.stop()
        self.assertEqual(code, 0, log)

    def requests(self):
        return self.daemon.counters()["status"]["requests"]

    @contextlib.contextmanager
    def cutting(self):
        """Cuts every connection again and again, at random times."""
        over = threading.Event()

        def cut():
            rng = random.Random(1)
            while not over.wait(rng.uniform(0.02, 0.25)):
                self.proxy.cut()

        cutter = threading.Thread(target=cut)
        cutter.start()
        try:
            yield
        finally:
            over.set()
            cutter.join()

    def test_python_client_loses_nothing_and_runs_nothing_twice(self):
        with Client(self.proxy.url, transport="zmq") as client:
            session = client.session("sums")
            count, before = 0, 0.0
            pending = []
            with self.cutting():
                end = time.monotonic() + SECONDS
                while time.monotonic() < end or self.proxy.cuts < 8:
                    number = float(count % 1000)
                    pending.append((client.submit("double", np.full(16, number, np.float32), timeout=120), 2 * number,
                                    session.submit(np.full(1, number, np.float32), timeout=120), number + before))
                    before, count = number, count + 1
                    while len(pending) > 20 or (pending and pending[0][0].done() and pending[0][2].done()):
                        self.check(*pending.pop(0))
                for each in pending:
                    self.check(*each)
            session.close()
        print(f"{count} requests and frames through {self.proxy.cuts} cuts", flush=True)
        account = self.requests()
        self.assertEqual((account["accepted"], account["results"]), (2 * count, 2 * count))
        self.assertEqual(account["in_flight"], 0)

    def check(self, plain, doubled, framed, summed):
        np.testing.assert_array_equal(plain.result(120)["out"], np.full(16, doubled, np.float32))
        self.assertEqual(framed.result(120)["out"].ravel().tolist(), [summed])

    def test_cpp_client_loses_nothing_and_runs_nothing_twice(self):
        for name, more in (("double", ()), ("sums", ("--sessions", "2"))):
            with self.subTest(name), tempfile.NamedTemporaryFile("r") as figures:
                before, cuts = self.requests(), self.proxy.cuts
                bench = subprocess.Popen(
                    [BIN / "penstock", "--url", self.proxy.url, "--transport", "zmq", "bench", "--pipeline", name,
                     "--clients", "3", "--in-flight", "8", "--warmup", "0s", "--duration", f"{SECONDS}s", "--json",
                     figures.name, *more], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                self.addCleanup(bench.kill)
                with self.cutting():
                    said, _ = bench.communicate(timeout=300 + SECONDS)
                self.assertEqual(bench.returncode, 0, said)
                report, account = json.load(figures), self.requests()
                print(f"{name}: {report['requests']} requests through {self.proxy.cuts - cuts} cuts", flush=True)
                self.assertEqual(report["errors"], {})
                self.assertGreaterEqual(self.proxy.cuts - cuts, 5)
                ran = account["accepted"] - before["accepted"]
                self.assertEqual(account["results"] - before["results"], ran)
                self.assertEqual(account["in_flight"], 0)

    def test_takeovers_by_token_leave_nothing_behind(self):
        context = zmq.Context()
        self.addCleanup(context.destroy, 0)
        peer = RawDealer(context, self.daemon.url)
        token = peer.hello().resume
        for turn in range(TAKEOVERS):
            if turn == TAKEOVERS // 10:
                before = descriptors(self.pid), resident_bytes(self.pid)
            old, peer = peer, RawDealer(context, self.daemon.url)
            welcome = peer.hello(token)
            self.assertEqual((welcome.resume, welcome.resumed), (token, True))
            # The old connection is a stranger's: it is read and answered, and nothing that it sends is kept.
            old.send(wire.MessageType.GET_STATUS, 7, bytes(100_000) if turn % 50 == 0 else None)
            header, _ = old.receive()
            self.assertEqual(header.type, wire.MessageType.ERROR)
            old.close()
        self.assert_flat(before, 32 << 20)
        self.assertEqual(peer.hello().resume, token)
        peer.close()

    def test_a_routing_id_that_is_taken_does_no_harm(self):
        context = zmq.Context()
        self.addCleanup(context.destroy, 0)
        first = RawDealer(context, self.daemon.url, b"the same")
        token = first.hello().resume
        before = descriptors(self.pid), resident_bytes(self.pid)
        for _ in range(TAKEOVERS):
            other = RawDealer(context, self.daemon.url, b"the same")
            other.send(wire.MessageType.GOODBYE)
            other.send(wire.MessageType.PING, 7)
            other.socket.close(linger=1000)
        self.assertEqual(first.hello().resume, token)
        # libzmq keeps a little of each such connection: what was sent over it, and its bookkeeping.
        self.assert_flat(before, TAKEOVERS * (128 << 10))
        first.close()

    def guarded(self):
        """A daemon that lets in the keys "listed" and "other", and a function that makes a dealer with one of them."""
        daemon = GuardedDaemon(start=False)
        self.addCleanup(daemon.close)
        with open(daemon.path / "authorized_keys", "a") as known:
            known.write(daemon.lines["other"] + "\n")
        daemon.start()
        context = zmq.Context()
        self.addCleanup(context.destroy, 0)

        def peer(key):
            return RawDealer(context, daemon.url, keys=read_keys(daemon.public("server"), str(daemon.path / f"{key}.key")))

        return daemon, peer

    def test_a_hello_that_waits_is_bound_to_the_key_that_it_came_with(self):
        daemon, peer = self.guarded()
        other, waiting = peer("other"), peer("listed")
        other.hello()
        daemon.process.send_signal(signal.SIGSTOP)  # it finds them all there at once, however quick it is
        for _ in range(900):  # so that it owes, and what comes then waits: fewer than it lets wait of one connection
            waiting.send(wire.MessageType.GET_STATUS, 7)
        waiting.send(wire.MessageType.HELLO, 1, b'{"client":"waits","version":"1"}')
        daemon.process.send_signal(signal.SIGCONT)

        def welcome():
            other.ask(wire.MessageType.PING)  # the last that has come is another key's
            while waiting.socket.poll(0):
                header, parts = waiting.receive()
                if header.type == wire.MessageType.WELCOME:
                    return control.decode(control.Welcome, parts[1])
            return None

        token = wait_until(welcome, "the HELLO is answered", 60).resume
        waiting.close()
        thief, again = peer("other"), peer("listed")
        self.assertFalse(thief.hello(token).resumed)
        self.assertTrue(again.hello(token).resumed)
        thief.close()
        again.close()
        other.close()
        waited = json.loads(daemon.cli("info", "--json").stdout)["status"]["control"]
        self.assertGreater(waited["delayed"], 0)
        self.assertEqual(waited["dropped"], 0)

    def test_with_keys_a_token_holds_for_the_key_that_it_was_given_to(self):
        _, peer = self.guarded()
        first, thief, second = peer("listed"), peer("other"), peer("listed")
        token = first.hello().resume
        self.assertFalse(thief.hello(token).resumed)
        self.assertNotEqual(thief.hello().resume, token)
        self.assertTrue(second.hello(token).resumed)
        for each in (first, thief, second):
            each.close()

    def assert_flat(self, before, bytes_more):
        wait_until(lambda: descriptors(self.pid) <= before[0] + 8, "the daemon's descriptors are closed")
        libraries = pathlib.Path(f"/proc/{self.pid}/maps").read_text()
        if "libasan" not in libraries and "libtsan" not in libraries:  # they keep what was freed
            self.assertLessEqual(resident_bytes(self.pid) - before[1], bytes_more)


if __name__ == "__main__":
    unittest.main()
