"""Authentication with CURVE keys: who may connect, connection limits, key files and `penstock keygen`."""

import asyncio
import os
import pathlib
import select
import socket
import stat
import subprocess
import tempfile
import time
import unittest
import unittest.mock

from daemon_process import BIN
from guarded_daemon import KEYS, GuardedDaemon, check, configuration, folder_of_keys, keygen

try:
    import numpy as np
    import zmq
except ImportError:
    zmq = None
needs_client = unittest.skipUnless(zmq, "numpy or pyzmq is missing")


class Handshakes(unittest.TestCase):
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

    @needs_client
    def test_environment_stands_for_what_is_not_given_in_python_either(self):
        from penstock import AsyncClient, Client
        from penstock.errors import PenstockError
        given = {"PENSTOCK_URL": self.daemon.url, "PENSTOCK_SERVER_KEY": self.daemon.public("server"),
                 "PENSTOCK_KEY_FILE": str(self.daemon.path / "unlisted.key"), "PENSTOCK_TRANSPORT": "zmq"}
        frame, listed = np.ones(16, np.float32), str(self.daemon.path / "listed.key")

        async def double():
            async with AsyncClient() as client:
                return (await client.submit("double", frame)).array
        with unittest.mock.patch.dict(os.environ, given):
            with Client(key_file=listed) as client:
                np.testing.assert_array_equal(client.submit("double", frame).result().array, 2 * frame)
            os.environ["PENSTOCK_KEY_FILE"] = listed
            np.testing.assert_array_equal(asyncio.run(double()), 2 * frame)
            with self.assertRaisesRegex(PenstockError, "for keys"):  # they are not for an address that is given
                Client(self.daemon.url, connect_timeout=2.0)
            os.environ["PENSTOCK_TRANSPORT"] = "pigeons"
            with self.assertRaisesRegex(ValueError, "not 'pigeons'"):
                Client()

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


class SilentConnections(unittest.TestCase):
    def test_connections_that_never_finish_do_not_hinder_a_client(self):
        with GuardedDaemon(security=KEYS + 'handshake_timeout = "1s"') as daemon:
            host, port = daemon.url[len("tcp://"):].split(":")
            # As many as one address may have at once.
            connections = [socket.create_connection((host, int(port))) for _ in range(100)]
            try:
                for each in connections[::2]:
                    each.sendall(b"\xff\0\0\0\0\0\0\0\1\x7f\3")  # the beginning of a greeting; the others say nothing
                done = daemon.ping()
                self.assertEqual(done.returncode, 0, done.stderr)
                deadline = time.monotonic() + 30
                left = set(connections)
                while left and time.monotonic() < deadline:
                    for each in select.select(list(left), [], [], 1)[0]:
                        if ended(each):
                            left.remove(each)
                self.assertEqual(len(left), 0, "connections that were not closed")
                self.assertGreaterEqual(daemon.handshakes()["refused"]["unfinished"], 100)
                self.assertEqual(daemon.ping().returncode, 0)
            finally:
                for each in connections:
                    each.close()


class KeyFiles(unittest.TestCase):
    """What is refused before anything listens, with exit code 78, the file and its mode."""

    def setUp(self):
        self.path = folder_of_keys(self)

    def check(self, code, *texts, security=KEYS):
        done = check(configuration(security), folder=self.path)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        for text in texts:
            self.assertIn(text, done.stderr)
        return done

    def test_good_ones_pass(self):
        for mode in (0o600, 0o400):
            os.chmod(self.path / "server.key", mode)
            self.check(0)

    def test_secret_key_that_others_can_touch_is_refused(self):
        for bits in (0o040, 0o020, 0o010, 0o004, 0o002, 0o001, 0o044, 0o066, 0o060):
            with self.subTest(mode=oct(0o600 | bits)):
                os.chmod(self.path / "server.key", 0o600 | bits)
                self.check(78, "server.key", f"mode {0o600 | bits:04o}")

    def test_daemon_itself_does_not_start_with_it(self):
        os.chmod(self.path / "server.key", 0o640)
        (self.path / "penstock.toml").write_text(configuration(KEYS))
        done = subprocess.run([BIN / "penstockd", "--config", self.path / "penstock.toml", "--backend", "host",
                               "--listen", f"ipc://{self.path}/data"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 78, done.stderr)
        self.assertIn("mode 0640", done.stderr)
        self.assertFalse((self.path / "data").exists())

    def test_link_to_a_key_that_others_can_read_is_refused(self):
        (self.path / "server.key").rename(self.path / "elsewhere")
        os.chmod(self.path / "elsewhere", 0o644)
        os.symlink("elsewhere", self.path / "server.key")
        self.check(78, "mode 0644")

    @unittest.skipUnless(os.geteuid() == 0, "only root can give files away")
    def test_files_of_somebody_else_are_refused(self):
        for name in ("server.key", "authorized_keys"):
            with self.subTest(name=name):
                os.chown(self.path / name, 12345, -1)
                self.check(78, name, "belongs to user 12345")
                os.chown(self.path / name, 0, -1)

    def test_what_is_no_key_is_refused(self):
        secret = (self.path / "server.key").read_text().split()[-1]
        for text in ("", "# nothing\n", secret[:-1], secret + "x", secret[:-1] + "~", secret + "\n" + secret):
            with self.subTest(text=text):
                (self.path / "server.key").write_text(text)
                done = self.check(78, "server.key", "no secret key")
                self.assertNotIn(secret[:-1], done.stderr)

    def test_what_is_no_file_is_refused_without_waiting(self):
        (self.path / "server.key").unlink()
        self.check(78, "server.key", "No such file")
        os.mkfifo(self.path / "server.key", 0o600)
        self.check(78, "no regular file")
        (self.path / "server.key").unlink()
        (self.path / "server.key").mkdir(0o700)
        self.check(78, "Is a directory")

    def test_key_in_a_folder_that_others_can_write_is_refused(self):
        folder = self.path / "keys"
        folder.mkdir(0o700)
        (self.path / "server.key").rename(folder / "server.key")
        elsewhere = KEYS.replace('"server.key"', '"keys/server.key"')
        for mode, code in ((0o700, 0), (0o755, 0), (0o770, 78), (0o707, 78), (0o1777, 0), (0o755, 0)):
            with self.subTest(mode=oct(mode)):
                os.chmod(folder, mode)
                self.check(code, *(["keys", f"mode {mode:04o}"] if code else []), security=elsewhere)
        os.chmod(self.path, 0o777)  # further up
        self.check(78, "server.key", "mode 0777", security=elsewhere)
        os.chmod(self.path, 0o700)
        # By a link: the folder where it lies counts, and the one that it leads to.
        (self.path / "links").mkdir(0o700)
        os.symlink(folder / "server.key", self.path / "links" / "server.key")
        linked = KEYS.replace('"server.key"', '"links/server.key"')
        self.check(0, security=linked)
        for which in ("links", "keys"):
            os.chmod(self.path / which, 0o777)
            self.check(78, which, "mode 0777", security=linked)
            os.chmod(self.path / which, 0o700)

    @unittest.skipUnless(os.geteuid() == 0, "only root can give folders away")
    def test_key_in_a_folder_of_somebody_else_is_refused(self):
        folder = self.path / "keys"
        folder.mkdir(0o755)
        (self.path / "server.key").rename(folder / "server.key")
        os.chown(folder, 12345, -1)
        self.check(78, "keys", "belongs to user 12345", security=KEYS.replace('"server.key"', '"keys/server.key"'))

    def test_list_that_others_can_write_is_refused(self):
        for bits in (0o020, 0o002, 0o022):
            os.chmod(self.path / "authorized_keys", 0o644 | bits)
            self.check(78, "authorized_keys", f"mode {0o644 | bits:04o}")

    def test_list_with_a_mistake_is_refused_with_its_line(self):
        good = (self.path / "authorized_keys").read_text()
        for text, line in (("# x\nnonsense\n", 2), (good + "\n" + good, 3), (good.strip()[:39] + " name\n", 1)):
            with self.subTest(text=text):
                (self.path / "authorized_keys").write_text(text)
                self.check(78, f"authorized_keys:{line}:")
        (self.path / "authorized_keys").write_text("# nobody\n")
        self.check(78, "holds no key")

    def test_one_without_the_other_is_refused(self):
        self.check(78, "security.secret_key_file", security='secret_key_file = "server.key"')
        self.check(78, "security.authorized_keys_file", security='authorized_keys_file = "authorized_keys"')


class Keygen(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="penstock-")
        self.addCleanup(folder.cleanup)
        self.file = pathlib.Path(folder.name) / "a.key"

    def test_file_is_the_owners_alone_whatever_the_umask(self):
        before = os.umask(0)
        self.addCleanup(os.umask, before)
        keygen(self.file)
        self.assertEqual(stat.S_IMODE(self.file.stat().st_mode), 0o600)

    def test_nothing_is_overwritten_without_force(self):
        keygen(self.file)
        text = self.file.read_text()
        with self.assertRaises(subprocess.CalledProcessError) as refused:
            keygen(self.file)
        self.assertIn("--force", refused.exception.stderr)
        self.assertEqual(self.file.read_text(), text)
        keygen(self.file, "--force")
        self.assertNotEqual(self.file.read_text(), text)
        self.assertEqual(stat.S_IMODE(self.file.stat().st_mode), 0o600)

    def test_public_key_is_that_of_the_file(self):
        line = keygen(self.file)
        shown = subprocess.run([BIN / "penstock", "keygen", "--show", self.file], capture_output=True, text=True)
        self.assertEqual(shown.stdout.strip(), line.split()[0])
        self.assertEqual(line.split()[1], "a")

    def test_client_refuses_a_key_that_others_can_read(self):
        public = keygen(self.file).split()[0]
        os.chmod(self.file, 0o640)
        done = subprocess.run([BIN / "penstock", "--server-key", public, "--key-file", self.file, "ping"],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("mode 0640", done.stderr)
        if zmq:
            from penstock import Client
            with self.assertRaisesRegex(ValueError, "mode 0640"):
                Client("tcp://127.0.0.1:1", server_key=public, key_file=str(self.file))

    def test_client_does_not_wait_for_a_pipe(self):
        public = keygen(self.file).split()[0]
        self.file.unlink()
        os.mkfifo(self.file, 0o600)
        done = subprocess.run([BIN / "penstock", "--server-key", public, "--key-file", self.file, "ping"],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertIn("no regular file", done.stderr)
        if zmq:
            from penstock import Client
            with self.assertRaisesRegex(ValueError, "no regular file"):
                Client("tcp://127.0.0.1:1", server_key=public, key_file=str(self.file))

    def test_client_wants_both_keys(self):
        public = keygen(self.file).split()[0]
        for words in (["--server-key", public], ["--key-file", self.file], ["--server-key", "x", "--key-file", self.file]):
            done = subprocess.run([BIN / "penstock", *words, "ping"], capture_output=True, text=True)
            self.assertEqual(done.returncode, 1)
            self.assertIn("key", done.stderr)


if __name__ == "__main__":
    unittest.main()
