"""Addresses of daemons and of shards, and errors while connecting."""
import os
import socket
import tempfile
import threading
import time
import unittest
from unittest import mock

from scripted_router import IMPATIENT_S, PATIENCE_S, Router, RouterTest, TOKEN, iq, welcome

import penstock
from penstock import Client, control
from penstock.endpoint import better_endpoint, inspect_endpoint, parse
from penstock.wire import MessageType


#: How long the tests have a client wait, and what "at once" is beside that on a machine that does much else.
PATIENT_S, AT_ONCE_S = 60, 30


class Addresses(unittest.TestCase):
    def test_what_can_be_no_address_is_refused_with_what_is_wrong(self):
        for url, wanted in (
                ("tcp://127.0.0.1:99999", "port '99999'; a port is a number from 1 to 65535"),
                ("tcp://127.0.0.1:0", "port '0'"), ("tcp://127.0.0.1:-1", "port '-1'"),
                ("tcp://127.0.0.1:7600/", "port '7600/'"), ("tcp://127.0.0.1", "no port"), ("tcp://:7600", "no host"),
                ("tcp://*:7600", "where a daemon listens"), ("http://127.0.0.1:7680", "no transport 'http'"),
                ("127.0.0.1:7600", r"no address.*did you mean tcp://127\.0\.0\.1:7600\?"), ("nonsense", "no address"),
                ("", "no address"), ("ipc://", "no socket"), ("ipc://" + 200 * "x", "at most 107")):
            with self.subTest(url=url), self.assertRaisesRegex(ValueError, wanted):
                Client(url)
        with self.assertRaisesRegex(TypeError, "a url is a str"):
            Client(b"tcp://127.0.0.1:7600")

    def test_addresses_are_read_as_ZeroMQ_does(self):
        self.assertEqual(parse("tcp://gpu.lab:7600"), ("tcp", "gpu.lab", 7600, ""))
        self.assertEqual(parse("tcp://[::1]:7600"), ("tcp", "::1", 7600, ""))
        self.assertEqual(parse("tcp://eth0:0;gpu.lab:7600"), ("tcp", "gpu.lab", 7600, ""))
        self.assertEqual(parse("ipc:///run/penstock/data"), ("ipc", "", 0, "/run/penstock/data"))
        self.assertEqual(parse("ipc://@penstock").path, "@penstock")


class NobodyThere(unittest.TestCase):
    def setUp(self):
        patience = mock.patch("penstock.client._CONNECT_S", PATIENT_S)
        patience.start()
        self.addCleanup(patience.stop)

    def refusal_of(self, url, **options):
        """What the constructor raises, which comes at once."""
        began = time.monotonic()
        with self.assertRaises(penstock.PenstockError) as caught:
            Client(url, **options)
        self.assertLess(time.monotonic() - began, AT_ONCE_S)
        return caught.exception

    def listener(self):
        listening = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listening.close)
        return listening, f"tcp://127.0.0.1:{listening.getsockname()[1]}"

    def test_a_refused_connection_is_said_with_its_address(self):
        listening, url = self.listener()
        listening.close()
        error = self.refusal_of(url)
        self.assertIsInstance(error, penstock.Unreachable)
        self.assertIsInstance(error, penstock.Expired)
        self.assertIn(url, str(error))
        self.assertRegex(str(error), "the connection is refused.*is penstockd running")

    def test_a_name_that_does_not_exist_is_said_whatever_the_time_to_wait(self):
        with self.name_server(socket.gaierror(socket.EAI_NONAME, "Name or service not known")):
            for options in ({}, {"connect_timeout": PATIENT_S}):
                error = self.refusal_of("tcp://no-such-machine.invalid:7600", **options)
                self.assertRegex(str(error), "no-such-machine.invalid.*can't be resolved")

    def test_a_name_server_that_is_away_is_said_as_soon_as_that_nobody_listens(self):
        with self.name_server(socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")):
            self.assertRegex(str(self.refusal_of("tcp://gpu.invalid:7600")), "can't be resolved.*Temporary failure")
            began = time.monotonic()
            self.refusal_of("tcp://gpu.invalid:7600", connect_timeout=1.5)
            self.assertGreaterEqual(time.monotonic() - began, 1.5)

    def name_server(self, error):
        return mock.patch("penstock.endpoint.socket.getaddrinfo", side_effect=error)

    def test_a_socket_that_does_not_exist_is_said(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertRegex(str(self.refusal_of(f"ipc://{folder}/data")), "there is no such socket")
            gone = socket.socket(socket.AF_UNIX)
            gone.bind(f"{folder}/gone")
            gone.close()
            self.assertRegex(str(self.refusal_of(f"ipc://{folder}/gone")), "the daemon that made the socket is gone")
            if os.geteuid() != 0:
                os.chmod(folder, 0)
                self.assertRegex(str(self.refusal_of(f"ipc://{folder}/data")), "permission denied")
                os.chmod(folder, 0o700)

    def test_what_is_no_ZeroMQ_is_said(self):
        listening, url = self.listener()

        def talk():
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
                connection.close()
        talking = threading.Thread(target=talk)
        talking.start()
        try:
            self.assertRegex(str(self.refusal_of(url)), "is no ZeroMQ.*7680")
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            talking.join()

    def test_one_that_says_nothing_is_said_at_the_end_of_the_time(self):
        _, url = self.listener()
        self.assertRegex(str(self.refusal_of(url, connect_timeout=0.6)), "within 0.6.*nothing is said over it")

    def test_who_says_how_long_waits_for_a_daemon_that_is_starting(self):
        listening, url = self.listener()
        listening.close()
        began = time.monotonic()
        with self.assertRaisesRegex(penstock.Unreachable, "refused"):
            Client(url, connect_timeout=2)
        self.assertGreaterEqual(time.monotonic() - began, 2)


class SomebodyThere(RouterTest):
    def test_a_peer_that_sends_no_welcome_is_said(self):
        with self.assertRaisesRegex(penstock.Unreachable, "no daemon answered at .* sends no welcome"):
            Client(self.router.url, connect_timeout=0.5)

    def test_a_daemon_that_is_slow_to_welcome_is_waited_for(self):
        connecting = self.aside(Client, self.router.url, connect_timeout=PATIENCE_S)
        hello = self.router.expect(MessageType.HELLO)
        time.sleep(0.8)  # it has looked by then
        self.router.send_header(hello, MessageType.WELCOME, control.encode(welcome()))
        self.wait(connecting).close()

    def test_a_look_at_a_daemon_finds_nothing_wrong(self):
        self.assertEqual(inspect_endpoint(self.router.url, False, time.monotonic() + PATIENCE_S), ("", False, False, False))
        self.assertIn("asks for no keys", inspect_endpoint(self.router.url, True, time.monotonic() + PATIENCE_S).text)


class Choice(unittest.TestCase):
    def test_the_endpoint_is_the_one_at_the_same_place(self):
        shards = (("tcp://*:7600", "tcp://10.0.0.1:7700", "ipc:///run/p/0"),
                  ("tcp://*:7601", "tcp://10.0.0.1:7701", "ipc:///run/p/1"))
        for url, expected in (("tcp://127.0.0.1:7600", "tcp://127.0.0.1:7601"),
                              ("tcp://gpu.example:7600", "tcp://gpu.example:7601"),
                              ("tcp://[::1]:7600", "tcp://[::1]:7601"),
                              ("tcp://10.0.0.1:7700", "tcp://10.0.0.1:7701"), ("ipc:///run/p/0", "ipc:///run/p/1")):
            with self.subTest(url):
                self.assertEqual(better_endpoint(welcome(shard=1, shards=shards), url), expected)

    def test_else_it_is_the_first_with_the_same_transport(self):
        for there, url, expected in (
                (("ipc:///run/p/1", "tcp://0.0.0.0:7601", "tcp://*:7602"), "tcp://gpu:7", "tcp://gpu:7601"),
                (("tcp://*:7601", "ipc:///run/p/1"), "ipc:///tmp/link", "ipc:///run/p/1"),
                (("tcp://*:7601",), "ipc:///tmp/link", None), ((), "tcp://gpu:7600", None),
                (("tcp://10.0.0.1:7601",), "tcp://gpu:7601", "tcp://10.0.0.1:7601")):
            with self.subTest(url, there=there):
                shards = (("tcp://*:7600",), there)
                self.assertEqual(better_endpoint(welcome(shard=1, shards=shards), url), expected)

    def test_a_client_stays_where_it_should_be(self):
        shards = (("tcp://*:7600",), ("tcp://*:7601",))
        for given in (dict(), dict(shards=shards), dict(shard=1, answering=1, shards=shards), dict(shard=1),
                      dict(shard=2, shards=shards), dict(answering=2, shards=shards)):
            with self.subTest(given):
                self.assertIsNone(better_endpoint(welcome(**given), "tcp://127.0.0.1:7600"))


class Redirect(RouterTest):
    def setUp(self):
        super().setUp()
        self.second = Router()
        self.addCleanup(self.second.close)

    def connecting(self, there, **given):
        """A client whose first WELCOME names shard 1, at that endpoint; and its HELLO."""
        connecting = self.aside(penstock.Client, self.router.url, connect_timeout=PATIENCE_S, **given)
        hello = self.router.expect(MessageType.HELLO)
        self.router.welcome(hello, shard=1, shards=((self.router.url,), (there,)))
        return connecting, hello

    def test_it_moves_before_its_first_request_and_stays_the_same_client(self):
        connecting, hello = self.connecting(self.second.url)
        again = self.second.expect(MessageType.HELLO)
        self.assertEqual((hello.token(), again.token()), ("", TOKEN))
        self.router.expect(MessageType.GOODBYE)
        self.assertFalse(connecting.done())
        self.second.welcome(again, shard=1, answering=1, shards=((self.router.url,), (self.second.url,)))
        client = self.wait(connecting)
        self.addCleanup(client.close)
        client.submit("spectrum", iq())
        self.second.expect(MessageType.SUBMIT)

    def test_it_moves_once(self):
        connecting, _ = self.connecting(self.second.url, retry_after=IMPATIENT_S)
        shards = ((self.router.url,), (self.second.url,))
        self.second.welcome(self.second.skip_to(MessageType.HELLO), shard=0, answering=1, shards=shards)
        client = self.wait(connecting)
        self.addCleanup(client.close)
        future = client.submit("spectrum", iq())
        first = self.second.expect(MessageType.SUBMIT)
        self.second.welcome(self.second.expect(MessageType.HELLO), shard=0, answering=1, shards=shards)  # after silence
        self.assertEqual(self.second.until(MessageType.SUBMIT)[0].id, first.id)
        self.assertFalse(future.done())

    def test_hello_is_repeated_at_the_other_shard(self):
        connecting, _ = self.connecting(self.second.url, retry_after=IMPATIENT_S)
        self.second.expect(MessageType.HELLO)
        self.second.welcome(self.second.expect(MessageType.HELLO), shard=1, answering=1)
        self.wait(connecting).close()

    def test_it_stays_where_the_other_endpoint_is_none(self):
        client = self.wait(self.connecting("tcp://nonsense")[0])
        self.addCleanup(client.close)
        client.submit("spectrum", iq())
        self.router.expect(MessageType.SUBMIT)


if __name__ == "__main__":
    unittest.main()
