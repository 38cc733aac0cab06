"""Sinks of the real daemon: results go on to networks and files, are what numpy computes, and are accounted for."""

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

import numpy
import zmq

from penstock import Client, wire

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
        (self.path / "penstock.toml").write_text(VERSION + SMALL + text)
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

    def test_items_that_can_not_be_counted_follow_one_another(self):
        ins, outs = (f"tcp://127.0.0.1:{free_port()}" for _ in range(2))
        times = 12
        daemon = self.start(
            pipeline("faster", "f32", [f"max {BLOCK}"], [("y", "resample", f"up = {times}\ntaps = [1.0]\n")], ["y"])
            + source("far", f'type = "zmq-pull"\nbind = "{ins}"\nblock = {BLOCK}\nframing = "gnuradio-tags"\n', "faster")
            + sink("out", f'type = "zmq-push"\nbind = "{outs}"\nfrom = ["far.y"]\nframing = "gnuradio-tags"\n'))
        push, pull = self.socket(zmq.PUSH, ins), self.socket(zmq.PULL, outs)
        begin = 2 ** 63 // times - BLOCK  # the items of the second block have numbers beyond 63 bits
        for block in range(3):
            push.send(struct.pack("<HBQQ", 0x5FF0, 1, begin + block * BLOCK, 0) + bytes(4 * BLOCK))
        offsets = [gnuradio_message(pull.recv())[0] for _ in range(3)]
        self.assertEqual([each - offsets[0] for each in offsets], [0, times * BLOCK, 2 * times * BLOCK])
        self.stop(daemon)

    def test_a_stalled_push_pauses_its_source_and_loses_nothing(self):
        stalled, quick = (f"tcp://127.0.0.1:{free_port()}" for _ in range(2))
        x = numpy.random.default_rng(2).standard_normal(1000 * BLOCK).astype("f4")
        free = x[:300 * BLOCK]
        daemon = self.start(
            sums() + sums().replace('"sums"', '"others"') + tape()
            + source("other", f'type = "file"\npath = "z.npy"\npace = "free"\nblock = {BLOCK}\n', "others")
            + sink("stuck", f'type = "zmq-push"\nbind = "{stalled}"\nfrom = "sums.y"\nqueue = "64 KiB"\n')
            + sink("sibling", f'type = "zmq-push"\nbind = "{quick}"\nfrom = "others.y"\nqueue = "64 KiB"\n'),
            {"x.npy": npy(x), "z.npy": npy(free)})
        pull = self.socket(zmq.PULL, quick)
        numpy.testing.assert_allclose(self.pulled(pull, len(free)), summed(free), rtol=1e-6, atol=1e-6)
        said = daemon.wait_for("stuck", lambda each: each["state"] == "full" and each["pauses"] == 1, "it is full")
        self.assertEqual((said["results"]["dropped"], said["results"]["delivered"]), (0, 0))
        self.assertLess(said["results"]["expected"], 700)
        daemon.wait_for("sibling", lambda each: each["results"]["delivered"] == 300, "the other one is untouched")
        late = self.socket(zmq.PULL, stalled, rcvhwm=1)
        numpy.testing.assert_allclose(self.pulled(late, len(x)), summed(x), rtol=1e-6, atol=1e-6)
        said = daemon.wait_for("stuck", lambda each: each["results"]["delivered"] == 1000, "all is sent")
        self.assertEqual((said["results"]["dropped"], said["state"], said["bytes"]), (0, "running", x.nbytes))
        self.assertEqual(daemon.said("sources")["tape"]["samples"]["overrun"], 0)
        self.assertIn("sink 'stuck': its queue is full, and the sources that feed it wait", self.stop(daemon))

    def test_a_stalled_sink_that_blocks_fits_into_what_its_shard_keeps(self):
        url = f"tcp://127.0.0.1:{free_port()}"
        x = numpy.arange(10 << 20, dtype="f4")
        block = 16384
        daemon = self.start(
            '[limits]\nmemory = "256 MiB"\n[clients]\ncredit_bytes = "4 MiB"\n'
            + pipeline("twice", "f32", [f"max {block}"], [("y", "affine", "a = 2.0\n")], ["y"])
            + source("tape", f'type = "file"\npath = "x.npy"\npace = "free"\nblock = {block}\nqueue = "1 MiB"\n',
                     "twice")
            + sink("out", f'type = "zmq-push"\nbind = "{url}"\nfrom = "twice"\n'), {"x.npy": npy(x)})
        daemon.wait_for("out", lambda each: each["pauses"] == 1, "it pauses its source")
        numpy.testing.assert_array_equal(self.pulled(self.socket(zmq.PULL, url), len(x)), 2 * x)
        said = daemon.wait_for("out", lambda each: each["results"]["delivered"] == len(x) // block, "all is sent")
        self.assertEqual(said["results"]["dropped"], 0)
        self.stop(daemon)

    def pulled(self, pull, items):
        got = []
        while sum(map(len, got)) < items:
            got.append(numpy.frombuffer(pull.recv(), "f4"))
        return numpy.concatenate(got)

    def test_push_outlives_a_receiver_that_is_killed(self):
        url = f"tcp://127.0.0.1:{free_port()}"
        x = numpy.random.default_rng(3).standard_normal(2000 * BLOCK).astype("f4")
        daemon = self.start(sums() + tape() + sink(
            "out", f'type = "zmq-push"\nbind = "{url}"\nfrom = "sums.y"\nframing = "penstock"\nqueue = "64 KiB"\n'),
            {"x.npy": npy(x)})
        script = f"import zmq; s = zmq.Context().socket(zmq.PULL); s.rcvhwm = 1; s.connect('{url}')\n" \
                 "for _ in range(100): s.recv_multipart()\nprint('ready', flush=True)\nimport time; time.sleep(600)"
        peer = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
        self.assertEqual(peer.stdout.readline(), "ready\n")
        peer.kill()
        peer.communicate()
        pull = self.socket(zmq.PULL, url)
        heard, whole = [], summed(x)
        while not heard or heard[-1] != 1999:
            head, body = pull.recv_multipart()
            header = wire.decode_header(head)
            self.assertEqual(header.type, wire.MessageType.PUBLISHED)
            y = numpy.frombuffer(body, "f4")
            numpy.testing.assert_allclose(y, whole[header.sequence * BLOCK:][:BLOCK], rtol=1e-6, atol=1e-6)
            heard.append(header.sequence)
        self.assertEqual(heard, list(range(heard[0], 2000)))
        self.assertLess(heard[0], 1500)  # what the connection had
        self.stop(daemon)

    def test_what_is_pushed_feeds_another_source_which_knows_what_was_withheld(self):
        url = f"tcp://127.0.0.1:{free_port()}"
        x = numpy.random.default_rng(8).standard_normal(9 * BLOCK).astype("f4")
        meta = {"global": {"core:datatype": "rf32_le", "core:sample_rate": RATE, "core:version": "1.0.0"},
                "captures": [{"core:sample_start": 0, "core:global_index": 0},
                             {"core:sample_start": 4 * BLOCK, "core:global_index": 7 * BLOCK}], "annotations": []}
        daemon = self.start(
            sums() + tape(path="x.sigmf-meta") + "gap = { policy = \"fill\", discard = true }\n"
            + sink("out", f'type = "zmq-push"\nbind = "{url}"\nfrom = "tape.y"\nframing = "penstock"\n')
            + source("again", f'type = "zmq-pull"\nconnect = "{url}"\nblock = {BLOCK}\nframing = "penstock"\n'
                              'gap = { policy = "new-epoch" }\n'),
            {"x.sigmf-meta": json.dumps(meta).encode(), "x.sigmf-data": x.tobytes()})
        # Withheld are the filled blocks and the one behind them, whose first output has the last filled sample too.
        said = daemon.wait_for("again", lambda each: each["results"] == 8, "all comes again", "sources")
        self.assertEqual((said["samples"]["delivered"], said["samples"]["network"], said["gaps"], said["epochs"]),
                         (8 * BLOCK, 4 * BLOCK, 1, 1))
        self.stop(daemon)

    def test_a_file_has_each_result_once_and_goes_on_after_kill_9(self):
        x = numpy.random.default_rng(4).standard_normal(3000 * BLOCK).astype("f4")
        text = sums() + tape() + sink("disk", 'type = "file"\npath = "out/{session}.{output}"\nfrom = ["tape"]\n')
        daemon = self.start(text, {"x.npy": npy(x)})
        daemon.wait_for("disk", lambda each: each["results"]["delivered"] == 3000, "all is written")
        whole = summed(x)
        for name, factor in (("y", 1), ("twice", 2)):
            path = daemon.path / "out" / f"tape.{name}"
            numpy.testing.assert_allclose(numpy.fromfile(path, "f4"), factor * whole, rtol=1e-6, atol=1e-6)
        daemon.wait_for("disk", lambda each: each["bytes"] == 2 * x.nbytes, "all is counted")
        daemon.end(signal.SIGKILL)
        with path.open("ab") as file:
            file.write(b"abc")  # half a result
        daemon.start()
        daemon.wait_for("disk", lambda each: each["results"]["delivered"] == 3000, "all is written again")
        numpy.testing.assert_allclose(numpy.fromfile(path, "f4"), numpy.tile(2 * whole, 2), rtol=1e-6, atol=1e-6)
        self.stop(daemon)

    def test_a_recording_has_a_capture_for_each_gap(self):
        x = numpy.random.default_rng(5).standard_normal(6 * BLOCK).astype("f4")
        meta = {"global": {"core:datatype": "rf32_le", "core:sample_rate": RATE, "core:version": "1.0.0"},
                "captures": [{"core:sample_start": 0, "core:global_index": 1000,
                              "core:datetime": "2026-01-31T12:00:00Z"},
                             {"core:sample_start": 2 * BLOCK, "core:global_index": 1000 + 3 * BLOCK}],
                "annotations": []}
        daemon = self.start(
            pipeline("twice", "f32", ["max 512"], [("y", "affine", "a = 2.0\n")], ["y"])
            + source("tape", f'type = "file"\npath = "x.sigmf-meta"\npace = "free"\nblock = {BLOCK}\n'
                             'gap = { policy = "new-epoch" }\n', "twice")
            + sink("tape", 'type = "sigmf"\npath = "{session}-{output}.sigmf-meta"\nfrom = "twice"\n'),
            {"x.sigmf-meta": json.dumps(meta).encode(), "x.sigmf-data": x.tobytes()})
        daemon.wait_for("tape", lambda each: each["results"]["delivered"] == 6, "all is written")
        self.stop_but_keep(daemon)
        made = json.loads((daemon.path / "tape-y.sigmf-meta").read_text())
        self.assertEqual((made["global"]["core:datatype"], made["global"]["core:sample_rate"]), ("rf32_le", RATE))
        numpy.testing.assert_array_equal(numpy.fromfile(daemon.path / "tape-y.sigmf-data", "f4"), 2 * x)
        first, second = made["captures"]
        self.assertEqual((first["core:sample_start"], first["core:global_index"]), (0, 1000))
        self.assertTrue(first["core:datetime"].startswith("2026-01-31T12:00:00"))
        self.assertEqual((second["core:sample_start"], second["core:global_index"]), (2 * BLOCK, 1000 + 3 * BLOCK))
        daemon.start()
        daemon.wait_for("tape", lambda each: each["results"]["delivered"] == 6, "all is written again")
        self.stop_but_keep(daemon)
        again = json.loads((daemon.path / "tape-y.sigmf-meta").read_text())
        self.assertEqual([each["core:sample_start"] for each in again["captures"]],
                         [0, 2 * BLOCK, 6 * BLOCK, 8 * BLOCK])
        numpy.testing.assert_array_equal(numpy.fromfile(daemon.path / "tape-y.sigmf-data", "f4"), numpy.tile(2 * x, 2))

    def stop_but_keep(self, daemon):
        self.assertEqual(daemon.end(), 0, daemon.log.read_text())

    def test_udp_numbers_its_datagrams(self):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
            receiver.bind(("127.0.0.1", 0))
            receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
            receiver.settimeout(PATIENCE_MS / 1000)
            x = numpy.random.default_rng(6).standard_normal(100 * BLOCK).astype("f4")
            daemon = self.start(sums() + source("tape", f'type = "file"\npath = "x.npy"\npace = "10x"\n'
                                                        f'block = {BLOCK}\n') + sink(
                "out", f'type = "udp"\nto = "127.0.0.1:{receiver.getsockname()[1]}"\nframing = "sequence"\n'
                       'from = "sums.y"\ndatagram = "1000"\n'.replace('"1000"', '"1000 B"')), {"x.npy": npy(x)})
            got = []
            for number in range(300):  # 250, 250 and 12 items
                packet = receiver.recv(2000)
                self.assertEqual(struct.unpack("<Q", packet[:8]), (number,))
                got.append(numpy.frombuffer(packet[8:], "f4"))
        numpy.testing.assert_allclose(numpy.concatenate(got), summed(x), rtol=1e-6, atol=1e-6)
        self.assertEqual({len(each) for each in got}, {250, 12})
        self.stop(daemon)

    def test_a_reload_begins_changes_and_ends_sinks(self):
        x = numpy.random.default_rng(7).standard_normal(2000 * BLOCK).astype("f4")
        fed = sums() + source("tape", f'type = "file"\npath = "x.npy"\npace = "10x"\nblock = {BLOCK}\n')

        def disk(name, path):
            return sink(name, f'type = "file"\npath = "{path}"\nfrom = "tape.y"\n')

        daemon = self.start(fed + disk("a", "1") + disk("b", "2"), {"x.npy": npy(x)})
        daemon.wait_for("b", lambda each: each["results"]["delivered"] > 50, "both write")
        self.assertEqual(daemon.reload(fed + disk("a", "3") + disk("b", "2") + disk("c", "4"))[0], 200)
        daemon.wait_for("c", lambda each: each["results"]["delivered"] > 50, "it writes")
        self.assertEqual(daemon.reload(fed + disk("b", "2"))[0], 200)
        wait_until(lambda: set(daemon.sinks()) == {"b"}, "the others end")
        daemon.wait_for("tape", lambda each: each["state"] == "ended", "the source ends", "sources")
        daemon.wait_for("b", lambda each: each["results"]["delivered"] == 2000, "all is written")
        whole = summed(x)
        parts = {name: numpy.fromfile(daemon.path / name, "f4") for name in "1234"}
        numpy.testing.assert_allclose(parts["2"], whole, rtol=1e-6, atol=1e-6)
        numpy.testing.assert_allclose(parts["1"], whole[:len(parts["1"])], rtol=1e-6, atol=1e-6)
        for name in "34":
            begun = next(at for at in range(0, len(x), BLOCK)
                         if numpy.allclose(whole[at:at + BLOCK], parts[name][:BLOCK], rtol=1e-6, atol=1e-6))
            numpy.testing.assert_allclose(parts[name], whole[begun:begun + len(parts[name])], rtol=1e-6, atol=1e-6)
        log = self.stop(daemon)
        for said in ("sink 'a': changed", "sink 'c': begins", "sink 'c': removed"):
            self.assertIn(said, log)

    def test_a_sink_that_can_not_begin_says_why_and_tries_again(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            daemon = self.start(sums() + tape() + sink(
                "out", f'type = "zmq-push"\nbind = "tcp://127.0.0.1:{port}"\nfrom = "sums.y"\n'),
                {"x.npy": npy(numpy.ones(3 * BLOCK, "f4"))})
            said = daemon.wait_for("out", lambda each: each["state"] == "waiting", "it waits")
            self.assertEqual(said["trouble"], f"cannot bind to tcp://127.0.0.1:{port}: Address already in use")
        self.assertEqual(len(self.pulled(self.socket(zmq.PULL, f"tcp://127.0.0.1:{port}"), 3 * BLOCK)), 3 * BLOCK)
        counted = 'penstock_sink_results_total{fate="delivered",sink="out"} 3'
        wait_until(lambda: counted in daemon.ask("/metrics")[1], "it is counted")
        log = self.stop(daemon)
        self.assertIn("sink 'out': cannot bind", log)

    def test_a_file_that_can_not_be_written_is_complained_about_once(self):
        x = numpy.random.default_rng(9).standard_normal(4 * BLOCK).astype("f4")
        daemon = self.start(sums() + tape() + sink("out", 'type = "file"\npath = "no/y"\nfrom = "sums.y"\n'),
                            {"x.npy": npy(x), "no": b""})
        said = daemon.wait_for("out", lambda each: each["connections"] >= 4, "it is tried again")
        self.assertEqual((said["state"], said["results"]["waiting"]), ("waiting", 4))
        self.assertEqual(said["trouble"], f"can't open {daemon.path}/no/y: Not a directory")
        (daemon.path / "no").unlink()
        said = daemon.wait_for("out", lambda each: each["results"]["delivered"] == 4, "it goes on")
        self.assertNotIn("trouble", said)
        numpy.testing.assert_allclose(numpy.fromfile(daemon.path / "no/y", "f4"), summed(x), rtol=1e-6, atol=1e-6)
        log = self.stop(daemon)
        self.assertEqual((log.count("it is tried again"), log.count("sink 'out': goes on")), (1, 1), log)

    def test_results_of_clients_come_too_and_what_does_not_fit_is_counted(self):
        url = f"tcp://127.0.0.1:{free_port()}"
        daemon = self.start(sums() + sink("out", f'type = "zmq-push"\nbind = "{url}"\nfrom = "sums.y"\n'
                                                 'sessions = "good*"\nqueue = "16 KiB"\n'))
        x = numpy.arange(BLOCK, dtype="f4")
        # Clients do not wait for sinks, as sources do.
        wait_until(lambda: json.loads(daemon.ask("/api/v1/status")[1])["shards"][0]["subscriptions"]["open"] == 1,
                   "the sink listens")
        with Client(daemon.url) as client, client.session("sums", name="bad") as bad, \
                client.session("sums", name="good one") as good:
            for _ in range(40):
                bad.submit(x).result()
                good.submit(x).result()
        said = daemon.wait_for("out", lambda each: each["results"]["expected"] == 40, "all have come")
        self.assertGreater(said["results"]["dropped"], 20)
        got = self.pulled(self.socket(zmq.PULL, url), said["results"]["waiting"] * BLOCK)
        numpy.testing.assert_array_equal(got[:BLOCK], summed(x))
        self.stop(daemon)

    def test_a_sink_with_keys_lets_in_those_of_its_list(self):
        own, listed, other = (zmq.curve_keypair() for _ in range(3))
        port = free_port()
        url = f"tcp://127.0.0.1:{port}"
        x = numpy.random.default_rng(8).standard_normal(10 * BLOCK).astype("f4")
        text = sums() + tape() + sink(
            "out", f'type = "zmq-push"\nbind = "tcp://*:{port}"\nfrom = "tape.y"\nsecret_key_file = "own.key"\n'
                   'authorized_keys_file = "list"\n')
        folder = tempfile.TemporaryDirectory()  # a key is its owner's alone
        self.addCleanup(folder.cleanup)
        for name, key in (("own.key", own[1]), ("list", listed[0])):
            path = os.path.join(folder.name, name)
            with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file:
                file.write(key)
            text = text.replace(f'"{name}"', f'"{path}"')
        daemon = self.start(text, {"x.npy": npy(x)})
        bare = self.socket(zmq.PULL, url)
        stranger, friend = (self.socket(zmq.PULL, url, curve_serverkey=own[0], curve_publickey=keys[0],
                                        curve_secretkey=keys[1]) for keys in (other, listed))
        numpy.testing.assert_allclose(self.pulled(friend, len(x)), summed(x), rtol=1e-6, atol=1e-6)
        self.assertEqual((bare.poll(0), stranger.poll(0)), (0, 0))
        self.stop(daemon)


if __name__ == "__main__":
    unittest.main()
