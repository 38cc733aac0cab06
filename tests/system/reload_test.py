"""Reloads of a running daemon: a configuration is taken whole or not at all, and no request fails."""

import collections
import os
import random
import signal
import subprocess
import threading
import time
import unittest
from concurrent import futures

import numpy
from penstock import Client, PenstockError, SessionLost

from daemon_process import BIN, VERSION, Daemon, HeldThread, backends, pipeline, wait_until

SEED = random.randrange(1 << 32)
RELOADS = int(os.environ.get("PENSTOCK_RELOADS", "1000"))
FRAME = 256


def steady():
    return pipeline("steady", "f32", [FRAME], [("y", "affine", "a = 2.0\n")], ["y"])


def scaled(factor):
    return pipeline("scaled", "f32", [FRAME], [("y", "affine", f"a = {float(factor)}\n")], ["y"])


def sums(taps="[1.0, 1.0]"):
    return pipeline("sums", "f32", ["max 64"], [("y", "fir", f"taps = {taps}\n")], ["y"])


def extra(priority="normal", floats=FRAME):
    return pipeline("extra", "f32", [floats], [("y", "affine", "a = 1.5\n")], ["y"], f'priority = "{priority}"\n')


def configuration(*pipelines, credits=64, before=""):
    return (VERSION + before + f"[clients]\ncredit_requests = {credits}\n" + "".join(pipelines))


GOOD = [configuration(steady(), scaled(2), sums()),
        configuration(steady(), scaled(3), sums()),
        configuration(scaled(5), extra("high"), steady(), sums()),
        configuration(steady(), sums(), scaled(2), extra("low"), credits=32),
        configuration(steady(), scaled(7), sums(), credits=128)]
BAD = {"key": (configuration(steady(), scaled(2), sums(), before="[daemon]\nlissen = 1\n"), "lissen"),
       "TOML": (GOOD[0] + "\n[[pipeline", "not valid TOML"),
       "stage": (configuration(steady(), scaled(2).replace('"affine"', '"afine"'), sums()), "afine"),
       "slots": (configuration(steady(), scaled(2), sums(), extra(floats=1 << 20)), "does not fit into the slots"),
       "restart": (configuration(steady(), scaled(2), sums(), before="[device]\nstreams = 3\n"), "[device] streams = 3"),
       "nothing": (VERSION, "there is none")}


def fnv(text):
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = ((value ^ byte) * 0x100000001B3) % (1 << 64)
    return f"{value:016x}"


class Reloaded(Daemon):
    """A daemon whose configuration is written anew and again."""

    def write(self, text):
        (self.path / "penstock.toml").write_text(text)

    def reload(self, text):
        """The status of the answer, and what it says."""
        self.write(text)
        return self.ask_for_reload()

    def hash_of(self, text):
        """Of the effective configuration, worked out without the daemon's help."""
        file = self.path / "other.toml"
        file.write_text(text)
        printed = subprocess.run([BIN / "penstockd", "--config", file, "--listen", self.url, "--admin", self.admin,
                                  "--backend", self.backend, "--completion", self.completion, "--print-config"],
                                 check=True, capture_output=True, text=True).stdout
        return fnv(printed)

    def served(self):
        return self.counters()["status"]["configuration"]


class Load:
    """Clients that submit all the time until `end`, and look at every result."""

    def __init__(self, url):
        self.url, self.over = url, threading.Event()
        self.requests, self.factors, self.faults = 0, set(), []
        self.threads = [threading.Thread(target=self.guarded, args=(what,))
                        for what in (self.submit, self.submit, self.follow_session)]
        for each in self.threads:
            each.start()

    def guarded(self, step):
        try:
            with Client(self.url) as client:
                while not self.over.is_set():
                    step(client)
        except Exception as error:  # whatever it is, the test has to hear of it
            self.faults.append(error)

    def submit(self, client):
        frames = numpy.random.default_rng().uniform(1, 2, (3, FRAME)).astype(numpy.float32)
        waiting = [(name, client.submit(name, frames)) for name in ("steady", "scaled") * 4]
        for name, future in waiting:
            ratio = future.result(60)["y"] / frames
            factor = round(float(ratio[0, 0]))
            numpy.testing.assert_allclose(ratio, factor, rtol=1e-5)
            if name == "steady":
                assert factor == 2, factor
            else:
                self.factors.add(factor)
            self.requests += 1

    def follow_session(self, client):
        signal_in = numpy.random.default_rng().standard_normal(20 * 64).astype(numpy.float32)
        with client.session("sums") as session:
            waiting = []
            for at in range(0, len(signal_in), 64):
                waiting.append(session.submit(signal_in[at:at + 64]))
                time.sleep(0.002)  # so that a session lives through several reloads
            got = numpy.concatenate([each.result(60)["y"].ravel() for each in waiting])
        numpy.testing.assert_allclose(got, numpy.convolve(signal_in, [1, 1])[:len(signal_in)], atol=1e-5)
        self.requests += len(waiting)

    def end(self):
        self.over.set()
        for each in self.threads:
            each.join()


class WithDaemon(unittest.TestCase):
    def daemon(self, backend="host", text=GOOD[0]):
        made = Reloaded(backend, "callback", text)

        def stop():
            if made.process.poll() is None:
                code, log = made.stop()
                self.assertEqual(code, 0, log)
            else:
                made.folder.cleanup()
        self.addCleanup(stop)
        return made


class ReloadTest(WithDaemon):
    def test_takes_configurations_under_load_half_of_them_bad(self):
        for backend in backends():
            with self.subTest(backend=backend, seed=SEED):
                self.walk(self.daemon(backend), random.Random(SEED))

    def walk(self, daemon, chance):
        hashes = [daemon.hash_of(text) for text in GOOD]
        self.assertEqual(len(set(hashes)), len(GOOD))
        self.assertEqual(daemon.served(), {"version": 1, "hash": hashes[0]})
        load = Load(daemon.url)
        version, current = 1, hashes[0]
        try:
            for turn in range(RELOADS):
                if turn % 2 == 0:
                    which = chance.randrange(len(GOOD))
                    status, said = daemon.reload(GOOD[which])
                    changed = current != hashes[which]
                    version, current = version + changed, hashes[which]
                    self.assertEqual((status, said), (200, {"version": version, "hash": current, "changed": changed}))
                else:
                    text, reason = BAD[chance.choice(sorted(BAD))]
                    status, said = daemon.reload(text)
                    self.assertEqual(status, 422, said)
                    self.assertIn(reason, said["error"])
                    self.assertEqual((said["version"], said["hash"]), (version, current))
                if turn % 50 == 0:
                    self.assertEqual(daemon.served(), {"version": version, "hash": current})
                self.assertEqual(load.faults, [])
        finally:
            load.end()
        self.assertEqual(load.faults, [])
        self.assertGreater(load.requests, 1000)
        self.assertEqual(load.factors, {2, 3, 5, 7})
        status = daemon.counters()["status"]
        self.assertTrue(status["balanced"])
        self.assertEqual(status["requests"]["in_flight"], 0)
        self.assertEqual(sum(status["requests"]["errors"].values()), 0, status["requests"])
        self.assertEqual(status["refused"], {}, status["refused"])

    def test_sighup_reads_the_file_again_and_says_so(self):
        daemon = self.daemon()
        for text, line in ((GOOD[1], "configuration reloaded: version 2, hash " + daemon.hash_of(GOOD[1])),
                           (BAD["key"][0], "reload refused: "), (GOOD[0], "configuration reloaded: version 3")):
            daemon.write(text)
            daemon.process.send_signal(signal.SIGHUP)
            wait_until(lambda: line in daemon.log.read_text(), line)

    def test_the_command_says_what_came_of_it(self):
        daemon = self.daemon()
        daemon.write(GOOD[1])
        words = ("--admin", daemon.admin)
        done = daemon.cli("reload", *words)
        self.assertIn("configuration 2, hash " + daemon.hash_of(GOOD[1]), done.stdout)
        daemon.write(BAD["stage"][0])
        done = daemon.cli("reload", *words, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("afine", done.stdout + done.stderr)

    def test_a_client_learns_of_new_pipelines_and_credits_without_asking(self):
        daemon = self.daemon()
        with Client(daemon.url) as client:
            self.assertNotIn("extra", client.pipelines)
            self.assertEqual(daemon.reload(GOOD[2])[0], 200)
            wait_until(lambda: "extra" in client.pipelines, "the client knows extra")
            frames = numpy.ones((1, FRAME), numpy.float32)
            self.assertEqual(client.submit("extra", frames).result(60)["y"][0, 0], 1.5)
            self.assertEqual(daemon.reload(GOOD[4])[0], 200)
            waiting = [client.submit("steady", frames) for _ in range(400)]
            self.assertEqual({float(each.result(60)["y"][0, 0]) for each in waiting}, {2.0})

    def test_what_is_in_flight_is_finished_on_the_plan_that_it_began_with(self):
        taps = [1.0] * 8192

        def slow(factor):
            return configuration(steady(), pipeline("slow", "f32", [1 << 16], [
                ("z", "affine", f"a = {factor}\n"),
                ("y", "correlate", f'mode = "same"\nmethod = "direct"\ntemplate = {taps}\n')], ["z", "y"],
                "batch = { max_frames = 1 }\n"), before="[device]\nhost_threads = 1\n")
        daemon = self.daemon(text=slow(2.0))  # on one thread: the others wait behind the first
        frames = numpy.ones((1, 1 << 16), numpy.float32)
        factors, ahead, in_flight = [], [], collections.deque()

        def finish_first():
            factors.append(float(in_flight.popleft().result(120)["z"][0, 0]))

        def send():
            ahead.append(sum(not each.done() for each in in_flight))
            in_flight.append(client.submit("slow", frames))

        with Client(daemon.url, timeout=120) as client, futures.ThreadPoolExecutor() as other:
            for _ in range(20):
                send()
            reload = other.submit(daemon.reload, slow(3.0))
            while not reload.done():
                finish_first()
                send()
            self.assertEqual(reload.result()[0], 200)
            send()
            while in_flight:
                finish_first()
        # In the order in which they were sent: a request keeps the plan that it was let in with.
        switch = factors.index(3.0)
        self.assertEqual(factors, [2.0] * switch + [3.0] * (len(factors) - switch))
        self.assertGreater(switch, 0)
        self.assertGreater(ahead[switch], 0)

    def test_a_session_is_lost_with_its_pipeline_and_never_answered_wrongly(self):
        daemon = self.daemon()
        block = numpy.ones(64, numpy.float32)
        with Client(daemon.url) as client:
            session = client.session("sums")
            self.assertEqual(session.submit(block).result(60)["y"].ravel()[-1], 2)
            self.assertEqual(daemon.reload(GOOD[1])[0], 200)
            self.assertEqual(session.submit(block).result(60)["y"].ravel()[0], 2)
            self.assertEqual(daemon.reload(configuration(steady(), scaled(2), sums("[1.0, 3.0]")))[0], 200)
            with self.assertRaises(SessionLost):
                session.submit(block).result(60)
            with client.session("sums") as anew:
                self.assertEqual(list(anew.submit(block).result(60)["y"].ravel()[:2]), [1, 4])

    def test_a_session_of_a_pipeline_that_is_gone_is_lost_and_says_to_which_reload(self):
        daemon = self.daemon()
        block = numpy.ones(64, numpy.float32)
        with Client(daemon.url) as client:
            session = client.session("sums")
            session.submit(block).result(60)
            self.assertEqual(daemon.reload(configuration(steady(), scaled(2)))[0], 200)
            with self.assertRaises(SessionLost) as lost:
                session.submit(block).result(60)
            self.assertRegex(str(lost.exception), r"pipeline 'sums' was removed by the reload of \d{4}-\d\d-\d\d ")
            self.assertEqual(daemon.reload(configuration(steady(), scaled(2), sums()))[0], 200)
            wait_until(lambda: "sums" in client.pipelines, "the client knows sums")
            session = client.session("sums")
            session.submit(block).result(60)
            self.assertEqual(daemon.reload(configuration(steady(), scaled(2), sums("[1.0, 3.0]")))[0], 200)
            with self.assertRaises(SessionLost) as lost:
                session.submit(block).result(60)
            self.assertIn("pipeline 'sums' was changed by the reload of", str(lost.exception))

    def test_the_command_that_streams_stops_when_its_pipeline_goes(self):
        for name, dtype_bytes in (("sums", 4), ("steady", 4)):
            with self.subTest(pipeline=name):
                daemon = self.daemon()
                with subprocess.Popen([BIN / "penstock", "--url", daemon.url, "send", "-p", name, "--flush", "10ms", "-"],
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as sender:
                    block = bytes(dtype_bytes * FRAME)
                    sender.stdin.write(block)
                    sender.stdin.flush()
                    wait_until(lambda: daemon.counters()["status"]["requests"]["results"] > 0, "a result", 60)
                    self.assertEqual(daemon.reload(configuration(scaled(2)))[0], 200)
                    sender.stdin.write(block)  # and waits for more, which never comes
                    sender.stdin.flush()
                    self.assertEqual(sender.wait(60), 1)
                    said = sender.stdout.read().decode()
                self.assertIn("SESSION_LOST" if name == "sums" else "UNKNOWN_PIPELINE", said)
                if name == "sums":
                    self.assertIn("pipeline 'sums' was removed by the reload of", said)

    def test_a_pipeline_that_is_gone_is_refused_and_may_come_back(self):
        daemon = self.daemon(text=GOOD[2])
        frames = numpy.ones((1, FRAME), numpy.float32)
        with Client(daemon.url) as client:
            self.assertEqual(client.submit("extra", frames).result(60)["y"][0, 0], 1.5)
            self.assertEqual(daemon.reload(GOOD[0])[0], 200)
            wait_until(lambda: "extra" not in client.pipelines, "the client forgets extra")
            with self.assertRaises((LookupError, PenstockError)):
                client.submit("extra", frames).result(60)
            self.assertEqual(daemon.reload(GOOD[3])[0], 200)
            wait_until(lambda: "extra" in client.pipelines, "the client knows extra")
            self.assertEqual(client.submit("extra", frames).result(60)["y"][0, 0], 1.5)


class ReloadEdgesTest(WithDaemon):
    """Reloads at bad times: a shard that does not answer, a stop right after one, fewer credits under load."""

    def test_a_shard_that_does_not_answer_keeps_what_it_serves_and_takes_the_next(self):
        daemon = self.daemon(text=GOOD[0])
        held = HeldThread(daemon.process.pid, "shard-0")
        status, said = daemon.reload(GOOD[1])
        self.assertEqual(status, 422)
        self.assertIn("shard 0 did not answer", said["error"])
        held.let_go()
        self.assertEqual(daemon.served(), {"version": 1, "hash": daemon.hash_of(GOOD[0])})
        self.assertEqual(daemon.reload(GOOD[2])[0], 200)
        with Client(daemon.url) as client:
            self.assertIn("extra", client.pipelines)
            frames = numpy.ones((1, FRAME), numpy.float32)
            self.assertEqual(client.submit("scaled", frames).result(60)["y"][0, 0], 5)

    def test_a_stop_right_after_one_ends_well_however_long_a_shard_drains(self):
        length = 1 << 16
        slow = pipeline("slow", "f32", [length], [
            ("y", "correlate", f'mode = "same"\nmethod = "direct"\ntemplate = {[1.0] * 4096}\n')], ["y"],
            "batch = { max_frames = 1 }\n")
        two = '[device]\nshards = 2\n[daemon]\ndrain_timeout = "60s"\n'
        daemon = self.daemon(text=configuration(steady(), sums(), slow, before=two))
        with Client(daemon.url) as client:
            client.submit("slow", numpy.ones((1, length), numpy.float32)).result(60)
            self.assertEqual(daemon.reload(configuration(steady(), sums("[1.0, 2.0]"), slow, before=two))[0], 200)
            waiting = [client.submit("slow", numpy.ones((1, length), numpy.float32)) for _ in range(4)]
            while daemon.counters()["status"]["requests"]["in_flight"] == 0 and not all(each.done() for each in waiting):
                pass
            daemon.process.send_signal(signal.SIGTERM)
            # One shard has ended long since; what the other says next keeps it up while leftovers are asked for.
            until = time.monotonic() + 1.5
            while time.monotonic() < until and daemon.process.poll() is None:
                try:
                    client.submit("steady", numpy.ones((1, FRAME), numpy.float32)).result(5)
                except (PenstockError, futures.TimeoutError):
                    pass
            self.assertEqual(daemon.process.wait(60), 0, daemon.log.read_text())

    def test_timing_is_switched_off_and_on_unless_it_was_off_at_the_start(self):
        def at_rate(rate):
            return configuration(steady(), before=f"[timing]\nbatches_per_second = {rate}\n")

        def timed_batches(client):
            for _ in range(20):
                client.submit("steady", numpy.ones((1, FRAME), numpy.float32)).result(60)
            steady_one, = daemon.counters()["status"]["pipelines"]
            return steady_one["timing_us"].get("compute", {"count": 0})["count"]
        daemon = self.daemon(text=at_rate(1_000_000))
        with Client(daemon.url) as client:
            at_first = timed_batches(client)
            self.assertGreater(at_first, 0)
            self.assertEqual(daemon.reload(at_rate(0))[0], 200)
            self.assertEqual(timed_batches(client), at_first)
            self.assertEqual(daemon.reload(at_rate(1_000_000))[0], 200)
            self.assertGreater(timed_batches(client), at_first)
        daemon = self.daemon(text=at_rate(0))
        status, said = daemon.reload(at_rate(200))
        self.assertEqual(status, 422)
        self.assertIn("only a restart can change [timing] batches_per_second from 0", said["error"])

    def test_fewer_credits_refuse_nothing_that_was_under_way(self):
        daemon = self.daemon(text=configuration(steady(), credits=128))
        faults, over = [], threading.Event()
        frames = numpy.ones((1, FRAME), numpy.float32)

        def submit(client):
            while not over.is_set():
                for each in [client.submit("steady", frames) for _ in range(100)]:
                    try:
                        each.result(60)
                    except PenstockError as error:
                        faults.append(error)
        with Client(daemon.url) as client:
            load = threading.Thread(target=submit, args=(client,))
            load.start()
            try:
                for turn in range(60):
                    status, said = daemon.reload(configuration(steady(), credits=8 if turn % 2 == 0 else 128))
                    self.assertEqual(status, 200, said)
                    time.sleep(0.02)  # so that bursts fall before, between and after
            finally:
                over.set()
                load.join()
        self.assertEqual(faults, [])
        self.assertEqual(daemon.counters()["status"]["refused"], {})


if __name__ == "__main__":
    unittest.main()
