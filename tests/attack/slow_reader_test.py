"""Clients that do not read lose their own results; the memory of the daemon stays bounded."""

import contextlib
import unittest

import numpy
import zmq

import penstock
from attack import LONG, resident_bytes
from daemon_process import Daemon, wait_until
from penstock import wire

MEBIBYTE = 1 << 20
LIMIT = 256 * MEBIBYTE
FLOATS = 65536
CONFIGURATION = f"""config_version = 1
[limits]
memory = "{LIMIT // MEBIBYTE} MiB"
[device]
slots = 4
streams = 2
[[pipeline]]
name = "double"
input = {{ dtype = "f32", shape = [{FLOATS}] }}
batch = {{ max_frames = 1 }}
[[pipeline.stage]]
name = "twice"
op = "affine"
a = 2.0
b = 0.0
"""


class SilentReader:
    """A client that submits as much as the daemon takes, and never reads an answer."""

    def __init__(self, url):
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.DEALER)
        self.socket.set(zmq.RCVHWM, 1)
        self.socket.set(zmq.RCVBUF, 65536)
        self.socket.set(zmq.SNDHWM, 4)
        self.socket.set(zmq.LINGER, 0)
        self.socket.connect(url)
        self._send(wire.Header(wire.MessageType.HELLO, 1), b'{"client": "silent", "version": "1"}')
        self.request = 1
        frame = numpy.ones((1, FLOATS), numpy.float32)
        self.head, self.payload = wire.encode_tensor(wire.tensor_header(frame)), frame.tobytes()

    def submit(self):
        """False when the daemon takes nothing more just now."""
        self.request += 1
        header = wire.Header(wire.MessageType.SUBMIT, self.request, tensors=1, frames=1)
        try:
            self.socket.send_multipart([wire.encode_header(header) + self.head, self.payload], zmq.NOBLOCK)
        except zmq.Again:
            return False
        return True

    def _send(self, header, body):
        self.socket.send_multipart([wire.encode_header(header), body])

    def close(self):
        self.socket.close()
        self.context.term()


class SlowReaders(unittest.TestCase):
    def setUp(self):
        self.daemon = Daemon("host", "callback", CONFIGURATION)
        self.pid = self.daemon.process.pid

    def tearDown(self):
        self.daemon.stop()

    def dropped(self):
        return self.daemon.counters()["status"]["replies"]["dropped"]

    def ask(self, client, count):
        """`count` frames one after another; every result must come and be right."""
        for value in range(count):
            frame = numpy.full(FLOATS, value, numpy.float32)
            numpy.testing.assert_array_equal(client.submit("double", frame).result(60)["twice"], 2 * frame)

    def test_memory_is_bounded_and_comes_back_while_others_are_served(self):
        readers = 50 if LONG else 10
        with penstock.Client(self.daemon.url) as good, contextlib.ExitStack() as attackers:
            self.ask(good, 20)
            before = resident_bytes(self.pid)
            silent = [SilentReader(self.daemon.url) for _ in range(readers)]
            for each in silent:
                attackers.callback(each.close)
            most = 0

            def attacked():
                nonlocal most
                for each in silent:
                    each.submit()
                self.ask(good, 1)
                most = max(most, resident_bytes(self.pid))
                return self.dropped() > 100 * readers if LONG else self.dropped() > 100

            wait_until(attacked, "the slow readers lose results", 300)
            print(f"{readers} clients that do not read: {before >> 20} MiB before, {most >> 20} MiB at most", flush=True)
            self.assertLess(most - before, LIMIT + 64 * MEBIBYTE)
            self.assertEqual(self.daemon.counters()["status"]["peer_memory"]["limit"], LIMIT)
            attackers.close()

            def given_back():
                self.ask(good, 5)
                return resident_bytes(self.pid) < before + 64 * MEBIBYTE

            wait_until(given_back, "the memory is back, while another client is served", 30)
            print(f"{resident_bytes(self.pid) >> 20} MiB afterwards", flush=True)


if __name__ == "__main__":
    unittest.main()
