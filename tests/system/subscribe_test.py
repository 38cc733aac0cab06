"""Subscriptions: a client sees the results of others, bit for bit and in each session's order; one that does not read
loses results itself, is told how many, and costs others nothing."""

import asyncio
import json
import signal
import subprocess
import unittest

import numpy as np
import zmq
from penstock import AsyncClient, Client, Rejected, control, wire
from penstock.wire import MessageType

from daemon_process import BIN, VERSION, Daemon, backends, pipeline, wait_until
from raw_client import RawDealer

FRAME, LARGE = 256, 32768
TAPS = [0.25, -0.5, 1.0, 0.75]
PATIENCE_S = 60


def configuration(factor=2.0, before="", others=()):
    return VERSION + before + "".join([
        pipeline("scaled", "f32", [FRAME], [("y", "affine", f"a = {factor}\n")], ["y"]),
        pipeline("large", "f32", [LARGE], [("y", "affine", "a = 3.0\n")], ["y"]),
        pipeline("line", "f32", ["max 256"], [("fir", "fir", f'from = "input"\ntaps = {TAPS}\n'),
                                             ("stats", "moments", 'from = "input"\n')], ["fir", "stats"]),
        *others])


def frames(count, size=FRAME, seed=1):
    return np.random.default_rng(seed).standard_normal((count, size)).astype(np.float32)


class Raw(RawDealer):
    """A subscriber that reads when it is told to."""

    def __init__(self, context, url, **wanted):
        super().__init__(context, url)
        self.hello()
        self.queue_bytes, self.next_sequence = 0, 0
        self.subscribe(60, **wanted)

    def subscribe(self, number, **wanted):
        self.send(MessageType.SUBSCRIBE, number, control.encode(control.Subscribe(**wanted)))
        header, parts = self.receive()
        assert header.type == MessageType.SUBSCRIBED, (header, parts)
        granted = control.decode(control.Subscribed, parts[1])
        self.queue_bytes, self.next_sequence = granted.queue_bytes, granted.next_sequence

    def close(self):
        self.socket.setsockopt(zmq.LINGER, 10000)
        self.send(MessageType.GOODBYE)
        super().close()

    def published(self):
        """The next PUBLISHED: its header and its parts; what PUBLISHER says on the way is left out."""
        while True:
            header, parts = self.receive()
            if header.type == MessageType.PUBLISHED:
                return header, parts


class Case(unittest.TestCase):
    """A daemon, its clients, and those that speak the protocol by hand."""

    daemon = None

    def setUp(self):
        self.context = zmq.Context()
        self.context.setsockopt(zmq.RCVHWM, 1)  # so that who does not read holds up the daemon's messages
        self.addCleanup(self.context.destroy, 0)

    def connect(self, **options):
        made = Client(self.daemon.url, connect_timeout=PATIENCE_S, timeout=PATIENCE_S, **options)
        self.addCleanup(made.close)
        return made

    def subscriptions(self):
        return self.daemon.counters()["status"]["subscriptions"]

    def reload(self, text):
        (self.daemon.path / "penstock.toml").write_text(text)
        status, said = self.daemon.ask_for_reload()
        self.assertEqual(status, 200, said)

    def watch(self, *words):
        """`penstock watch`, once it has subscribed."""
        before = self.subscriptions()["open"]
        process = subprocess.Popen([BIN / "penstock", "--url", self.daemon.url, "watch", *words],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        wait_until(lambda: self.subscriptions()["open"] > before, "it has subscribed")
        return process

    def subscribed(self, shard):
        """How many subscriptions a shard has, by the admin endpoint."""
        _, text = self.daemon.ask("/api/v1/status")
        return next(each["subscriptions"]["open"] for each in json.loads(text)["shards"] if each["shard"] == shard)


class Subscribe(Case):
    """With one daemon for all."""

    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon(backends()[0], "callback", configuration())

    @classmethod
    def tearDownClass(cls):
        code, log = cls.daemon.stop()
        assert code == 0, log

    def setUp(self):
        super().setUp()
        wait_until(lambda: self.subscriptions()["open"] == 0, "the subscriptions of the test before have ended")
        self.before = self.subscriptions()

    def since(self, key):
        """By how much a count has risen in this test."""
        return self.subscriptions()[key] - self.before[key]

    def test_another_client_sees_the_results_bit_for_bit_in_the_sessions_order(self):
        feeder, listener = self.connect(name="feeder"), self.connect(name="listener")
        with listener.subscribe("line") as results, feeder.session("line", name="antenna 1") as one, \
                feeder.session("line", name="antenna 2") as two:
            blocks = frames(40)
            futures = [(session.name, session.submit(block[:64 + 3 * at]))
                       for at, block in enumerate(blocks) for session in (one, two)]
            expected = {name: [future.result() for each, future in futures if each == name] for name, _ in futures}
            seen = {name: [] for name in expected}
            for count in range(len(futures)):
                item = results.get(PATIENCE_S)
                self.assertEqual((item.client, item.pipeline, item.lost, item.sequence, item.restarted),
                                 ("feeder", "line", 0, count, False))
                seen[item.session].append(item)
        for name, items in seen.items():
            self.assertEqual(len(items), len(expected[name]))
            for item, wanted in zip(items, expected[name]):
                self.assertEqual(list(item.result), ["fir", "stats"])
                for output in wanted:
                    np.testing.assert_array_equal(item[output][0], wanted[output])
        self.assertEqual(list(results), [])

    def test_small_and_shared_results_and_those_of_several_subscribers_are_the_same(self):
        feeder = self.connect(transport="shm")
        results = [self.connect().subscribe(names) for names in ("scaled", ["scaled", "large"], "large")]
        x, large = frames(3), frames(2, LARGE)
        wanted = [feeder.submit("scaled", x).result().array, feeder.submit("large", large).result().array]
        self.assertGreater(feeder.large_requests["shm"], 0)
        for each, expected in zip(results, (wanted[:1], wanted, wanted[1:])):
            for array in expected:
                np.testing.assert_array_equal(each.get(PATIENCE_S).array, array)

    def test_a_client_hears_itself_and_stops_to_when_it_unsubscribes(self):
        client = self.connect()
        results = client.subscribe("scaled")
        x = frames(1)
        for _ in range(3):
            y = client.submit("scaled", x).result().array
            np.testing.assert_array_equal(results.get(PATIENCE_S).array, y)
        results.close()
        wait_until(lambda: self.subscriptions()["open"] == 0, "unsubscribed")
        client.submit("scaled", x).result()
        self.assertEqual(list(results), [])
        self.assertEqual(self.since("published"), 3)

    def test_filters_choose_sessions_and_outputs(self):
        feeder, listener = self.connect(), self.connect()
        chosen = listener.subscribe(["line", "scaled"], sessions=["antenna*", "m?c"], outputs="stats")
        none = listener.subscribe("line", sessions="antenna")
        all_of_it = listener.subscribe(["line", "scaled"])
        names = ["antenna", "antenna 2", "mic", "music", "other"]
        sessions = [feeder.session("line", name=name) for name in names]
        x = frames(1)[0]
        for session in sessions:
            session.submit(x).result()
        feeder.submit("scaled", x).result()
        heard = [chosen.get(PATIENCE_S) for _ in range(3)]
        self.assertEqual([item.session for item in heard], ["antenna", "antenna 2", "mic"])
        self.assertEqual([list(item.result) for item in heard], [["stats"]] * 3)
        self.assertEqual(none.get(PATIENCE_S).session, "antenna")
        self.assertEqual([all_of_it.get(PATIENCE_S).session for _ in range(6)], [*names, ""])
        with self.assertRaises(TimeoutError):
            chosen.get(0)
        with self.assertRaisesRegex(Rejected, "has an output 'fur'"):
            listener.subscribe("line", outputs=["fur"])
        with self.assertRaisesRegex(Rejected, "no pipeline 'lime'") as caught:
            listener.subscribe("lime")
        self.assertEqual(caught.exception.status, wire.Status.UNKNOWN_PIPELINE)

    def test_the_account_of_samples_comes_too(self):
        feeder, listener = self.connect(), self.connect()
        x = frames(1)[0][:100]
        with listener.subscribe("line", outputs="fir") as results, feeder.session("line") as session:
            for index in (1000, 1100):
                own = session.submit(x, index=index, time_ns=5, lost_before=3, epoch=7).result()
                account = results.get(PATIENCE_S).account
                self.assertEqual((account.index, account.time_ns, account.lost_before, account.epoch),
                                 (index, 5, 3, 7))
                self.assertEqual(account.index_of("fir"), own.account.index_of("fir"))
            session.submit(x).result()
            self.assertIsNone(results.get(PATIENCE_S).account)

    def test_requests_come_as_their_clients_sent_them(self):
        feeder, sharing, listener = self.connect(name="feeder"), self.connect(transport="shm"), self.connect()
        x, large = frames(1)[0][:100], frames(2, LARGE)
        with listener.subscribe(["line", "large"], requests=True) as sent, feeder.session("line", name="a") as session:
            session.submit(x, index=1000, time_ns=5, lost_before=3, epoch=7).result()
            item = sent.get(PATIENCE_S)
            self.assertEqual((item.session, item.client, item.pipeline, item.lost), ("a", "feeder", "line", 0))
            self.assertEqual((list(item.result), item.account.index, item.account.lost_before, item.account.epoch),
                             (["input"], 1000, 3, 7))
            self.assertEqual(item.account.index_of("input"), 1000)
            np.testing.assert_array_equal(item["input"], [x])
            for _ in range(2):  # the second in shared memory
                sharing.submit("large", large).result()
                np.testing.assert_array_equal(sent.get(PATIENCE_S).array, large)
            self.assertGreater(sharing.large_requests["shm"], 0)
            with self.assertRaisesRegex(Rejected, "requests has no outputs"):
                listener.subscribe("line", outputs="fir", requests=True)

    def test_who_does_not_read_loses_results_and_is_told_how_many(self):
        stalled = Raw(self.context, self.daemon.url, pipelines=("large",), queue_bytes=1 << 20)
        self.assertEqual(stalled.queue_bytes, 1 << 20)
        feeder, reader = self.connect(), self.connect()
        x = frames(4, LARGE)
        expected = [feeder.submit("large", each).result().array for each in x]  # four that the stalled one hears of too
        with reader.subscribe("large", queue_bytes=64 << 20, buffer_bytes=256 << 20) as results:
            count = 100  # 12.5 MiB
            for at in range(count):
                np.testing.assert_array_equal(feeder.submit("large", x[at % 4]).result().array, expected[at % 4])
            for at in range(count):
                item = results.get(PATIENCE_S)
                self.assertEqual((item.sequence, item.lost), (at, 0))
                np.testing.assert_array_equal(item.array[0], expected[at % 4])
        dropped = self.since("dropped")
        self.assertGreater(dropped, 0)
        self.assertLessEqual(self.subscriptions()["queued_bytes"], (1 << 20) + 65536)
        heard = [stalled.published() for _ in range(4 + count - dropped)]
        for header, parts in heard:  # those that came first
            np.testing.assert_array_equal(np.frombuffer(parts[1], np.float32), expected[header.sequence % 4])
        wait_until(lambda: self.subscriptions()["queued_bytes"] == 0, "all is read")
        feeder.submit("large", x[0]).result()
        header, _ = stalled.published()
        self.assertEqual(header.sequence, 4 + count)
        gaps = sum(after.sequence - before.sequence - 1
                   for (before, _), (after, _) in zip(heard, [*heard[1:], (header, None)]))
        self.assertEqual(gaps, dropped)
        stalled.close()

    def test_what_waits_too_long_in_the_client_is_lost_there_and_counted(self):
        feeder = self.connect()
        with self.connect().subscribe("scaled", buffer_bytes=10 * FRAME * 4) as results:
            x = frames(1)
            for _ in range(50):
                feeder.submit("scaled", x).result()
            wait_until(lambda: self.since("published") == 50, "all are sent")
            feeder.submit("scaled", x).result()
            items = []
            while not items or items[-1].sequence < 50:
                items.append(results.get(PATIENCE_S))
        self.assertEqual(sum(1 + item.lost for item in items), 51)

    def test_asyncio_iterates_too(self):
        x = frames(5)

        async def listen():
            async with AsyncClient(self.daemon.url) as client, client.subscribe("scaled") as results:
                futures = [client.submit("scaled", each) for each in x]
                expected = [(await each).array for each in futures]
                heard = []
                async for item in results:
                    heard.append(item.array[0])
                    if len(heard) == len(x):
                        break
                return heard, expected
        heard, expected = asyncio.run(asyncio.wait_for(listen(), PATIENCE_S))
        np.testing.assert_array_equal(heard, expected)

    def test_watch_prints_a_line_for_each_result(self):
        feeder, x = self.connect(name="radio"), frames(1)[0]
        all_of_it, some = self.watch("line"), self.watch("line", "--session", "ant*", "--output", "fir", "-n", "1")
        with feeder.session("line", name="other") as other, feeder.session("line", name="antenna") as antenna:
            other.submit(x).result()
            antenna.submit(x[:100]).result()
        out, error = some.communicate(timeout=PATIENCE_S)
        self.assertEqual((some.returncode, out, error),
                         (0, "0  antenna of radio  fir f32[1, 100]\n", "1 result of antenna of radio\n"))
        lines = [all_of_it.stdout.readline() for _ in range(2)]
        self.assertEqual(lines, ["0  other of radio  fir f32[1, 256], stats f32[1, 5]\n",
                                 "1  antenna of radio  fir f32[1, 100], stats f32[1, 5]\n"])
        all_of_it.send_signal(signal.SIGINT)
        out, error = all_of_it.communicate(timeout=PATIENCE_S)
        self.assertEqual((all_of_it.returncode, out, error), (130, "", "2 results of 2 publishers\n"))

    def test_watch_says_how_many_samples_are_filled_in(self):
        watching = self.watch("line", "--output", "fir", "-n", "2")
        with self.connect(name="radio").session("line", name="antenna") as antenna:
            for filled in (1234, 0):
                antenna.submit(frames(1)[0], index=0, filled=filled).result()
        out, error = watching.communicate(timeout=PATIENCE_S)
        self.assertEqual((watching.returncode, out),
                         (0, "0  antenna of radio  fir f32[1, 256]  1,234 filled in\n"
                             "1  antenna of radio  fir f32[1, 256]\n"), error)

    def test_watch_shows_requests_too(self):
        watching = self.watch("line", "--requests", "--view", "-n", "1")
        with self.connect().session("line", name="antenna") as antenna:
            antenna.submit(frames(1)[0]).result()
        out, error = watching.communicate(timeout=PATIENCE_S)
        self.assertEqual((watching.returncode, error), (0, ""))
        self.assertTrue(out.endswith("1 request of antenna of penstock-python\n"), out)

    def test_watch_draws_the_outputs_as_send_does(self):
        feeder, x = self.connect(), frames(1)[0]
        watching = self.watch("line", "--view", "--output", "stats", "--count", "3")
        with feeder.session("line", name="antenna") as antenna:
            for _ in range(3):
                antenna.submit(x).result()
        out, error = watching.communicate(timeout=PATIENCE_S)
        self.assertEqual((watching.returncode, error), (0, ""))
        self.assertIn("stats (moments)  3 frames", out)
        self.assertTrue(out.endswith("3 results of antenna of penstock-python\n"), out)


class ChangingDaemon(Case):
    """With a daemon of its own for each test: it is restarted, or its configuration is changed."""

    def setUp(self):
        super().setUp()
        self.daemon = Daemon(backends()[0], "callback", configuration())
        self.addCleanup(self.daemon.stop)

    def test_a_publisher_ends_with_its_session_its_client_and_its_pipeline(self):
        listener = Raw(self.context, self.daemon.url, pipelines=("line", "scaled"))
        feeder, x = self.connect(name="f"), frames(1)[0]

        def heard():
            header, parts = listener.receive()
            while header.type == MessageType.WELCOME:  # of a reload
                header, parts = listener.receive()
            self.assertEqual(header.request_id, 60)
            return header.type, header.session, None if header.type == MessageType.PUBLISHED else control.decode(
                control.Publisher, parts[1])

        with feeder.session("line", name="s") as session:
            session.submit(x).result()
            self.assertEqual(heard(), (MessageType.PUBLISHER, 1, control.Publisher(1, "s", "f", "line",
                                                                                    ("fir", "stats"))))
            self.assertEqual(heard()[:2], (MessageType.PUBLISHED, 1))
        self.assertEqual(heard(), (MessageType.PUBLISHER, 1, control.Publisher(1, ended=True)))
        feeder.submit("scaled", x).result()
        self.assertEqual(heard(), (MessageType.PUBLISHER, 2, control.Publisher(2, "", "f", "scaled", ("y",))))
        self.assertEqual(heard()[:2], (MessageType.PUBLISHED, 2))
        self.reload(configuration(factor=4.0))
        self.assertEqual(heard(), (MessageType.PUBLISHER, 2, control.Publisher(2, ended=True)))
        y = feeder.submit("scaled", x).result().array
        np.testing.assert_array_equal(y, 4 * x)
        self.assertEqual(heard(), (MessageType.PUBLISHER, 3, control.Publisher(3, "", "f", "scaled", ("y",))))
        self.assertEqual(heard()[:2], (MessageType.PUBLISHED, 3))
        feeder.close()
        self.assertEqual(heard(), (MessageType.PUBLISHER, 3, control.Publisher(3, ended=True)))
        listener.close()

    def test_a_subscription_outlives_reloads_and_restarts_of_the_daemon(self):
        feeder, x = self.connect(), frames(1)[0]
        with self.connect(retry_after=0.2).subscribe("scaled") as results:
            feeder.submit("scaled", x).result()
            self.assertFalse(results.get(PATIENCE_S).restarted)
            self.reload(configuration(factor=5.0))
            feeder.submit("scaled", x).result()
            item = results.get(PATIENCE_S)
            self.assertEqual((item.restarted, item.sequence), (False, 1))
            np.testing.assert_array_equal(item.array[0], 5 * x)
            self.daemon.end(signal.SIGKILL)
            self.daemon.start()
            wait_until(lambda: self.subscriptions()["open"] == 1, "subscribed again", PATIENCE_S)
            feeder.submit("scaled", x).result()
            item = results.get(PATIENCE_S)
            self.assertEqual((item.restarted, item.sequence, item.lost), (True, 0, 0))

    def test_a_pipeline_that_is_gone_after_a_restart_ends_the_iteration(self):
        other = pipeline("other", "f32", [8], [("y", "affine", "a = 1.0\n")], ["y"])
        self.reload(configuration(others=[other]))
        results = self.connect(retry_after=0.2).subscribe("other")
        self.daemon.end(signal.SIGKILL)
        (self.daemon.path / "penstock.toml").write_text(configuration())
        self.daemon.start()
        with self.assertRaisesRegex(Rejected, "no pipeline 'other'"):
            results.get(PATIENCE_S)

    def test_goodbye_and_a_lost_client_end_its_subscriptions(self):
        polite = self.connect()
        polite.subscribe("scaled")
        self.assertEqual(self.subscriptions()["open"], 1)
        polite.close()
        wait_until(lambda: self.subscriptions()["open"] == 0, "GOODBYE")
        self.reload(configuration(before='[clients]\nresume_grace = "0s"\n'))
        gone = Raw(self.context, self.daemon.url, pipelines=("scaled",))
        before = self.daemon.counters()["status"]["peer_memory"]["bytes"]
        gone.socket.close()
        wait_until(lambda: self.subscriptions()["open"] == 0, "its place is given away")
        self.assertLess(self.daemon.counters()["status"]["peer_memory"]["bytes"], before - (16 << 20) + 1)

    def test_watch_sees_every_shard(self):
        self.daemon.end()
        (self.daemon.path / "penstock.toml").write_text(configuration(before="[device]\nshards = 2\n"))
        self.daemon.start()
        watching = self.watch("scaled", "--count", "8")
        feeders = [self.connect(name=f"f{number}") for number in range(4)]
        shards = {feeder.status()["shard"] for feeder in feeders}
        self.assertEqual(shards, {0, 1})
        wait_until(lambda: sum(self.subscribed(shard) for shard in shards) == 2, "it subscribes to both")
        for feeder in feeders * 2:
            feeder.submit("scaled", frames(1)).result()
        out, _ = watching.communicate(timeout=PATIENCE_S)
        self.assertEqual({line.split()[1] for line in out.splitlines()}, {"f0", "f1", "f2", "f3"})

    def test_no_more_than_are_allowed(self):
        self.reload(configuration(before="[clients]\nmax_subscriptions = 20\n"))
        one, two, three = self.connect(), self.connect(), self.connect()
        for _ in range(16):
            one.subscribe("scaled", queue_bytes=65536)
        with self.assertRaisesRegex(Rejected, "16 subscriptions"):
            one.subscribe("scaled")
        for _ in range(4):
            two.subscribe("scaled", queue_bytes=65536)
        with self.assertRaisesRegex(Rejected, "clients.max_subscriptions"):
            three.subscribe("scaled")
        self.reload(configuration(before="[clients]\nmax_subscriptions = 0\n"))
        with self.assertRaisesRegex(Rejected, "takes no subscriptions"):
            three.subscribe("scaled")
        x = frames(1)
        np.testing.assert_array_equal(three.submit("scaled", x).result().array, 2 * x)


if __name__ == "__main__":
    unittest.main()
