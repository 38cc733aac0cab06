"""`penstock record` and `penstock replay`: what a recording says of its samples is sent as it says, and recorded again the
same. The package `sigmf` checks the files, where this Python, or PENSTOCK_KERNEL_PYTHON, has it."""

import functools
import json
import math
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import numpy as np
from penstock import Client

from daemon_process import BIN, VERSION, Daemon, backends, pipeline, wait_until

PATIENCE_S = 60
TREE = pathlib.Path(__file__).resolve().parents[2]
RATE = 48000
CONFIGURATION = VERSION + "".join([
    pipeline("line", "f32", ["max 512"], [("sum", "fir", "taps = [0.5, 0.5]\n"),
                                          ("slow", "fir", 'from = "input"\ntaps = [1.0]\ndecimation = 4\n')],
             ["sum", "slow"], "batch = { max_frames = 16 }\n"),
    pipeline("rates", "f32", ["max 512"], [("fast", "resample", "up = 3\ndown = 2\n"),
                                           ("slow", "resample", 'from = "fast"\nup = 2\ndown = 9\n')], ["fast", "slow"]),
    pipeline("iq", "ci16", ["max 256"], [("y", "convert", "")], ["y"]),
    pipeline("fixed", "f32", [100], [("y", "affine", "a = 2.0\n"), ("half", "convert", 'from = "y"\nto = "f16"\n'),
                                     ("stats", "moments", 'from = "y"\n')], ["y", "half", "stats"])])


@functools.lru_cache
def python_with_sigmf():
    for each in (sys.executable, os.environ.get("PENSTOCK_KERNEL_PYTHON")):
        if each and subprocess.run([each, "-c", "import sigmf"], capture_output=True, check=False).returncode == 0:
            return each
    return None


def write(path, samples, captures, rate=RATE, dtype="rf32_le", **more):
    """NAME.sigmf-meta and NAME.sigmf-data."""
    with open(path, "w") as file:
        json.dump({"global": {"core:datatype": dtype, "core:version": "1.0.0", "core:sample_rate": rate, **more},
                   "captures": captures, "annotations": []}, file)
    path.with_suffix(".sigmf-data").write_bytes(samples.tobytes())


def capture(start, index, second=None, **more):
    """`second`: of its time, to the nanosecond."""
    made = {"core:sample_start": start, "core:global_index": index, **more}
    if second is not None:
        made["core:datetime"] = f"2026-01-31T12:00:{second:012.9f}Z"
    return made


def read(path):
    meta = json.loads(path.read_text())
    return meta, path.with_suffix(".sigmf-data").read_bytes()


class Record(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon(backends()[0], "callback", CONFIGURATION)

    @classmethod
    def tearDownClass(cls):
        code, log = cls.daemon.stop()
        assert code == 0, log

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_command(self, *words):
        return subprocess.run([BIN / "penstock", "--url", self.daemon.url, *map(str, words)], capture_output=True,
                              text=True, timeout=PATIENCE_S, check=False)

    def open_subscriptions(self):
        return self.daemon.counters()["status"]["subscriptions"]["open"]

    def record(self, *words):
        """`penstock record`, once it has subscribed."""
        wait_until(lambda: self.open_subscriptions() == 0, "those before have ended")
        process = subprocess.Popen([BIN / "penstock", "--url", self.daemon.url, "record", *map(str, words)],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        wait_until(lambda: self.open_subscriptions() == 1, "it has subscribed")
        return process

    def end(self, process):
        wait_until(lambda: self.daemon.counters()["status"]["subscriptions"]["queued_bytes"] == 0, "all is sent to it")
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=PATIENCE_S)
        self.assertEqual((process.returncode, error), (130, ""), out)
        return out

    def replay(self, *words):
        done = self.run_command("replay", *words)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        return done.stdout

    def check(self, path):
        """What the package `sigmf` says."""
        if python_with_sigmf() is not None:
            code = ("import sigmf, sys\nfile = sigmf.sigmffile.fromfile(sys.argv[1])\nfile.validate()\n"
                    "print(len(file.read_samples()), len(file.get_captures()))")
            done = subprocess.run([python_with_sigmf(), "-W", "ignore", "-c", code, path], capture_output=True, text=True,
                                  timeout=PATIENCE_S, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            return tuple(map(int, done.stdout.split()))
        return None

    def round_trip(self, path, name, *words):
        """What is recorded of what is sent of a recording."""
        recording = self.record(name, "--requests", "--to", self.folder / "again.sigmf-meta", "--force")
        said = self.replay(path, "--pipeline", name, "--pace", "free", *words)
        self.end(recording)
        return (*read(self.folder / "again.sigmf-meta"), said)

    def test_a_recording_is_recorded_again_as_it_was(self):
        samples = np.random.default_rng(1).standard_normal(10_000).astype("<f4")
        captures = [capture(0, 5000, 1.0), capture(3000, 8100, 1 + 3100 / RATE),
                    capture(3001, 9000, 1 + 4000 / RATE),
                    capture(8000, 13999, 50.25),  # the same stream, and its clock was set
                    capture(9000, 7, 3.5, **{"penstock:epoch": 2}),
                    capture(9500, 600, 3.5 + 593 / RATE, **{"penstock:epoch": 2})]
        write(self.folder / "first.sigmf-meta", samples, captures)
        meta, data, said = self.round_trip(self.folder / "first.sigmf-meta", "line", "--session", "tape")
        self.assertEqual(data, samples.tobytes())
        self.assertEqual(meta["captures"], captures)
        self.assertEqual(meta["global"]["core:sample_rate"], RATE)
        self.assertEqual(meta["global"]["core:datatype"], "rf32_le")
        self.assertEqual(meta["annotations"], [])
        self.assertIn('in the session "tape"', said)
        self.assertIn("samples     10,000 in 6 captures, 1,092 declared lost, 0 filled in", said)
        again = self.folder / "again.sigmf-meta"
        once_more = again.rename(self.folder / "second.sigmf-meta")
        again.with_suffix(".sigmf-data").rename(self.folder / "second.sigmf-data")
        self.assertEqual(self.round_trip(once_more, "line", "--session", "tape")[:2], (meta, data))
        self.assertIn(self.check(once_more), (None, (10_000, 6)))

    def test_a_recording_that_sigmf_wrote_comes_back_and_is_one(self):
        if python_with_sigmf() is None:
            self.skipTest("no Python here has the package sigmf")
        code = """
import sigmf, sys, numpy
numpy.arange(6000, dtype="<i2").tofile(sys.argv[1] + ".sigmf-data")
made = sigmf.SigMFFile(data_file=sys.argv[1] + ".sigmf-data",
                       global_info={"core:datatype": "ci16_le", "core:sample_rate": 2.4e6, "core:version": "1.0.0"})
made.add_capture(0, metadata={"core:global_index": 0, "core:datetime": "2026-05-01T00:00:00.000000001Z"})
made.add_capture(1000, metadata={"core:global_index": 24001000, "core:datetime": "2026-05-01T00:00:10.000416668Z"})
made.tofile(sys.argv[1] + ".sigmf-meta")
"""
        first = self.folder / "first.sigmf-meta"
        subprocess.run([python_with_sigmf(), "-W", "ignore", "-c", code, first.with_suffix("")], check=True,
                       timeout=PATIENCE_S)
        meta, data, _ = self.round_trip(first, "iq")
        given, _ = read(first)
        self.assertEqual(data, np.arange(6000, dtype="<i2").tobytes())
        self.assertEqual(meta["captures"], given["captures"])
        self.assertEqual(meta["global"]["core:sample_rate"], 2.4e6)
        self.assertEqual(self.check(self.folder / "again.sigmf-meta"), (3000, 2))

    def test_each_session_and_output_has_a_recording(self):
        recording = self.record("line", "--to", self.folder / "new")
        x = np.arange(512, dtype="f4")
        with Client(self.daemon.url, name="radio") as client:
            for name in ("antenna 1", "../2"):
                with client.session("line", name=name) as session:
                    for index in (0, 512, 2048):
                        session.submit(x, index=index, time_ns=10**18 + index * 10**9 // RATE,
                                       lost_before=1024 if index == 2048 else 0).result()
            with client.session("line", name="antenna 1") as session:  # opened again: it goes on
                session.submit(x).result()
        out = self.end(recording)
        names = ["_.._2.slow", "_.._2.sum", "antenna_1.slow", "antenna_1.sum"]
        self.assertEqual(sorted(each.stem for each in (self.folder / "new").glob("*.sigmf-meta")), names)
        self.assertIn('7 results of "line" in ', out)
        meta, data = read(self.folder / "new" / "antenna_1.slow.sigmf-meta")
        self.assertEqual(meta["global"]["core:sample_rate"], RATE / 4)
        self.assertIn("slow of pipeline line, session antenna 1, client radio", meta["global"]["core:description"])
        self.assertEqual([(each["core:sample_start"], each.get("core:global_index")) for each in meta["captures"]],
                         [(0, 0), (256, 512), (384, None)])
        self.assertEqual(len(data), 4 * 512)
        for name in names:
            self.check(self.folder / "new" / (name + ".sigmf-meta"))

    def test_results_of_a_rational_rate_are_one_capture_with_its_rate(self):
        def sent(*words, **times):
            recording = self.record("rates", *words)
            with Client(self.daemon.url) as client, client.session("rates", name="tape") as session:
                for first, count in ((0, 500), (500, 1), (501, 2), (503, 511), (1014, 7), (1021, 500), (1522, 500)):
                    time_of = {"time_ns": 10**18 + first * 10**9 // RATE} if times.get("times") else {}
                    session.submit(np.zeros(count, "f4"), index=first, **time_of).result()
            return self.end(recording)

        out = sent("--to", self.folder / "new", times=True)
        self.assertNotIn("no sample rate", out)
        fast = lambda n: math.ceil(n * 3 / 2)  # noqa: E731
        for name, rate, of in (("fast", RATE * 3 / 2, fast), ("slow", RATE / 3, lambda n: math.ceil(fast(n) * 2 / 9))):
            meta, data = read(self.folder / "new" / f"tape.{name}.sigmf-meta")
            self.assertEqual(meta["global"]["core:sample_rate"], rate)
            starts = [each["core:sample_start"] for each in meta["captures"]]
            self.assertEqual(starts, [0, of(1521)], "a sample is lost before 1522")
            self.assertEqual(len(data), 4 * of(2021))
            self.check(self.folder / "new" / f"tape.{name}.sigmf-meta")
        out = sent("--output", "fast", "--to", self.folder / "bare.sigmf-meta")
        self.assertIn("bare.sigmf-meta has no sample rate: no times came with the samples; --rate says it", out)
        self.assertEqual(read(self.folder / "bare.sigmf-meta")[0]["global"].get("core:sample_rate", 0), 0)
        out = sent("--output", "fast", "--rate", RATE, "--force", "--to", self.folder / "bare.sigmf-meta")
        self.assertNotIn("no sample rate", out)
        self.assertEqual(read(self.folder / "bare.sigmf-meta")[0]["global"]["core:sample_rate"], RATE * 3 / 2)

    def test_the_example_of_the_documents_works(self):
        text = (TREE / "docs/operating.md").read_text()
        record, replay = re.findall(r"^\$ penstock (re\S+ .*)$", text[text.index("### `penstock record`"):], re.M)[:2]
        recording = self.record(*(self.folder / word if word == "bug" else word for word in record.split()[1:]))
        x = np.arange(700, dtype="f4")
        with Client(self.daemon.url) as client, client.session("line", name="antenna") as session:
            session.submit(x[:512], index=0, time_ns=10**18).result()
            session.submit(x[512:], index=512, time_ns=10**18 + 512 * 10**9 // RATE).result()
        self.end(recording)
        said = self.replay(*(self.folder / word if word.startswith("bug") else word for word in replay.split()[1:]))
        self.assertIn("700 in 1 capture", said)

    def test_frames_of_a_fixed_length_are_filled_up_and_the_account_says_so(self):
        samples = np.arange(1, 331, dtype="f4")
        write(self.folder / "first.sigmf-meta", samples,
              [capture(0, 1000), capture(150, 1170), capture(290, 1500)])  # gaps of 20 and of 190
        with Client(self.daemon.url) as client, client.subscribe("fixed", requests=True) as sent:
            said = self.replay(self.folder / "first.sigmf-meta", "--pipeline", "fixed", "--pace", "free")
            items = sorted((sent.get(PATIENCE_S) for _ in range(5)), key=lambda item: item.account.index)
        self.assertEqual([(item.account.index, item.account.lost_before, item.account.filled) for item in items],
                         [(1000, 0, 0), (1100, 0, 20), (1200, 0, 0), (1300, 0, 90), (1500, 100, 60)])
        signal_as_sent = np.zeros(600, "f4")
        signal_as_sent[:150], signal_as_sent[170:310], signal_as_sent[500:540] = samples[:150], samples[150:290], samples[290:]
        for item in items:
            at = item.account.index - 1000
            np.testing.assert_array_equal(item.array[0], signal_as_sent[at:at + 100])
        self.assertIn("330 in 3 captures, 100 declared lost, 170 filled in", said)

    def test_results_of_a_replay_are_written_with_the_number_of_filled_samples(self):
        write(self.folder / "first.sigmf-meta", np.ones(330, "f4"),
              [capture(0, 1000, 0.5), capture(150, 1170), capture(290, 1500)])
        words = ("replay", self.folder / "first.sigmf-meta", "--pipeline", "fixed", "--pace", "free", "--output", "y")
        done = self.run_command(*words, "--out", self.folder / "out")
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        self.assertIn("y.filled.npy  i64 [5]", done.stdout)
        index, filled = (np.load(self.folder / "out" / f"y.{name}.npy") for name in ("index", "filled"))
        self.assertEqual(list(zip(index, filled)), [(1000, 0), (1100, 20), (1200, 0), (1300, 90), (1500, 60)])
        lines = [json.loads(line) for line in
                 self.run_command(*words, "--out", "-", "--format", "jsonl").stdout.splitlines()]
        self.assertEqual([line["filled"] for line in lines], [0, 20, 0, 90, 60])
        lines = [line.split(",") for line in self.run_command(*words, "--out", "-").stdout.splitlines()]
        self.assertEqual([(line[0], line[2], len(line)) for line in lines],
                         [("1000", "0", 103), ("1100", "20", 103), ("1200", "0", 103), ("1300", "90", 103),
                          ("1500", "60", 103)])

    def test_results_of_a_replay_are_written_with_their_numbers(self):
        write(self.folder / "first.sigmf-meta", np.ones(1000, "f4"), [capture(0, 64, 1.0), capture(600, 800)])
        self.replay(self.folder / "first.sigmf-meta", "--pipeline", "line", "--pace", "free", "--out",
                    self.folder / "out", "--output", "sum")
        self.assertEqual(len(np.load(self.folder / "out" / "sum.npy")), 1000)
        index = np.load(self.folder / "out" / "sum.index.npy")
        self.assertEqual((list(index[:2]), list(index[599:601])), ([63, 64], [662, 799]))  # a filter of two taps is half a sample late

    def test_it_ends_after_a_time_or_so_many_bytes(self):
        done = self.run_command("record", "line", "--to", self.folder / "none", "--for", "10ms")
        self.assertEqual((done.returncode, done.stderr), (1, ""))
        self.assertTrue(done.stdout.startswith('0 results of "line" in '), done.stdout)
        recording = self.record("fixed", "--output", "y", "--to", self.folder / "y.sigmf-meta", "--max-bytes", "1 kB")
        with Client(self.daemon.url) as client:
            for _ in range(4):
                client.submit("fixed", np.ones(100, "f4")).result()
        out, _ = recording.communicate(timeout=PATIENCE_S)
        self.assertEqual(recording.returncode, 0, out)
        self.assertIn("2 results", out)
        self.assertIn("up to --max-bytes", out)
        self.assertEqual(len(read(self.folder / "y.sigmf-meta")[1]), 800)

    def test_a_replay_keeps_the_pace_of_its_samples(self):
        write(self.folder / "first.sigmf-meta", np.zeros(RATE // 2, "f4"),
              [capture(0, 0), capture(RATE // 4, RATE // 2)])  # and a quarter of a second is lost
        began = time.monotonic()
        self.replay(self.folder / "first.sigmf-meta", "--pipeline", "line", "--pace", "2x")
        self.assertGreater(time.monotonic() - began, 0.374)  # on a busy machine it takes longer, and never less

    def test_what_cannot_be_is_refused_in_plain_words(self):
        write(self.folder / "iq.sigmf-meta", np.zeros(100, "<i2"), [capture(0, 0)], dtype="ci16_le")
        write(self.folder / "slow.sigmf-meta", np.zeros(10, "f4"), [], rate=0)
        there = self.folder / "iq.sigmf-meta"
        for words, why in (
                (("record", "fixed", "--to", self.folder), "SigMF has no f16, which half of pipeline 'fixed' is"),
                (("record", "line", "--to", self.folder / "x.sigmf-meta"), "one recording holds one output"),
                (("record", "line", "--output", "sum", "--to", there), "is there already: --force replaces it"),
                (("record", "line", "--requests", "--output", "sum", "--to", there), "leave out --output"),
                (("replay", there, "--pipeline", "line"), "holds ci16_le in 1 channel, and pipeline 'line' takes f32"),
                (("replay", self.folder / "slow.sigmf-meta", "--pipeline", "line"), "say --rate, or --pace free"),
                (("replay", self.folder / "none.sigmf-meta", "--pipeline", "line"), "none.sigmf-meta"),
                (("send", there, "--pipeline", "iq"), "`penstock replay` sends it")):
            done = self.run_command(*words)
            self.assertEqual(done.returncode, 1, words)
            self.assertIn(why, done.stderr)


if __name__ == "__main__":
    unittest.main()
