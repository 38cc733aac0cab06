"""How users run the clients against a real daemon: forks, scripts that exit early, one-liners, asyncio, whole
recordings, and wrong addresses and keys; in Python and on the command line."""

import asyncio
import multiprocessing
import os
import re
import socket
import subprocess
import sys
import textwrap
import time
import unittest
import warnings

from daemon_process import BIN, Daemon, free_port
from guarded_daemon import GuardedDaemon

try:
    import numpy as np
    import penstock
    from penstock import AsyncClient, Client
except ImportError:
    np = None

TAPS = [0.25, -0.5, 1.0, 0.75, -0.125]
CONFIGURATION = f"""
config_version = 1

[[pipeline]]
name = "double"
input = {{ dtype = "f32", shape = [32768] }}
[[pipeline.stage]]
name = "out"
op = "affine"
a = 2.0

[[pipeline]]
name = "filtered"
input = {{ dtype = "f32", shape = ["max 1000"] }}
outputs = ["fir", "stats"]
[[pipeline.stage]]
name = "fir"
op = "fir"
from = "input"
taps = {TAPS}
[[pipeline.stage]]
name = "stats"
op = "moments"
from = "input"

[[pipeline]]
name = "halved"
input = {{ dtype = "f32", shape = ["max 777"] }}
[[pipeline.stage]]
name = "fir"
op = "fir"
taps = {TAPS}
decimation = 8

[[pipeline]]
name = "fixed"
input = {{ dtype = "i16", shape = [256, 2] }}
[[pipeline.stage]]
name = "v"
op = "convert"
"""
#: How long the clients are told to wait, and what "at once" is beside that on a machine that does much else.
PATIENT_S, AT_ONCE_S = 60, 30
client = None  # of the process that a pool forks


def double_of(x):
    return client.submit("double", x, timeout=20).result().array


def submit_and_end(url):
    made = Client(url, connect_timeout=60)
    for _ in range(20):
        made.submit("double", np.zeros(32768, np.float32))


@unittest.skipUnless(np, "numpy or pyzmq is missing")
class Clients(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon("host", "callback", CONFIGURATION, admin=f"127.0.0.1:{free_port()}")

    @classmethod
    def tearDownClass(cls):
        code, log = cls.daemon.stop()
        assert code == 0, log

    def connect(self, **options):
        made = Client(self.daemon.url, connect_timeout=60, **options)
        self.addCleanup(made.close)
        return made

    def run_script(self, text):
        """A program's exit code and what it printed, errors too."""
        done = subprocess.run([sys.executable, "-c", textwrap.dedent(text), self.daemon.url], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=120,
                              env={**os.environ, "PYTHONWARNINGS": "ignore::DeprecationWarning"})  # of forks
        return done.returncode, done.stdout

    def requests(self):
        return self.daemon.counters()["status"]["requests"]

    # Forks.

    def test_a_pool_over_a_global_client_fails_at_once_and_the_parent_goes_on(self):
        global client
        client = self.connect()
        x = np.ones(32768, np.float32)
        expected = double_of(x)
        with multiprocessing.get_context("fork").Pool(2) as pool:
            with self.assertRaisesRegex(RuntimeError, "belongs to process"):
                pool.map_async(double_of, [x] * 4).get(60)
        np.testing.assert_array_equal(double_of(x), expected)

    def test_a_forked_child_computes_with_a_client_of_its_own(self):
        parents = self.connect()
        x = np.arange(32768, dtype=np.float32)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            said = b"no"
            try:
                with Client(self.daemon.url, connect_timeout=60) as own:
                    said = own.submit("double", x).result().array[-4:].tobytes()
            finally:
                os.write(writer, said)
                os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb") as end:
            np.testing.assert_array_equal(np.frombuffer(end.read(), np.float32), 2 * x[-4:])
        os.waitpid(child, 0)
        np.testing.assert_array_equal(parents.submit("double", x).result().array, 2 * x)

    # Ends.

    def test_a_script_that_just_ends_has_all_of_its_requests_computed(self):
        for transport in ("zmq", "auto"):
            before = self.requests()["results"]
            ended = self.run_script(f"""
                import sys
                import numpy as np
                from penstock import Client
                c = Client(sys.argv[1], connect_timeout=60, transport="{transport}")
                for _ in range(50):
                    c.submit("double", np.zeros(32768, np.float32))
            """)
            self.assertEqual(ended, (0, ""))
            self.assertEqual(self.requests()["results"] - before, 50)

    def test_a_child_of_multiprocessing_that_just_ends_has_its_requests_computed(self):
        before = self.requests()["results"]
        child = multiprocessing.get_context("fork").Process(target=submit_and_end, args=(self.daemon.url,))
        child.start()
        child.join(60)
        self.assertEqual((child.exitcode, self.requests()["results"] - before), (0, 20))

    def test_a_forked_child_ends_as_any_process(self):
        done = self.run_script("""
            import os, sys
            from penstock import Client
            c = Client(sys.argv[1], connect_timeout=60)
            s = c.session("double")
            child = os.fork()
            if child == 0:
                sys.exit(7)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), c.ping() > 0)
        """)
        self.assertEqual(done, (0, "7 True\n"))

    def test_a_one_liner_has_its_result(self):
        x = np.arange(32768, dtype=np.float32)
        np.testing.assert_array_equal(Client(self.daemon.url, connect_timeout=60).submit("double", x).result().array,
                                      2 * x)
        future = Client(self.daemon.url, connect_timeout=60).session("double").submit(x)
        np.testing.assert_array_equal(future.result(60).array, 2 * x)

    # Whole recordings, against numpy in float64.

    def test_run_gives_the_result_of_the_whole_recording(self):
        made = self.connect()
        x = np.random.default_rng(7).standard_normal(123_456).astype(np.float32)
        filtered = np.convolve(x.astype(np.float64), TAPS)[:len(x)]
        for length in (len(x), 100_000, 999, 1):
            with made.session("filtered") as session:
                given = session.run(x[:length])
            np.testing.assert_allclose(given["fir"], filtered[:length], rtol=0, atol=1e-5)
            self.assertEqual(given["stats"].shape[0], -(-length // 1000))
            means = [part.mean() for part in np.split(x[:length].astype(np.float64), range(1000, length, 1000))]
            np.testing.assert_allclose(given["stats"][:, 0], means, rtol=0, atol=1e-6)
        with made.session("halved") as session:
            given = session.run(x)
        np.testing.assert_allclose(given.array, filtered[::8], rtol=0, atol=1e-5)

    def test_stream_gives_what_run_gives(self):
        made = self.connect()
        x = np.random.default_rng(8).standard_normal(20_000).astype(np.float32)
        filtered = np.convolve(x.astype(np.float64), TAPS)[:len(x)]
        cuts = np.sort(np.random.default_rng(9).integers(0, len(x), 40))
        with made.session("halved") as session:
            parts = [each.array for each in session.stream(np.split(x, cuts))]
        np.testing.assert_allclose(np.concatenate(parts), filtered[::8], rtol=0, atol=1e-5)

    def test_the_tail_of_a_recording_for_frames_of_one_length_is_said(self):
        made = self.connect()
        x = np.random.default_rng(10).integers(-32768, 32768, (1000, 2)).astype(np.int16)
        scaled = x.astype(np.float64) / 32768
        with made.session("fixed") as session, self.assertWarnsRegex(UserWarning, "232 samples at the end"):
            given = session.run(x)
        np.testing.assert_allclose(given.array.reshape(-1, 2), scaled[:768], rtol=0, atol=1e-6)
        with made.session("fixed") as session, warnings.catch_warnings():
            warnings.simplefilter("error")
            given = session.run(x, tail="pad")
        np.testing.assert_allclose(given.array.reshape(-1, 2)[:1000], scaled, rtol=0, atol=1e-6)

    # asyncio.

    def test_the_loop_goes_on_whatever_the_client_does(self):
        x = np.random.default_rng(11).standard_normal(32768).astype(np.float32)
        beats = []

        async def beat():
            while True:
                await asyncio.sleep(0.001)
                beats.append(time.monotonic())

        async def main():
            beating = asyncio.ensure_future(beat())
            async with AsyncClient(self.daemon.url, connect_timeout=60) as made:
                status = await made.status()
                begun, before = time.monotonic(), len(beats)
                results = await asyncio.gather(*(made.submit("double", x * each) for each in range(400)))
                elapsed, beaten = time.monotonic() - begun, len(beats) - before
                async with made.session("filtered") as session:
                    streamed = [each["fir"] async for each in session.stream(np.split(x, 64))]
                    whole = await session.run(x)
            beating.cancel()
            return status, results, streamed, whole, elapsed, beaten

        status, results, streamed, whole, elapsed, beaten = asyncio.run(main())
        self.assertIn("requests", status)
        for each, result in enumerate(results):
            np.testing.assert_array_equal(result.array, 2 * (x * each))
        filtered = np.convolve(np.tile(x, 2).astype(np.float64), TAPS)
        np.testing.assert_allclose(np.concatenate([*streamed, whole["fir"]]), filtered[:2 * len(x)], rtol=0, atol=1e-5)
        # 400 requests are several times what the credits allow: a loop that waits for them would stand still.
        self.assertGreater(beaten, 10, f"in {elapsed:.2f} s")

    # Wrong addresses.

    def both_say(self, url, wanted, options=None, environment=None, patient=True):
        """Python and the command line say that, at once although they are told to wait, where they are."""
        begun = time.monotonic()
        with self.assertRaisesRegex((penstock.PenstockError, ValueError), wanted):
            Client(url, connect_timeout=PATIENT_S if patient else None, **(options or {}))
        self.assertLess(time.monotonic() - begun, AT_ONCE_S)
        begun = time.monotonic()
        waits = ["--timeout", f"{PATIENT_S}s"] if patient else []
        done = subprocess.run([BIN / "penstock", "--url", url, *waits, "info"], capture_output=True, text=True,
                              timeout=120, env={**os.environ, **(environment or {})})
        self.assertLess(time.monotonic() - begun, AT_ONCE_S)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, wanted)

    def wrong_names(self):
        """Where there is a name server that says so."""
        begun = time.monotonic()
        try:
            socket.getaddrinfo("no-such-machine.invalid", 7600)
        except socket.gaierror as error:
            if error.errno == socket.EAI_NONAME and time.monotonic() - begun < 1:
                return [("tcp://no-such-machine.invalid:7600", "no-such-machine.invalid.*can't be resolved")]
        return []

    def test_wrong_addresses_are_said_at_once(self):
        for url, wanted in (
                *self.wrong_names(),
                ("tcp://127.0.0.1:99999", "99999.*from 1 to 65535"), ("tcp://localhost", "localhost.*no port"),
                ("http://127.0.0.1:7680", "http.*no transport"), ("127.0.0.1:7600", "did you mean tcp://"),
                (f"tcp://{self.daemon.admin}", "is no ZeroMQ.*7680 its admin HTTP"),
                ("ipc://" + 200 * "x", "at most 107")):
            with self.subTest(url=url):
                self.both_say(url, wanted)

    def test_that_nobody_listens_is_said(self):
        gone = f"tcp://127.0.0.1:{free_port()}"
        self.both_say(gone, f"{re.escape(gone)}.*the connection is refused.*is penstockd running", patient=False)
        self.both_say(self.daemon.url + "-not", "-not.*there is no such socket", patient=False)

    def test_wrong_keys_are_said_at_once(self):
        for url in (None, lambda path: f"ipc://{path}/data"):
            with GuardedDaemon(url=url) as guarded:
                file = str(guarded.path / "listed.key")
                for wanted, server, key in (
                        ("it asks for keys: give its public key", None, None),
                        ("is (the )?server[_ ]key the daemon's", guarded.public("other"), file),
                        ("key is not among the authorised ones", guarded.public("server"),
                         str(guarded.path / "unlisted.key"))):
                    with self.subTest(wanted=wanted, url=guarded.url):
                        self.both_say(guarded.url, wanted, {"server_key": server, "key_file": key},
                                      {"PENSTOCK_SERVER_KEY": server, "PENSTOCK_KEY_FILE": key} if server else None)
        with GuardedDaemon() as guarded:
            server, file = guarded.public("server"), str(guarded.path / "listed.key")
            self.both_say(self.daemon.url, "it asks for no keys", {"server_key": server, "key_file": file},
                          {"PENSTOCK_SERVER_KEY": server, "PENSTOCK_KEY_FILE": file})


if __name__ == "__main__":
    unittest.main()
