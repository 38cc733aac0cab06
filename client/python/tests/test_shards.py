"""Which shard a client ends up with."""
import unittest

from scripted_router import IMPATIENT_S, PATIENCE_S, TOKEN, Router, RouterTest, iq, welcome

import penstock
from penstock.shard_choice import better_endpoint
from penstock.wire import MessageType


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
