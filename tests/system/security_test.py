"""Who gets in by a daemon that asks for keys, who does not, and crowds at its door."""

import select
import socket
import time
import unittest

from guarded_daemon import KEYS, GuardedDaemon

try:
    import numpy as np
    import zmq
except ImportError:
    zmq = None
needs_client = unittest.skipUnless(zmq, "numpy or pyzmq is missing")


class Door(unittest.TestCase):
    """A daemon that asks for keys, over TCP."""

    @classmethod
    def setUpClass(cls):
        cls.daemon = GuardedDaemon(clients="credit_requests = 8", daemon='log_level = "trace"')

    @classmethod
    def tearDownClass(cls):
        cls.daemon.close()

    def refused(self, reason):
        return self.daemon.handshakes()["refused"][reason]

    def test_listed_key_gets_in_by_the_command_line(self):
        done = self.daemon.ping()
        self.assertEqual(done.returncode, 0, done.stderr)

    @needs_client
    def test_listed_key_gets_in_by_python_and_computes(self):
        with self.daemon.client() as client:
            result = client.submit("double", np.arange(16, dtype=np.float32)).result()
        np.testing.assert_array_equal(result.array, 2 * np.arange(16, dtype=np.float32))

    def test_unlisted_key_is_refused_at_once_and_counted(self):
        before = self.refused("unlisted_key")
        done = self.daemon.ping(key="unlisted", timeout="20s")
        self.assertEqual(done.returncode, 1)
        self.assertIn("authorized_keys_file", done.stderr)
        self.assertEqual(self.refused("unlisted_key"), before + 1)

    @needs_client
    def test_unlisted_key_is_refused_in_python(self):
        from penstock.errors import Rejected
        with self.assertRaisesRegex(Rejected, "authorized_keys_file"):
            self.daemon.client(key="unlisted", connect_timeout=20.0)

    def test_plain_text_is_refused_and_counted(self):
        before = sum(self.daemon.handshakes()["refused"].values())
        done = self.daemon.ping(key=None, timeout="2s")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "(it asks|does the daemon ask) for keys")
        self.assertGreater(sum(self.daemon.handshakes()["refused"].values()), before)

    @needs_client
    def test_plain_text_is_refused_in_python(self):
        from penstock.errors import PenstockError
        with self.assertRaisesRegex(PenstockError, "(it asks|does the daemon ask) for keys"):
            self.daemon.client(key=None, connect_timeout=2.0)

    @needs_client
    def test_plain_text_gets_no_byte_of_an_answer(self):
        from penstock import wire
        context = zmq.Context()
        peer = context.socket(zmq.DEALER)
        before = sum(self.daemon.handshakes()["refused"].values())
        peer.connect(self.daemon.url)
        try:
            peer.send(wire.encode_header(wire.Header(wire.MessageType.PING, 1)))
            deadline = time.monotonic() + 20
            while sum(self.daemon.handshakes()["refused"].values()) == before:
                self.assertLess(time.monotonic(), deadline)
            self.assertEqual(peer.poll(0), 0)
        finally:
            context.destroy(linger=0)

    def test_greeting_in_plain_text_is_counted_as_such_and_cut_off(self):
        before = self.refused("wrong_mechanism")
        host, port = self.daemon.url[len("tcp://"):].split(":")
        with socket.create_connection((host, int(port)), timeout=20) as peer:
            peer.sendall(b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32))
            answer = b""
            try:
                while piece := peer.recv(4096):
                    answer += piece
            except ConnectionResetError:
                pass
        self.assertLessEqual(len(answer), 64, "more than a greeting")
        deadline = time.monotonic() + 20
        while self.refused("wrong_mechanism") == before:
            self.assertLess(time.monotonic(), deadline)

    def test_daemon_with_another_key_is_not_trusted(self):
        done = self.daemon.ping(server="other", timeout="2s")
        self.assertEqual(done.returncode, 1)
        self.assertIn("is the server key the daemon's", done.stderr)
        self.assertGreater(self.refused("wrong_server_key"), 0)

    @needs_client
    def test_daemon_with_another_key_is_not_trusted_in_python(self):
        from penstock.errors import Expired
        started = time.monotonic()
        with self.assertRaisesRegex(Expired, "is server_key the daemon's"):
            self.daemon.client(server="other", connect_timeout=1.0)
        self.assertLess(time.monotonic() - started, 10)

    @needs_client
    def test_another_daemon_cannot_pass_for_this_one(self):
        with GuardedDaemon(security=KEYS.replace("server.key", "other.key"), start=False) as impostor:
            (impostor.path / "authorized_keys").write_text(self.daemon.lines["listed"] + "\n")  # it lets the client in
            impostor.start(wait=False)
            from penstock import Client
            from penstock.errors import Expired
            mine = {"key_file": str(self.daemon.path / "listed.key"), "connect_timeout": 20.0}
            with Client(impostor.url, server_key=impostor.public("other"), **mine):
                pass
            with self.assertRaises(Expired):
                Client(impostor.url, server_key=self.daemon.public("server"), **{**mine, "connect_timeout": 1.0})

    @needs_client
    def test_stranger_gets_no_status(self):
        from penstock import wire
        context = zmq.Context()
        peer = context.socket(zmq.DEALER)
        public, secret = self.daemon.public("server"), (self.daemon.path / "listed.key").read_text().split()[-1]
        peer.curve_serverkey, peer.curve_secretkey = public.encode(), secret.encode()
        peer.curve_publickey = zmq.curve_public(secret.encode())
        peer.connect(self.daemon.url)
        try:
            peer.send(wire.encode_header(wire.Header(wire.MessageType.GET_STATUS, 7)))
            self.assertTrue(peer.poll(20000))
            header = wire.decode_header(peer.recv_multipart()[0])
            self.assertEqual((header.type, header.status), (wire.MessageType.ERROR, wire.Status.HELLO_REQUIRED))
        finally:
            context.destroy(linger=0)

    @needs_client
    def test_log_holds_no_key_and_no_payload(self):
        marker = b"payload-of-a-test" + bytes(47)
        with self.daemon.client() as client:
            client.submit("double", np.frombuffer(marker, np.float32)).result()
        self.daemon.ping(key="unlisted")
        self.daemon.ping(key=None)
        self.daemon.ping(server="other", timeout="500ms")
        log = self.daemon.log.read_bytes()
        self.assertIn(b"refused a connection", log)
        self.assertNotIn(b"payload-of-a-test", log)
        for name in ("server", "listed", "unlisted", "other"):
            self.assertNotIn(self.daemon.public(name).encode(), log)
            self.assertNotIn((self.daemon.path / f"{name}.key").read_bytes().split()[-1], log)


@needs_client
class Shards(unittest.TestCase):
    def test_clients_find_their_shard_with_the_same_keys(self):
        with GuardedDaemon(url=lambda path: f"ipc://{path}/data", device="shards = 2") as daemon:
            clients = [daemon.client() for _ in range(4)]
            shards = {client.status()["shard"] for client in clients}
            for client in clients:
                client.submit("double", np.ones(16, np.float32)).result()
                client.close()
            self.assertEqual(shards, {0, 1})


def ended(peer):
    """Whether the other side has closed a connection that has something to read."""
    try:
        return peer.recv(4096) == b""
    except ConnectionResetError:
        return True


class Crowd(unittest.TestCase):
    def test_connections_that_never_finish_do_not_hinder_a_client(self):
        with GuardedDaemon(security=KEYS + 'handshake_timeout = "1s"') as daemon:
            host, port = daemon.url[len("tcp://"):].split(":")
            # As many as one address may have at once.
            crowd = [socket.create_connection((host, int(port))) for _ in range(100)]
            try:
                for each in crowd[::2]:
                    each.sendall(b"\xff\0\0\0\0\0\0\0\1\x7f\3")  # the beginning of a greeting; the others say nothing
                done = daemon.ping()
                self.assertEqual(done.returncode, 0, done.stderr)
                deadline = time.monotonic() + 30
                left = set(crowd)
                while left and time.monotonic() < deadline:
                    for each in select.select(list(left), [], [], 1)[0]:
                        if ended(each):
                            left.remove(each)
                self.assertEqual(len(left), 0, "connections that were not closed")
                self.assertGreaterEqual(daemon.handshakes()["refused"]["unfinished"], 100)
                self.assertEqual(daemon.ping().returncode, 0)
            finally:
                for each in crowd:
                    each.close()


if __name__ == "__main__":
    unittest.main()
