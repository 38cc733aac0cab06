"""Numbers of stages that change while sessions go on: by SET, by `penstock set` and by a reload."""

import asyncio
import threading
import unittest

import numpy
from penstock import AsyncClient, Client, Rejected, SessionLost, Status
from penstock.wire import MessageType

from daemon_process import VERSION, Daemon, Daemons, HeldThread, backends, pipeline, wait_until
from raw_client import RawClient


def tuned(gain=1.0, low=0.5):
    """A gain and a running sum in a session; events with two thresholds; an expression; a score that is held."""
    text = pipeline("scaled", "f32", ["max 64"], [
        ("gain", "affine", f'a = {gain}\ntunable = ["a", "b"]\n'),
        ("sum", "fir", "taps = [1.0, 1.0]\n")], ["gain", "sum"], "batch = { max_frames = 64, max_delay = \"5ms\" }\n")
    text += pipeline("events", "f32", [64], [
        ("find", "detect", f'high = 2.0\nlow = {low}\nmax_events = 8\ntunable = ["high", "low"]\n')], ["find"])
    text += pipeline("watched", "f32", ["max 64"], [
        ("find", "detect", 'along = "session"\nhigh = 2.0\nlow = 1.0\nmax_events = 2\ntunable = ["high", "low"]\n')],
                     ["find"])
    text += pipeline("power", "f32", [8], [
        ("p", "map", 'expr = "k * x ^ e"\nvalues = { k = 1.0, e = 2.0 }\ntunable = ["k"]\n')], ["p"])
    text += pipeline("alarm", "f32", ["max 64"], [
        ("z", "moving_zscore", 'window = 4\noutput = "flags"\nthreshold = 4.0\ntunable = ["threshold"]\n'),
        ("h", "moving_zscore",
         'from = "input"\nwindow = 4\nhold = 5.0\noutput = "flags"\nthreshold = 4.0\ntunable = ["threshold", "hold"]\n')],
                     ["z", "h"])
    text += pipeline("mixed", "f32", ["max 64"], [
        ("m", "mix", 'frequency = 480.0\nrate = 48e3\ntunable = ["frequency"]\n')], ["m"])
    text += pipeline("fixed", "f32", [4], [("y", "affine", "a = 3.0\n")], ["y"])
    return VERSION + text


def zscores(samples, window=4):
    """The score of each sample against those before it."""
    scores = numpy.zeros(len(samples))
    for n in range(window, len(samples)):
        before = samples[n - window:n].astype(float)
        floor = max(1e-6 * max(abs(before.mean()), abs(float(samples[n]))), 1e-300)
        scores[n] = (samples[n] - before.mean()) / max(before.std(), floor)
    return scores


class SetTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemons = Daemons(tuned())

    @classmethod
    def tearDownClass(cls):
        cls.daemons.stop()

    def refused(self, name, call):
        with self.assertRaises(Rejected) as refusal:
            call()
        self.assertEqual(refusal.exception.status_name, name)
        return str(refusal.exception)

    def test_frames_have_the_numbers_of_when_they_were_accepted(self):
        def check(daemon):
            with Client(daemon.url) as client, client.session("scaled") as session:
                ones = numpy.ones(4, numpy.float32)
                before = [session.submit(ones) for _ in range(20)]
                for future in before:
                    future.result()
                told = session.set("gain", "a", 2.5)
                self.assertEqual((told.frame, dict(told), told.own), (20, {"gain.a": 2.5, "gain.b": 0.0}, {"gain.a"}))
                after = session.submit(ones).result()
                numpy.testing.assert_array_equal(after["gain"], [2.5] * 4)
                numpy.testing.assert_array_equal(after["sum"], [3.5, 5.0, 5.0, 5.0])  # the state went on
                numpy.testing.assert_array_equal(before[-1].result()["gain"], ones)
                session.set("gain", "a", None)
                numpy.testing.assert_array_equal(session.submit(ones).result()["gain"], ones)
                self.assertEqual(session.values().own, frozenset())
        self.daemons.each(self, check)

    def test_sessions_with_other_numbers_share_batches(self):
        def check(daemon):
            with Client(daemon.url) as client:
                sessions = [client.session("scaled") for _ in range(16)]
                for number, session in enumerate(sessions):
                    session.set_all({"gain.a": number + 0.5, "gain.b": -number})
                samples = numpy.arange(33, dtype=numpy.float32)
                for length in (33, 1, 17):
                    futures = [(number, session.submit(samples[:length]))
                               for _ in range(8) for number, session in enumerate(sessions)]
                    for number, future in futures:
                        numpy.testing.assert_array_equal(
                            future.result()["gain"], numpy.float32(number + 0.5) * samples[:length] - number)
                batches = next(each for each in client.status()["pipelines"] if each["name"] == "scaled")
                for session in sessions:
                    session.close()
                self.assertGreater(batches["batched_frames"], batches["batches"])
        self.daemons.each(self, check)

    def test_numbers_that_belong_together_change_together(self):
        def check(daemon):
            samples = numpy.zeros(64, numpy.float32)
            samples[[10, 20]] = 3, 1
            samples[11] = 0.8
            with Client(daemon.url) as client, client.session("events") as session:
                def found(target):
                    events = target(samples[None]).result()["find"][0]
                    return [int(index) for index, _ in events[1:1 + int(events[0, 1])]]
                self.assertEqual(found(session.submit), [10])
                why = self.refused("OUT_OF_RANGE", lambda: session.set("find", "high", 0.25))
                self.assertIn("'low' of stage 'find' must be at most 'high'", why)
                self.assertEqual(found(session.submit), [10])
                session.set_all({"find.high": 0.75, "find.low": 0.7})
                self.assertEqual(found(session.submit), [10, 20])
                self.assertEqual(found(lambda x: client.submit("events", x)), [10])  # others have theirs
        self.daemons.each(self, check)

    def test_an_event_under_way_takes_thresholds_as_they_become(self):
        def check(daemon):
            def told(session, *samples):
                events = session.submit(numpy.array(samples, numpy.float32)).result()["find"]
                return [tuple(each) for each in events[1:1 + int(events[0, 1])]], events[0, 2]
            with Client(daemon.url) as client, client.session("watched") as session, client.session("watched") as other:
                self.assertEqual([told(each, 1.5, 3.0, 2.5) for each in (session, other)], [([], 1.0)] * 2)
                session.set_all({"find.high": 0.75, "find.low": 0.5})
                self.assertEqual(told(session, 0.6, 4.0, 0.0, 0.8), ([(1.0, 5.0, 4.0, 4.0)], 6.0))
                self.assertEqual(told(other, 0.6, 4.0, 0.0, 0.8), ([(1.0, 3.0, 1.0, 3.0), (4.0, 5.0, 4.0, 4.0)], -1.0))
        self.daemons.each(self, check)

    def test_an_expression_and_a_score_follow_too(self):
        def check(daemon):
            x = numpy.arange(1, 9, dtype=numpy.float32)
            noise = numpy.random.default_rng(3).standard_normal(48).astype(numpy.float32)
            noise[30] += 30
            scores = zscores(noise)
            with Client(daemon.url) as client:
                with client.session("power") as one, client.session("power") as two:
                    one.set("p", "k", 3)
                    pair = one.submit(x), two.submit(x)
                    numpy.testing.assert_allclose(pair[0].result()["p"], 3 * x ** 2, rtol=1e-6)
                    numpy.testing.assert_allclose(pair[1].result()["p"], x ** 2, rtol=1e-6)
                    self.assertIn("`tunable` of the stage does not name it",
                                  self.refused("NOT_TUNABLE", lambda: one.set("p", "e", 3)))
                with client.session("alarm") as session:
                    session.set("z", "threshold", 2)
                    low = session.submit(noise[:24]).result()["z"]
                    session.set("z", "threshold", 1000)
                    high = session.submit(noise[24:]).result()["z"]
                    numpy.testing.assert_array_equal(low, abs(scores[:24]) > 2)
                    numpy.testing.assert_array_equal(high, numpy.zeros(24))
                with client.session("alarm") as held, client.session("alarm") as free:
                    free.set_all({"h.hold": 1e6, "h.threshold": 4})
                    both = [session.submit(noise).result()["h"] for session in (held, free)]
                    numpy.testing.assert_array_equal(both[1], abs(scores) > 4)
                    self.assertEqual(both[0][30], 1)
        self.daemons.each(self, check)

    def test_an_oscillator_goes_on_from_its_phase(self):
        def check(daemon):
            ones = numpy.ones(47, numpy.float32)
            with Client(daemon.url) as client, client.session("mixed") as session, client.session("mixed") as other:
                phase, got, expected = 0.0, [], []
                for hertz in (480.0, None, -14400.0, 6000.0, 480.0):
                    if hertz is not None:
                        session.set("m", "frequency", hertz)
                    cycles = session.values()["m.frequency"] / 48e3
                    got.append(session.submit(ones).result()["m"])
                    expected.append(numpy.exp(2j * numpy.pi * (phase + cycles * numpy.arange(47))))
                    phase += 47 * cycles
                numpy.testing.assert_allclose(numpy.concatenate(got), numpy.concatenate(expected), atol=1e-6)
                numpy.testing.assert_allclose(other.submit(ones).result()["m"], expected[0], atol=1e-6)
        self.daemons.each(self, check)

    def test_refusals_say_what_is_wrong_and_are_counted(self):
        def check(daemon):
            with Client(daemon.url) as client, client.session("scaled") as session, client.session("fixed") as fixed:
                before = dict(client.status()["refused"])
                self.assertIn("has no stage 'gian'",
                              self.refused("UNKNOWN_VALUE", lambda: session.set("gian", "a", 1)))
                self.assertIn("has no number 'gain'",
                              self.refused("UNKNOWN_VALUE", lambda: session.set("gain", "gain", 1)))
                self.assertIn("can't change", self.refused("NOT_TUNABLE", lambda: session.set("sum", "taps", 1)))
                self.assertIn("can't change", self.refused("NOT_TUNABLE", lambda: fixed.set("y", "a", 1)))
                self.assertIn("'a' of stage 'gain' must be", self.refused(
                    "OUT_OF_RANGE", lambda: session.set_all({"gain.b": 1, "gain.a": 1e39})))
                self.assertEqual(dict(session.values()), {"gain.a": 1.0, "gain.b": 0.0})  # all or none
                self.assertEqual(dict(fixed.values()), {})
                for bad in (float("nan"), float("inf")):
                    with self.assertRaises(ValueError):
                        session.set("gain", "a", bad)
                after = client.status()["refused"]
                for name, count in (("UNKNOWN_VALUE", 2), ("NOT_TUNABLE", 2), ("OUT_OF_RANGE", 1)):
                    self.assertEqual(after[name] - before.get(name, 0), count, name)
                session.close()
                with self.assertRaises(SessionLost):
                    session.set("gain", "a", 1)
        self.daemons.each(self, check)

    def test_a_session_of_another_client_is_none(self):
        def check(daemon):
            with Client(daemon.url) as client, client.session("scaled") as session, RawClient(daemon.url) as other:
                number = session._requests.number
                body = {"values": [{"stage": "gain", "name": "a", "value": 7}]}
                for kind, given in ((MessageType.SET_VALUES, body), (MessageType.GET_VALUES, None)):
                    header, error = other._ask(kind, given, session=number)
                    self.assertEqual((header.status, error["reason"]),
                                     (Status.SESSION_LOST, f"this client has no session {number}"))
                self.assertEqual(session.values()["gain.a"], 1.0)
        self.daemons.each(self, check)

    def test_the_asynchronous_client_sets_too(self):
        def check(daemon):
            async def work():
                async with AsyncClient(daemon.url) as client, client.session("scaled") as session:
                    told = await session.set("gain", "b", -2)
                    result = await session.submit(numpy.zeros(2, numpy.float32))
                    return told, await session.values(), result
            told, values, result = asyncio.run(work())
            self.assertEqual(dict(told), dict(values))
            numpy.testing.assert_array_equal(result["gain"], [-2, -2])
        self.daemons.each(self, check)

    def test_changes_beside_a_stream_lose_nothing(self):
        def check(daemon):
            with Client(daemon.url) as client, client.session("scaled") as session:
                told, stop = [], threading.Event()

                def change():
                    value = 1
                    while not stop.is_set():
                        told.append((session.set("gain", "a", value).frame, value))
                        value = value % 7 + 1
                changer = threading.Thread(target=change)
                changer.start()
                try:
                    futures = [session.submit(numpy.ones(1, numpy.float32)) for _ in range(3000)]
                    gains = [float(future.result()["gain"][0]) for future in futures]
                finally:
                    stop.set()
                    changer.join()
            expected, at = [], 0
            changes = [(0, 1), *told]
            for frame in range(len(gains)):  # the last change at or before each frame
                while at + 1 < len(changes) and changes[at + 1][0] <= frame:
                    at += 1
                expected.append(float(changes[at][1]))
            self.assertEqual(gains, expected)
        self.daemons.each(self, check)


class OperatorTest(unittest.TestCase):
    """What holds for a pipeline, and all who follow it."""

    def setUp(self):
        self.daemon = Daemon(backends()[0], "callback", tuned())
        self.addCleanup(lambda: self.daemon.stop() if self.daemon.process.poll() is None else None)

    def gain(self, target):
        return float(target.submit(numpy.ones(1, numpy.float32)).result()["gain"][0])

    def set(self, *words, check=True):
        return self.daemon.cli("set", "--admin", self.daemon.admin, *words, check=check)

    def test_penstock_set_reaches_sessions_that_have_none_of_their_own(self):
        with Client(self.daemon.url) as client, client.session("scaled") as own, client.session("scaled") as other:
            own.set("gain", "a", 5)
            self.assertEqual(self.set("scaled", "gain.a=2.5", "gain.b=1").stdout, "gain.a = 2.5\ngain.b = 1\n")
            self.assertEqual((self.gain(own), self.gain(other)), (6.0, 3.5))
            self.assertEqual(client.values("scaled")["gain.a"], 2.5)
            with client.session("scaled") as later:
                self.assertEqual(self.gain(later), 3.5)
            self.set("scaled", "gain.a=3", "--everywhere")
            self.assertEqual((self.gain(own), self.gain(other)), (4.0, 4.0))
            self.set("scaled", "gain.a=default", "gain.b=default")
            self.assertEqual((self.gain(own), self.gain(other)), (1.0, 1.0))

    def test_penstock_set_shows_and_refuses(self):
        self.assertEqual(self.set("events").stdout, "find.high = 2\nfind.low = 0.5\n")
        self.assertIn("no number of", self.set("fixed").stdout)
        for words, reason in ((("events", "find.high=0.25"), "OUT_OF_RANGE"), (("events", "find.max_events=3"), "NOT_TUNABLE"),
                              (("events", "fnd.high=3"), "UNKNOWN_VALUE"), (("none", "a.b=3"), "no pipeline 'none'")):
            done = self.set(*words, check=False)
            self.assertEqual(done.returncode, 1, words)
            self.assertIn(reason, done.stderr)
        for word, reason in (("find.high:3", "not STAGE.NAME=VALUE"), ("find.high=x", "no finite number"),
                             ("find.high=", "no finite number"), ("find.high=inf", "no finite number"),
                             ("find.high=1e400", "no finite number"), ("find.high=+-", "no finite number")):
            done = self.set("events", word, check=False)
            self.assertEqual(done.returncode, 2, word)
            self.assertIn(reason, done.stderr)
        self.assertEqual(self.set("events", "find.high=+2e0").stdout, "find.high = 2\nfind.low = 0.5\n")
        self.assertEqual(self.daemon.ask("/api/v1/set?pipeline=events&set=find.high:x", "POST", X_Penstock="1")[0], 400)
        self.assertEqual(self.daemon.ask("/api/v1/set?pipeline=events&set=find.high:3", "POST")[0], 403)

    def reload(self, text):
        (self.daemon.path / "penstock.toml").write_text(text)
        return self.daemon.ask_for_reload()

    def test_a_reload_of_tunable_numbers_keeps_sessions(self):
        with Client(self.daemon.url) as client, client.session("scaled") as own, client.session("scaled") as other:
            own.set("gain", "a", 5)
            self.assertEqual((self.gain(own), self.gain(other)), (5.0, 1.0))
            status, answer = self.reload(tuned(gain=2))
            self.assertEqual((status, answer["changed"]), (200, True), answer)
            result = other.submit(numpy.ones(1, numpy.float32)).result()
            self.assertEqual((result["gain"][0], result["sum"][0]), (2.0, 3.0))  # its state went on
            self.assertEqual(self.gain(own), 5.0)
            own.set("gain", "a", None)
            self.assertEqual(self.gain(own), 2.0)
            self.set("scaled", "gain.a=7")
            self.assertEqual(self.reload(tuned(gain=2, low=0.25))[0], 200)
            self.assertEqual(self.gain(other), 7.0)  # the file did not change this one
            self.assertEqual(self.reload(tuned(gain=3, low=0.25))[0], 200)
            self.assertEqual(self.gain(other), 3.0)
            self.set("scaled", "gain.a=default")
            self.assertEqual(self.gain(other), 3.0)

    def test_a_number_that_the_file_does_not_give_follows_the_others(self):
        def file(numbers):
            return tuned().replace("high = 2.0\nlow = 0.5\n", numbers)
        self.assertEqual(self.reload(file("high = 2.0\n"))[0], 200)
        with Client(self.daemon.url) as client, client.session("events") as session:
            for numbers in ("high = 3.0\n", "high = 3.0\nlow = 2.5\n", "high = 3.0\n"):
                self.assertEqual(self.reload(file(numbers))[0], 200)
                low = "2.5" if "low" in numbers else "3"
                self.assertEqual(self.set("events").stdout, f"find.high = 3\nfind.low = {low}\n")
                done = self.set("events", "find.high=1.5", check=False)
                self.assertEqual(done.stdout, "" if "low" in numbers else "find.high = 1.5\nfind.low = 1.5\n", done.stderr)
                self.set("events", "find.high=default")
            session.submit(numpy.zeros((1, 64), numpy.float32)).result()  # none of them ended it

    def test_a_shard_that_is_late_sets_numbers_when_it_goes_on(self):
        held = HeldThread(self.daemon.process.pid, "shard-0")
        try:
            done = self.set("scaled", "gain.a=4", check=False)
        finally:
            held.let_go()
        self.assertEqual((done.returncode, done.stderr),
                         (1, "penstock: shard 0 did not answer within 2 s, and sets them when it goes on\n"))
        wait_until(lambda: self.set("scaled").stdout == "gain.a = 4\ngain.b = 0\n", "it is set")

    def test_a_reload_of_anything_else_ends_sessions(self):
        with Client(self.daemon.url) as client, client.session("scaled") as session:
            self.gain(session)
            changed = tuned(gain=2).replace('tunable = ["a", "b"]', 'tunable = ["a"]', 1)
            self.assertEqual(self.reload(changed)[0], 200)
            with self.assertRaises(SessionLost):
                self.gain(session)

    def test_a_reload_makes_numbers_of_the_largest_pipeline_tunable(self):
        def file(more):
            return VERSION + pipeline("only", "f32", [8], [("y", "affine", "a = 3.0\n" + more)], ["y"],
                                      "batch = { max_frames = 1 }\n")
        daemon = Daemon(self.daemon.backend, self.daemon.completion, file(""))
        self.addCleanup(daemon.stop)
        (daemon.path / "penstock.toml").write_text(file('tunable = ["a", "b"]\n'))
        status, answer = daemon.ask_for_reload()
        self.assertEqual(status, 200, answer)
        self.assertEqual(daemon.cli("set", "only", "y.a=4").stdout, "y.a = 4\ny.b = 0\n")

    def test_what_can_not_change_is_refused_at_the_start(self):
        for wrong, reason in ((tuned().replace('["a", "b"]', '["c"]'), "of this one 'a', 'b' can"),
                              (tuned().replace('["a", "b"]', '["a", "a"]'), "'a' is given twice"),
                              (tuned().replace('taps = [1.0, 1.0]', 'taps = [1.0, 1.0]\ntunable = ["taps"]'),
                               "nothing of this one can")):
            status, answer = self.reload(wrong)
            self.assertEqual(status, 422)
            self.assertIn(reason, answer["error"])


if __name__ == "__main__":
    unittest.main()
