"""Edge cases of proto/PROTOCOL.md against a real daemon."""

import importlib.util
import time
import unittest

from daemon_process import VERSION, Daemon, backends, pipeline

if importlib.util.find_spec("numpy") and importlib.util.find_spec("zmq"):
    import numpy as np
    from penstock.wire import Header, MessageType, Status, encode_header, encode_tensor, tensor_header
    from shared_client import PLACE, RESULT_SHARED, SharedClient
else:
    SharedClient = object

LIMIT = 60
LENGTH = 16384
CONFIGURATION = (VERSION
                 + pipeline("levels", "f32", [4], [("level", "affine", "a = 2.0\n")], ["level"])
                 + pipeline("any", "f32", ["max 8"], [("level", "affine", "a = 2.0\n")], ["level"])
                 + pipeline("thinned", "f32", ["max 8"], [("slow", "fir", "taps = [1.0]\ndecimation = 4\n")], ["slow"])
                 + pipeline("sums", "f32", [4], [("mean", "accumulate", "frames = 2\n")], ["mean"])
                 + pipeline("large", "f32", [LENGTH], [("level", "affine", "a = 2.0\n")], ["level"]))


class Peer(SharedClient):
    """Sends what PROTOCOL.md is about, and reads what comes but for the probes."""

    def _answer(self):
        while True:
            parts = self.socket.recv_multipart()
            header = self.wire.decode_header(parts[0])
            if header.type != MessageType.PONG or header.request_id != 0:
                break
        self.parts = parts
        has_body = header.type not in (MessageType.RESULT, MessageType.PONG, RESULT_SHARED)
        return header, self.wire_json(parts[1]) if has_body else None

    def wire_json(self, body):
        from penstock.control import decode_json
        return decode_json(body)

    def frames(self, name, samples, tensor=None, parts=None, **fields):
        """A SUBMIT of `samples`, [frames, …], with that much changed; the answer's status."""
        self.requests += 1
        header = Header(MessageType.SUBMIT, self.requests, pipeline=self.pipelines[name], tensors=1,
                        frames=len(samples))._replace(**fields)
        head = encode_header(header) + encode_tensor(tensor or tensor_header(samples))
        self.socket.send_multipart([head, *([samples.tobytes()] if parts is None else parts)])
        return self._answer()[0].status

    def say(self, kind, **fields):
        self.requests += 1
        header = Header(kind, self.requests)._replace(**fields)
        self.socket.send(encode_header(header))
        return header.request_id

    def ask(self, kind, **fields):
        self.say(kind, **fields)
        return self._answer()


def ones(*shape):
    return np.ones(shape, np.float32)


@unittest.skipIf(SharedClient is object, "numpy and pyzmq are needed")
class ProtocolTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon(backends()[0], "callback", CONFIGURATION)

    @classmethod
    def tearDownClass(cls):
        code, log = cls.daemon.stop()
        if code != 0:
            raise AssertionError(f"the daemon ended with {code}:\n{log}")

    def peer(self):
        return self.enterContext(Peer(self.daemon.url))

    def test_a_request_is_never_empty_and_a_result_may_be(self):
        peer = self.peer()
        self.assertEqual(peer.frames("any", ones(1, 0)), Status.WRONG_SHAPE)
        self.assertEqual(peer.frames("any", ones(0, 8)), Status.WRONG_SHAPE)
        self.assertEqual(peer.frames("any", ones(1, 8), frames=0), Status.WRONG_SHAPE)
        session = peer.open("thinned")
        self.assertEqual(peer.frames("thinned", ones(1, 0), session=session), Status.WRONG_SHAPE)
        shapes = []
        for sequence in range(2):
            self.assertEqual(peer.frames("thinned", ones(1, 1), session=session, sequence=sequence), Status.OK)
            shapes.append(peer.wire.decode_tensor(peer.parts[0], peer.wire.decode_header(peer.parts[0]), 0).shape)
        self.assertEqual(shapes, [(1, 1), (1, 0)])

    def test_request_id_0_is_a_number_like_others(self):
        peer = self.peer()
        self.assertEqual(peer.frames("levels", ones(1, 4), request_id=0), Status.OK)
        header = peer.wire.decode_header(peer.parts[0])
        self.assertEqual((header.type, header.request_id), (MessageType.RESULT, 0))

    def test_lanes_other_than_1_are_a_wrong_shape(self):
        good = tensor_header(ones(1, 4))
        for lanes in (0, 2):
            self.assertEqual(self.peer().frames("levels", ones(1, 4), tensor=good._replace(lanes=lanes)),
                             Status.WRONG_SHAPE)

    def test_a_wrong_number_of_parts_is_malformed(self):
        peer, payload = self.peer(), ones(1, 4).tobytes()
        self.assertEqual(peer.frames("levels", ones(1, 4), parts=[payload, payload]), Status.MALFORMED)
        self.assertEqual(peer.frames("levels", ones(1, 4), tensors=0, parts=[payload]), Status.MALFORMED)

    def test_a_session_of_another_pipeline_is_malformed(self):
        peer = self.peer()
        session = peer.open("sums")
        self.assertEqual(peer.frames("thinned", ones(1, 4), session=session), Status.MALFORMED)
        self.assertEqual(peer.frames("sums", ones(1, 4), session=session), Status.OK, "it is not harmed")

    def test_close_of_an_unknown_session_is_not_answered(self):
        peer = self.peer()
        peer.say(MessageType.CLOSE_SESSION, session=77)
        ping = peer.say(MessageType.PING)
        header, _ = peer._answer()
        self.assertEqual((header.type, header.request_id), (MessageType.PONG, ping))

    def test_a_second_cancel_is_answered_with_the_first_ones_reply_again(self):
        peer = self.peer()
        samples = ones(1, 4)  # the reply is small enough to be kept
        for sent in range(100, 120):
            header = Header(MessageType.SUBMIT, sent, pipeline=peer.pipelines["levels"], tensors=1, frames=1)
            peer.socket.send_multipart([encode_header(header) + encode_tensor(tensor_header(samples)),
                                        samples.tobytes()])
            for _ in range(2):
                peer.say(MessageType.CANCEL, request_id=sent)
            peer.say(MessageType.PING, request_id=1000 + sent)
            replies = list(iter(lambda: peer._answer()[0], Header(MessageType.PONG, 1000 + sent)))
            # Two where the first CANCEL met it in flight, three where it came too late; the same each time.
            self.assertIn(len(replies), (2, 3))
            self.assertEqual({(each.type, each.status, each.request_id) for each in replies},
                             {(replies[0].type, replies[0].status, sent)})
        header, body = peer.ask(MessageType.CANCEL, request_id=10**9)
        self.assertEqual((header.status, header.request_id), (Status.REJECTED, 10**9))
        self.assertIn("no such request", body["reason"])

    def test_input_and_output_in_an_arena_may_not_overlap_and_whoever_does_it_harms_itself_alone(self):
        peer = self.peer()
        arena = peer.attach(1 << 20)
        self.addCleanup(arena.end)
        samples = ones(1, LENGTH)
        arena.memory[:samples.nbytes] = samples.tobytes()
        place = PLACE.pack(arena.number, 0, 0, 64, samples.nbytes)
        sent = peer.send_place("large", tensor_header(samples), place)
        header, _ = peer._answer()
        self.assertEqual((header.type, header.request_id), (RESULT_SHARED, sent), "it is not looked for")
        self.assertEqual(peer.frames("large", samples), Status.OK)
        self.assertTrue(self.daemon.counters()["status"]["balanced"])

    def test_the_status_report_has_what_the_page_names(self):
        header, body = self.peer().ask(MessageType.GET_STATUS)
        self.assertEqual(header.type, MessageType.STATUS_REPORT)
        self.assertEqual(set(body["configuration"]), {"version", "hash"})
        requests = body["requests"]
        self.assertLessEqual({"accepted", "results", "errors", "in_flight"}, set(requests))
        self.assertEqual(requests["accepted"],
                         requests["results"] + sum(requests["errors"].values()) + requests["in_flight"])


@unittest.skipIf(SharedClient is object, "numpy and pyzmq are needed")
class SilenceTest(unittest.TestCase):
    def setUp(self):
        self.daemon = Daemon("host", "callback", CONFIGURATION + '[clients]\nidle_timeout = "5s"\n')
        self.addCleanup(self.daemon.stop)

    def test_a_ping_keeps_a_client_known_and_an_open_session_does_not(self):
        with Peer(self.daemon.url) as pinging, Peer(self.daemon.url) as silent:
            silent.open("sums")
            end = time.monotonic() + LIMIT
            while self.daemon.counters()["status"]["clients"] > 2:  # with the one that asks
                self.assertLess(time.monotonic(), end, "the silent client is still known")
                pinging.ask(MessageType.PING)
                time.sleep(0.1)
            self.assertEqual(pinging.frames("levels", ones(1, 4)), Status.OK)
            self.assertEqual(silent.frames("levels", ones(1, 4)), Status.HELLO_REQUIRED)


if __name__ == "__main__":
    unittest.main()
