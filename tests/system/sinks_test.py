"""Sinks of the real daemon: results go on to networks and files, are what numpy computes, and are accounted for."""

import json
import signal
import socket
import struct
import tempfile
import time
import unittest

import numpy
import zmq

from daemon_process import VERSION, Daemon, backends, free_port, npy, pipeline, wait_until

RATE = 48000
SMALL = "[device]\nslots = 4\nstreams = 2\n"
BLOCK = 512
PATIENCE_MS = 30_000


def sums():
    """A pipeline that keeps state: y[n] = x[n] + x[n-1], and twice that."""
    return pipeline("sums", "f32", ["max 512"], [("y", "fir", "taps = [1.0, 1.0]\n"), ("twice", "affine", "a = 2.0\n")],
                    ["y", "twice"], "batch = { max_frames = 16 }\n")


def summed(x):
    return x + numpy.concatenate([[0], x[:-1]]).astype("f4")


def source(name, lines, feeds="sums"):
    return f'[[source]]\nname = "{name}"\npipeline = "{feeds}"\nsample_rate = {RATE}\n{lines}\n'


def tape(name="tape", path="x.npy"):
    return source(name, f'type = "file"\npath = "{path}"\npace = "free"\nblock = {BLOCK}\n')


def sink(name, lines):
    return f'[[sink]]\nname = "{name}"\n{lines}\n'


def take_pmt(data):
    """A PMT off the front of `data`, and the rest: symbols, numbers and tuples."""
    kind, data = data[0], data[1:]
    if kind == 2:
        size, = struct.unpack(">H", data[:2])
        return data[2:2 + size].decode(), data[2 + size:]
    if kind == 4:
        return struct.unpack(">d", data[:8])[0], data[8:]
    if kind == 0x0B:
        return struct.unpack(">Q", data[:8])[0], data[8:]
    assert kind == 0x0C, kind
    count, = struct.unpack(">I", data[:4])
    data, items = data[4:], []
    for _ in range(count):
        item, data = take_pmt(data)
        items.append(item)
    return tuple(items), data


def gnuradio_message(data):
    """Offset, tags {key: (offset, value)} and samples of a message as gr-zeromq has it."""
    magic, version, offset, count = struct.unpack_from("<HBQQ", data)
    assert (magic, version) == (0x5FF0, 1)
    tags, rest = {}, data[19:]
    for _ in range(count):
        at, = struct.unpack("<Q", rest[:8])
        key, rest = take_pmt(rest[8:])
        value, rest = take_pmt(rest)
        _, rest = take_pmt(rest)
        tags[key] = (at, value)
    return offset, tags, numpy.frombuffer(rest, "f4")


class Drained(Daemon):
    """A daemon, and what its sinks and sources say."""

    def said(self, kind):
        status, text = self.ask("/api/v1/status")
        assert status == 200, text
        return {each["name"]: each for shard in json.loads(text)["shards"] for each in shard[kind]}

    def sinks(self):
        found = self.said("sinks")
        for each in found.values():
            counts = each["results"]
            assert counts["balanced"] and counts["expected"] == sum(
                counts[fate] for fate in ("delivered", "dropped", "waiting")), each
        return found

    def wait_for(self, name, holds, message, kind="sinks"):
        found = self.sinks if kind == "sinks" else lambda: self.said(kind)
        return wait_until(lambda: (lambda each: each if each and holds(each) else None)(found().get(name)), message)

    def reload(self, text):
        (self.path / "penstock.toml").write_text(text)
        return self.ask_for_reload()


class Sinks(unittest.TestCase):
    def setUp(self):
        self.context = zmq.Context()
        self.addCleanup(self.context.destroy, 0)

    def start(self, text, files=None):
        daemon = Drained(backends()[0], "callback", VERSION + SMALL + text, files)
        self.addCleanup(lambda: daemon.process.poll() is None and daemon.stop())
        return daemon

    def stop(self, daemon):
        code, log = daemon.stop()
        self.assertEqual(code, 0, log)
        return log

    def socket(self, kind, url, **options):
        made = self.context.socket(kind)
        made.rcvtimeo = made.sndtimeo = PATIENCE_MS
        for name, value in options.items():
            setattr(made, name, value)
        made.connect(url)
        self.addCleanup(made.close, 0)
        return made

    def test_pub_tags_results_as_gnu_radio_does(self):
        ins, outs = (f"tcp://127.0.0.1:{free_port()}" for _ in range(2))
        daemon = self.start(
            sums() + source("north", f'type = "zmq-pull"\nbind = "{ins}"\nblock = {BLOCK}\nframing = "gnuradio-tags"\n'
                                     'session = "air"\ngap = { policy = "new-epoch" }\n')
            + sink("waterfall", f'type = "zmq-pub"\nbind = "{outs}"\nfrom = ["north.y"]\nframing = "gnuradio-tags"\n'
                                'topic = "{session}"\n'))
        push = self.socket(zmq.PUSH, ins)
        sub = self.socket(zmq.SUB, outs)
        sub.subscribe(b"air")
        x = numpy.random.default_rng(1).standard_normal(40 * BLOCK).astype("f4")
        at = 0

        def send(blocks, skip=0):
            nonlocal at
            for _ in range(blocks):
                first = at + skip
                tags = struct.pack("<HBQQ", 0x5FF0, 1, first, 0)
                push.send(tags + x[first:first + BLOCK].tobytes())
                at += BLOCK

        send(1)
        while not sub.poll(50):  # until it is heard
            send(1)
        heard = []
        begun = at
        send(4)
        at += BLOCK  # a gap
        send(4)
        while not heard or heard[-1][0] + len(heard[-1][2]) < at:
            topic, message = sub.recv_multipart()
            self.assertEqual(topic, b"air")
            heard.append(gnuradio_message(message))
        offset, tags, _ = heard[0]
        self.assertEqual(tags["rx_rate"], (offset, RATE))
        seconds, fraction = tags["rx_time"][1]
        self.assertLess(abs(seconds + fraction - time.time()), 60)
        gap = begun + 4 * BLOCK
        whole = summed(x)
        whole[gap + BLOCK] = x[gap + BLOCK]  # a new epoch has no sample before it
        following = None
        for offset, tags, y in heard:
            numpy.testing.assert_allclose(y, whole[offset:offset + len(y)], rtol=1e-6, atol=1e-6)
            if following is not None:
                self.assertEqual(offset, following + (BLOCK if following == gap else 0))
                self.assertEqual("rx_time" in tags, following == gap)
            following = offset + len(y)
        sent = (at - BLOCK) // BLOCK
        said = daemon.wait_for("waterfall", lambda each: each["results"]["delivered"] == sent, "all is sent")
        self.assertEqual((said["type"], said["state"], said["results"]["dropped"]), ("zmq-pub", "running", 0))
        self.assertEqual(said["results"]["expected"], sent)
        self.assertIn("sink 'waterfall': begins", self.stop(daemon))


if __name__ == "__main__":
    unittest.main()
