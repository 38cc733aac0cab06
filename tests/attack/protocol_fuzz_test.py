"""Messages that nobody would send, from many connections to one daemon: right headers with some fields changed, bodies,
sessions, parts left out or added. A good client beside them is served, and the account balances.

PENSTOCK_FUZZ_MESSAGES says how many, PENSTOCK_ATTACK_SECONDS for how long; PENSTOCK_SEED repeats a run."""

import os
import pathlib
import random
import struct
import time
import unittest

import numpy
import zmq

from attack import LONG
from daemon_process import VERSION, Daemon, pipeline, wait_until
from penstock import Client, wire
from penstock.wire import MessageType

CONFIGURATION = (VERSION + '[clients]\nmax_request_bytes = "64 KiB"\n'
                 + pipeline("plain", "cu8", [4], [("iq", "convert", ""), ("y", "magnitude", "")], ["y"],
                            "batch = { max_frames = 16 }\n")
                 + pipeline("state", "cf32", [20], [("y", "fir", "taps = [1.0, 2.0]\n")], ["y"]))
MESSAGES = int(os.environ.get("PENSTOCK_FUZZ_MESSAGES", 10000 if not LONG else 10**9))
# A connection earns little time for what is no request: each sends some messages, and another one comes.
OF_A_CONNECTION = 50
# What a client may send.
CLIENTS = (1, 3, 4, 6, 8, 10, 12, 14, 16, 17, 18)
SEEDS = pathlib.Path(__file__).resolve().parent.parent / "fuzz" / "seeds"
LIMITS = (0, 1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
# Of a header, and of the tensor header behind it: offset and form.
FIELDS = ((4, "B"), (5, "B"), (6, "<H"), (8, "<Q"), (16, "<Q"), (24, "<I"), (28, "<I"), (32, "<Q"), (40, "<H"),
          (42, "<H"), (44, "<I"), (64, "B"), (65, "B"), (66, "<H"), (68, "B"), (72, "<Q"), (80, "<q"), (88, "<q"),
          (96, "<q"))


def read_seeds():
    """Messages as lists of parts: what a client sends, and what a daemon would."""
    found = []
    for path in sorted(SEEDS.iterdir()):
        data = path.read_bytes()
        count, head = struct.unpack_from("<BH", data)
        found.append([data[3:3 + head]] + ([data[3 + head:]] if count > 1 else []))
    return found


class Fuzzer:
    """One connection after the other, each with a routing id of its own."""

    def __init__(self, url, chance):
        self.url, self.chance = url, chance
        seeds = read_seeds()
        self.seeds = [each for each in seeds if each[0][5] in CLIENTS]
        self.daemons = [each for each in seeds if each[0][5] not in CLIENTS]
        self.context = zmq.Context()
        self.number = 0
        self.session = 0

    def connect(self):
        socket = self.context.socket(zmq.DEALER)
        socket.setsockopt(zmq.LINGER, 200)
        socket.connect(self.url)
        self.session = 0
        if self.chance.random() < 0.9:
            hello = wire.encode_header(wire.Header(MessageType.HELLO, 1))
            socket.send_multipart([hello, b'{"client":"fuzz","version":"1","inline_bytes":4096}'])
        if self.chance.random() < 0.5:
            opening = wire.encode_header(wire.Header(MessageType.OPEN_SESSION, 2))
            socket.send_multipart([opening, b'{"pipeline":1,"name":"s"}'])
        return socket

    def take_in(self, socket):
        """Reads what has come, and learns of sessions."""
        try:
            while True:
                head = socket.recv_multipart(zmq.DONTWAIT)[0]
                if head[5] == MessageType.SESSION_OPENED:
                    self.session = struct.unpack_from("<I", head, 28)[0]
        except zmq.Again:
            pass

    def wait_for_pong(self, socket):
        """Until the daemon has taken in what was sent; a connection that it has ended gives no answer."""
        ping = wire.encode_header(wire.Header(MessageType.PING, (1 << 64) - 3))
        socket.send(ping)
        while socket.poll(500):
            head = socket.recv_multipart()[0]
            if head[5] == MessageType.PONG and head[8:16] == ping[8:16]:
                return

    def changed(self, parts):
        parts = [bytearray(part) for part in parts]
        self.number += 1
        if len(parts[0]) >= 64:
            struct.pack_into("<Q", parts[0], 8, self.number if self.chance.random() < 0.9 else self.number // 2)
            if self.chance.random() < 0.5:
                struct.pack_into("<I", parts[0], 24, self.chance.choice((0, 0, 1, 1, 2)))
            if self.chance.random() < 0.3:
                struct.pack_into("<I", parts[0], 28, self.session)
        for _ in range(self.chance.choice((0, 1, 1, 2, 3))):
            self.change(parts)
        return [bytes(part) for part in parts]

    def change(self, parts):
        part = self.chance.choice(parts)
        what = self.chance.randrange(7)
        if what <= 1:
            offset, form = self.chance.choice(FIELDS)
            size = struct.calcsize(form)
            if len(parts[0]) >= offset + size:
                value = self.chance.choice(LIMITS) & ((1 << (8 * size)) - 1)
                parts[0][offset:offset + size] = value.to_bytes(size, "little")
        elif what == 2 and part:
            part[self.chance.randrange(len(part))] = self.chance.randrange(256)
        elif what == 3 and part:
            del part[self.chance.randrange(len(part)):]
        elif what == 4:
            part.extend(self.chance.randbytes(self.chance.choice((1, 16, 80, 5000))))
        elif what == 5:
            parts.append(bytearray(self.chance.randbytes(self.chance.choice((0, 8, 32)))))
        elif what == 6 and len(parts) > 1:
            parts.pop()

    def run(self, messages, seconds, meanwhile):
        """So many messages, or as many as that time allows. Returns how many there were."""
        end, sent = time.monotonic() + seconds, 0
        for first in range(0, messages, OF_A_CONNECTION):
            if time.monotonic() > end:
                break
            socket = self.connect()
            for _ in range(min(OF_A_CONNECTION, messages - first)):
                try:
                    seeds = self.seeds if self.chance.random() < 0.95 else self.daemons
                    socket.send_multipart(self.changed(self.chance.choice(seeds)), zmq.DONTWAIT)
                    sent += 1
                except zmq.Again:
                    time.sleep(0.001)
            self.wait_for_pong(socket)
            if self.chance.random() < 0.7:
                socket.send(wire.encode_header(wire.Header(MessageType.GOODBYE)))
            socket.close()
            if first // OF_A_CONNECTION % 20 == 0:
                meanwhile()
        return sent


class ProtocolFuzzTest(unittest.TestCase):
    def test_nothing_that_is_sent_disturbs_a_good_client(self):
        seed = int(os.environ.get("PENSTOCK_SEED", random.SystemRandom().randrange(1 << 32)))
        print(f"seed {seed} (PENSTOCK_SEED repeats it)", flush=True)
        daemon = Daemon("host", "callback", CONFIGURATION)
        self.addCleanup(lambda: daemon.stop() if daemon.process.poll() is None else None)
        frame = numpy.arange(20, dtype=numpy.complex64)
        with Client(daemon.url, timeout=60, retry_after=60) as good:
            with good.session("state") as session:
                expected = [2 * frame[each - 1] * (each > 0) + frame[each] for each in range(20)]
                self.assertEqual(session.submit(frame).result()["y"].ravel().tolist(), expected)

                def serve():
                    again = session.submit(frame).result()["y"].ravel().tolist()
                    self.assertEqual(again[1:], expected[1:])

                fuzzer = Fuzzer(daemon.url, random.Random(seed))
                print(f"{fuzzer.run(MESSAGES, LONG or 600, serve)} messages sent", flush=True)
                fuzzer.context.destroy(linger=0)
                serve()
            self.assertIsNone(daemon.process.poll(), daemon.log.read_text()[-2000:])

            def settled():
                status = good.status(30)
                return status if status["requests"]["in_flight"] == 0 else None
            status = wait_until(settled, "nothing in flight", 60)
            self.assertTrue(status["balanced"], status)
            print({key: status[key] for key in ("received", "requests", "refused", "control")}, flush=True)
            self.assertGreater(len(status["refused"]), 3, status["refused"])
        code, log = daemon.stop()
        self.assertEqual(code, 0, log[-2000:])


if __name__ == "__main__":
    unittest.main()
