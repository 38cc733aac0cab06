"""Memory that a peer can make the daemon use before its HELLO, or with a message that never ends."""

import contextlib
import os
import socket
import struct
import subprocess
import time
import unittest
from unittest import mock

import numpy

from attack import LONG, resident_bytes
from daemon_process import BIN, VERSION, Daemon, free_port, pipeline, wait_until
from guarded_daemon import folder_of_keys

PIPELINE = pipeline("scale", "f32", [16], [("y", "affine", "a = 2.0\n")], ["y"])
MIB = 1 << 20
STRANGERS = 60 if LONG else 24
# Of all strangers together 16 MiB; the rest is what their connections cost and what malloc keeps.
MOST_GAINED = 96 * MIB
GREETING = b"\xff" + b"\0" * 8 + b"\x7f\x03\x00"


def greeting(mechanism):
    return GREETING + mechanism.ljust(20, b"\0") + b"\0" * 32


def ready(identity=None):
    """The READY of a DEALER."""
    body = b"\x05READY" + b"\x0bSocket-Type" + struct.pack(">I", 6) + b"DEALER"
    if identity is not None:
        body += b"\x08Identity" + struct.pack(">I", len(identity)) + identity
    return b"\x04" + bytes([len(body)]) + body


class TcpDaemon(Daemon):
    def start(self):
        self.url = f"tcp://127.0.0.1:{free_port()}"
        super().start()


class Stranger:
    """Sends what a test gives it until the daemon closes the connection, or `most` has been sent."""

    def __init__(self, url, begin, answer=b""):
        address = url.partition("://")[2]
        if url.startswith("ipc"):
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.connect(address)
        else:
            self.socket = socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])))
        self.socket.settimeout(20)
        self.socket.sendall(begin)
        came = b""
        while answer not in came:
            came += self.socket.recv(4096)

    def send(self, block, most):
        """How much was taken before the connection ended."""
        sent = 0
        with contextlib.suppress(OSError):
            while sent < most:
                self.socket.sendall(block)
                sent += len(block)
        return sent

    def is_closed(self):
        """Reads what comes until the end of the connection."""
        try:
            while self.socket.recv(65536):
                pass
        except ConnectionError:
            pass
        except socket.timeout:
            return False
        return True


class BeforeHelloTest(unittest.TestCase):
    def kept(self, daemon):
        def stop():
            self.assertEqual(daemon.end(), 0)
            daemon.folder.cleanup()
        self.addCleanup(stop)
        wait_until(lambda: daemon.ask("/readyz")[0] == 200, "ready")
        return daemon

    def assert_bounded(self, daemon, attack):
        """`attack` is a call that ends by itself; memory is bounded while it runs and comes back."""
        base = resident_bytes(daemon.process.pid)
        most = base
        end = time.monotonic() + LONG
        while True:
            for each in attack():
                each()
                most = max(most, resident_bytes(daemon.process.pid))
            if time.monotonic() >= end:
                break
        print(f"resident: {base / MIB:.0f} MiB, at most {most / MIB:.0f} MiB", flush=True)
        self.assertLess(most - base, MOST_GAINED)
        wait_until(lambda: resident_bytes(daemon.process.pid) - base < 32 * MIB, "memory is back", 10)
        daemon.cli("--timeout", "60s", "ping")

    def strangers(self, daemon, begin, answer, block, most):
        """Steps of an attack: connections that all stay open, and what each can send."""
        with contextlib.ExitStack() as ends:
            all_of_them = []

            def connect():
                all_of_them.append(Stranger(daemon.url, begin, answer))
                ends.enter_context(all_of_them[-1].socket)
            for _ in range(STRANGERS):
                yield connect
            for each in all_of_them:
                yield lambda each=each: self.assertLess(each.send(block, most), most)

    def test_without_a_key_a_stranger_cannot_send_much(self):
        keys = folder_of_keys(self)
        server = subprocess.run([BIN / "penstock", "keygen", "--show", keys / "server.key"], capture_output=True,
                                text=True, check=True).stdout.split()[0]
        with mock.patch.dict(os.environ, PENSTOCK_KEY_FILE=str(keys / "client.key"), PENSTOCK_SERVER_KEY=server):
            daemon = self.kept(TcpDaemon("host", "callback", VERSION + "[security]\n"
                                         + f'secret_key_file = "{keys / "server.key"}"\n'
                                         + f'authorized_keys_file = "{keys / "authorized_keys"}"\n' + PIPELINE))
            # One command of 31 MiB, which libzmq takes in before it looks at it.
            frame = greeting(b"CURVE") + b"\x06" + struct.pack(">Q", 31 * MIB)
            self.assert_bounded(daemon, lambda: self.strangers(daemon, frame, b"", bytes(MIB), 31 * MIB))

    def test_a_message_without_an_end_is_cut(self):
        for kind in (TcpDaemon, Daemon):
            with self.subTest(kind=kind.__name__):
                daemon = self.kept(kind("host", "callback", VERSION + '[clients]\nmax_request_bytes = "4 MiB"\n'
                                          + PIPELINE))
                begin = greeting(b"NULL") + ready()
                part = b"\x03" + struct.pack(">Q", 65536) + bytes(65536)
                self.assert_bounded(daemon, lambda: self.strangers(daemon, begin, b"READY", part, 64 * MIB))
                tiny = b"\x01\x01x" * 20000
                self.assert_bounded(daemon, lambda: self.strangers(daemon, begin, b"READY", tiny, 64 * MIB))
                wait_until(lambda: " cut " in daemon.log.read_text(), "a line in the log")

    def test_a_client_that_ends_no_message_is_cut_too(self):
        from penstock import wire
        daemon = self.kept(TcpDaemon("host", "callback", VERSION + '[clients]\ncredit_bytes = "4 MiB"\n'
                                     + 'max_request_bytes = "4 MiB"\n' + PIPELINE))
        hello = wire.encode_header(wire.Header(wire.MessageType.HELLO, 1))
        body = b'{"client": "endless", "version": "1", "inline_bytes": 0}'
        client = Stranger(daemon.url, greeting(b"NULL") + ready(b"\1endless"), b"READY")
        with client.socket:
            client.socket.sendall(b"\x01" + bytes([len(hello)]) + hello + b"\x00" + bytes([len(body)]) + body)
            self.assertIn(b"penstockd", client.socket.recv(65536))  # WELCOME
            part = b"\x03" + struct.pack(">Q", MIB) + bytes(MIB)
            self.assertLess(client.send(part, 512 * MIB), 128 * MIB)
        daemon.cli("--timeout", "60s", "ping")

    def test_a_client_may_send_much_more(self):
        from penstock import Client
        daemon = self.kept(TcpDaemon("host", "callback", VERSION + pipeline(
            "large", "f32", [1 << 20], [("y", "affine", "a = 2.0\n")], ["y"], "batch = { max_frames = 1 }\n")))
        frames = numpy.ones((1, 1 << 20), numpy.float32)
        with Client(daemon.url) as client:
            waiting = [client.submit("large", frames) for _ in range(32)]
            for each in waiting:
                self.assertEqual(each.result(120)["y"][0, 0], 2)
        self.assertIn("penstock_connections_cut_total 0", daemon.ask("/metrics")[1])

    def test_a_routing_id_that_the_daemon_might_give_is_refused(self):
        daemon = self.kept(TcpDaemon("host", "callback", VERSION + PIPELINE))
        for identity in (b"\0\1\2\3\4", b"\0\0\0\0\0"):
            whole = greeting(b"NULL") + ready(identity)
            for cut in (len(whole), 64, 75, len(whole) - 6, len(whole) - 1):
                with self.subTest(identity=identity, cut=cut):
                    stranger = Stranger(daemon.url, whole[:cut])
                    with stranger.socket, contextlib.suppress(ConnectionError):
                        stranger.socket.sendall(whole[cut:])
                        self.assertTrue(stranger.is_closed())
        for identity in (None, b"\1\2\3\4\5", b"\0\1\2\3"):
            with self.subTest(identity=identity):
                welcome = Stranger(daemon.url, greeting(b"NULL") + ready(identity), b"READY")
                welcome.socket.settimeout(0.5)
                with welcome.socket:
                    self.assertFalse(welcome.is_closed())
        old = Stranger(daemon.url, b"\x01\x00")  # ZMTP 1: an empty routing id
        with old.socket:
            self.assertTrue(old.is_closed())
        daemon.cli("--timeout", "60s", "ping")


if __name__ == "__main__":
    unittest.main()
