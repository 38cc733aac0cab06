"""The account of samples through a real daemon: a result says which samples of its sender's clock it is of.

The signals are ramps whose values are the samples' own numbers. A filter of linear phase whose taps add up to 1 gives the
ramp again, later by its group delay: so each output is the number of the sample at which it stands.

PENSTOCK_TEST_SEED repeats a run.
"""

import asyncio
import math
import os
import random
import unittest

import numpy as np
from scipy import signal

from daemon_process import VERSION, Daemons, pipeline
from raw_client import RawClient

SEED = int(os.environ.get("PENSTOCK_TEST_SEED", random.randrange(2**32)))
LONGEST = 4096


def taps(count, phase="linear"):
    """Low-pass taps that add up to 1."""
    made = np.hamming(count + 2)[1:-1] if phase == "linear" else np.arange(count, 0, -1.0)
    return (made / made.sum()).astype(np.float32)


def fir(name, source, given, decimation):
    return name, "fir", f'from = "{source}"\ntaps = {given.tolist()}\ndecimation = {decimation}\n'


ODD, EVEN, MINIMUM = taps(33), taps(16), taps(9, "minimum")
LENGTH = 32  # of a row
CHAIN = [fir("odd", "input", ODD, 4), fir("even", "odd", EVEN, 2), fir("half", "input", EVEN, 3),
         fir("minimum", "input", MINIMUM, 5),
         ("rows", "reframe", f'from = "odd"\nlength = {LENGTH}\n'),
         ("psd", "power_spectrum", 'from = "rows"\n'),
         ("average", "accumulate", 'from = "psd"\nframes = 2\nalong = "rows"\n'),
         ("blocks", "reframe", f'from = "input"\nlength = {LENGTH}\n'),
         ("windows", "reframe", f'from = "input"\nlength = {LENGTH}\nhop = 5\n'),
         ("padded", "reframe", f'from = "odd"\nlength = {LENGTH}\nhop = 7\npadding = 20\n'),
         ("same", "affine", 'from = "input"\n')]
OUTPUTS = [name for name, _, _ in CHAIN]
STEPS = {"odd": 4, "even": 8, "half": 3, "minimum": 5, "rows": 4 * LENGTH, "psd": 4 * LENGTH, "average": 4 * LENGTH,
         "blocks": LENGTH, "windows": 5, "padded": 4 * 7, "same": 1}
#: The same of taps that are complex, or symmetric but for a sign or a conjugation.
PHASES = {"opposite": ([1.0, 2.0, 0.0, -2.0, -1.0], None), "hermitian": ([1.0, 2.0, 1.0], [1.0, 0.0, -1.0]),
          "no_phase": ([1.0, 2.0, 1.0], [1.0, 0.0, 1.5]), "one": ([2.0], [1.0])}
PHASE_STAGES = [(name, "fir", f'from = "input"\ntaps = {real}\n' + ("" if imaginary is None else
                                                                     f"taps_imag = {imaginary}\n"))
                for name, (real, imaginary) in PHASES.items()]
#: Operators whose delay the daemon knows: each with what an impulse may be off by, in samples. A decimation keeps the
#: sample that is next to it; a row has the impulse at its own place.
IMPULSES = [(*fir("linear", "input", ODD, 1), 0), (*fir("between", "input", EVEN, 1), 1),
            (*fir("fifth", "input", ODD, 5), 2), (*fir("after", "linear", taps(9), 3), 1),
            ("scaled", "affine", 'from = "linear"\na = 2.0\n', 0),
            ("score", "moving_zscore", 'from = "input"\nwindow = 16\n', 0),
            ("in_rows", "reframe", f'from = "linear"\nlength = {LENGTH}\n', 0),
            ("faster", "resample", 'from = "linear"\nup = 3\ndown = 2\n', 1),
            ("slower", "resample", 'from = "input"\nup = 2\ndown = 5\n', 2.25),
            ("spectra", "stft", 'from = "linear"\nlength = 32\npadding = 16\n', 0),
            ("again", "istft", 'from = "spectra"\npadding = 16\n', 0)]
#: Frames of CHANNELS rows of PLANE samples: all that keeps state steps along them.
CHANNELS, PLANE = 8, 1024
FASTER = 3 * taps(31)
SECTIONS = signal.butter(4, 0.2, output="sos")
PLANAR = [("low", "fir", f'from = "input"\ntaps = {ODD.tolist()}\ndecimation = 4\naxis = -1\n'),
          ("poles", "iir", f'from = "input"\nsections = {SECTIONS.ravel().tolist()}\naxis = 1\n'),
          ("spectra", "stft", 'from = "low"\nlength = 64\nhop = 32\npadding = 32\naxis = 1\n'),
          ("rows", "reframe", 'from = "input"\nlength = 128\naxis = -1\n'),
          ("fast", "resample", f'from = "low"\nup = 3\ndown = 2\ntaps = {FASTER.tolist()}\naxis = -1\n'),
          ("events", "detect", 'from = "poles"\nhigh = 1.0\nlow = 0.5\nmax_events = 200\nalong = "session"\naxis = -1\n'),
          ("turned", "transpose", 'from = "low"\n'),
          ("again", "fir", f'from = "turned"\ntaps = {taps(9).tolist()}\ndecimation = 2\naxis = 0\n')]
#: How many samples each of its outputs stands before a frame.
BEFORE = {"low": 16, "poles": 0, "spectra": 16 + 4 * 32, "rows": 0, "fast": 16 + 4 * 5, "events": 0, "turned": 16,
          "again": 16 + 4 * 4}
#: The others, of complex samples.
BANK = taps(24)
IQ = [("mixed", "mix", 'from = "input"\nfrequency = 0.1\nphase = 0.25\naxis = -1\n'),
      ("fm", "demodulate", 'from = "mixed"\nkind = "fm"\naxis = 1\n'),
      ("pm", "demodulate", 'from = "input"\nkind = "pm"\naxis = -1\n'),
      ("bank", "channelize", f'from = "input"\nchannels = 8\nhop = 4\ntaps = {BANK.tolist()}\naxis = 1\n'),
      ("spectra", "stft", 'from = "input"\nlength = 64\nhop = 16\npadding = 48\naxis = -1\n'),
      ("again", "istft", 'from = "spectra"\nhalf = false\naxis = 1\n'),
      ("score", "moving_zscore", 'from = "fm"\nwindow = 100\naxis = -1\n'),
      ("levels", "magnitude", 'from = "bank"\n'),
      ("mean", "accumulate", 'from = "levels"\nframes = 5\nalong = "rows"\nevery = 2\naxis = 1\n'),
      ("power", "magnitude", 'from = "input"\n'),
      ("peak", "accumulate", 'from = "power"\nframes = 70\nkind = "peak"\nalong = "rows"\naxis = -1\n')]
CONFIGURATION = VERSION + "".join([
    pipeline("chain", "f32", [f"max {LONGEST}"], CHAIN, OUTPUTS, "batch = { max_frames = 16 }\n"),
    pipeline("fixed", "f32", [256], CHAIN[:1] + [("psd", "power_spectrum", 'from = "odd"\n')], ["odd", "psd"]),
    pipeline("phases", "cf32", ["max 64"], PHASE_STAGES, list(PHASES)),
    pipeline("planar", "f32", [CHANNELS, PLANE], PLANAR, list(BEFORE), "batch = { max_frames = 8 }\n"),
    pipeline("planar_iq", "cf32", [CHANNELS, PLANE], IQ, [name for name, _, _ in IQ], "batch = { max_frames = 8 }\n"),
    pipeline("rows", "f32", ["max 100"], [("row", "reframe", "length = 100\n")], ["row"]),
    pipeline("doubled", "f32", [4], [("y", "affine", "a = 2.0\n"), ("stats", "moments", 'from = "input"\n')],
             ["y", "stats"]),
    pipeline("impulses", "f32", [f"max {LONGEST}"], [each[:3] for each in IMPULSES], [each[0] for each in IMPULSES if each[0] != "spectra"],
             "batch = { max_frames = 16 }\n")])


def stands_at(clock):
    """By numpy: for each output of "chain" the sample at which its k-th element stands, of a session whose n-th sample
    is clock[n]."""
    rows = lambda k: 4 * LENGTH * k - 16  # noqa: E731
    steps = {"odd": lambda k: 4 * k - 16, "even": lambda k: 8 * k - 16 - 4 * 7.5, "half": lambda k: 3 * k - 7.5,
             "minimum": lambda k: 5 * k, "rows": rows, "psd": rows, "average": rows, "blocks": lambda k: LENGTH * k, "windows": lambda k: 5 * k,
             "padded": lambda k: 4 * (7 * k - 20) - 16, "same": lambda k: k}
    return {name: (lambda k, step=step: math.floor(clock[0] + step(k))) for name, step in steps.items()}


class SampleAccountTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.daemons = Daemons(CONFIGURATION)

    @classmethod
    def tearDownClass(cls):
        cls.daemons.stop()

    def each_client(self, check, **options):
        from penstock import Client

        def connected(daemon):
            with Client(daemon.url, **options) as client:
                check(client)

        self.daemons.each(self, connected)

    def test_a_session_has_the_same_indices_however_it_is_cut(self):
        start, total = 1000, 20000
        clock = np.arange(start, start + total)
        expected = stands_at(clock)

        def check(client):
            chance = random.Random(SEED)
            for longest in (7, 300, LONGEST):
                with self.subTest(PENSTOCK_TEST_SEED=SEED, longest=longest), client.session("chain") as session:
                    at, sent = 0, []
                    last = total if longest > 7 else 1500
                    while at < last:
                        count = min(last - at, chance.randint(1, longest))
                        sent.append((at, session.submit(clock[at:at + count].astype(np.float32), index=int(clock[at]),
                                                        time_ns=int(clock[at]) * 1000, epoch=3)))
                        at += count
                    had = dict.fromkeys(OUTPUTS, 0)
                    for first, future in sent:
                        result = future.result()
                        account = result.account
                        self.assertEqual((account.index, account.time_ns, account.epoch, account.lost_before),
                                         (start + first, 1000 * (start + first), 3, 0))
                        for name in OUTPUTS:
                            self.assertEqual(account.index_of(name), expected[name](had[name]), (name, first))
                            had[name] += len(result[name])
                        self.check_ramps(result)
                    self.assertGreater(had["even"], last // 8 - 1)

        self.each_client(check, timeout=120)

    def check_ramps(self, result):
        """Filters of linear phase give the ramp itself, once they have passed the start; half a sample is rounded."""
        for name in ("odd", "even", "half", "rows", "blocks", "windows", "padded", "same"):
            array = result[name]
            values = array if array.ndim == 1 else array[:, 0]
            index = result.account.index_of(name) + STEPS[name] * np.arange(len(values))
            settled = index > 1000 + 100
            np.testing.assert_allclose(values[settled], index[settled] + (0.5 if name == "half" else 0.0), atol=0.02)

    def test_a_loss_moves_the_indices_of_what_comes_behind_it(self):
        def check(client):
            with client.session("chain") as session:
                one = session.submit(np.zeros(100, np.float32), index=500).result().account
                two = session.submit(np.zeros(100, np.float32), index=700, lost_before=100, filled=3).result().account
            self.assertEqual((one.index_of("same"), one.index_of("blocks"), one.index_of("odd")), (500, 500, 484))
            # The fourth block began with 4 samples of the first request.
            self.assertEqual((two.index_of("same"), two.index_of("blocks"), two.index_of("odd")), (700, 696, 684))
            self.assertEqual((two.lost_before, two.filled, int(two.flags)), (100, 3, 3))

        self.each_client(check)

    def test_filled_samples_count_wherever_an_output_reaches_back_to_them(self):
        """As many at most as a row's samples, and never fewer than there are."""
        def check(client):
            chance = random.Random(SEED)
            for cuts in ([100] * 20, [chance.randint(1, 90) for _ in range(60)]):
                with self.subTest(PENSTOCK_TEST_SEED=SEED, cuts=cuts), client.session("rows") as session:
                    filled = np.zeros(sum(cuts), bool)
                    at = 0
                    for count in cuts:
                        share = chance.choice((0, 0, 0.2, 1))
                        filled[at:at + count] = [chance.random() < share for _ in range(count)]
                        account = session.submit(np.zeros(count, np.float32), index=at,
                                                 filled=int(filled[at:at + count].sum())).result().account
                        first = min(account.index_of("row"), at)
                        end = at + count
                        true = int(filled[first:end].sum())
                        self.assertEqual(first, at - at % 100)
                        self.assertGreaterEqual(account.filled, true)
                        self.assertLessEqual(account.filled, end - first)
                        if cuts[0] == 100 or first == at:
                            self.assertEqual(account.filled, true)
                        self.assertEqual(bool(account.flags & 2), account.filled > 0)
                        at = end

        self.each_client(check)

    def test_taps_of_linear_phase_have_their_delay_taken_off_and_no_others(self):
        def check(client):
            with client.session("phases") as session:
                account = session.submit(np.zeros(64, np.complex64), index=100).result().account
            self.assertEqual([account.index_of(name) for name in PHASES], [98, 99, 100, 100])

        self.each_client(check)

    def test_an_impulse_comes_out_at_the_sample_at_which_it_went_in(self):
        total, start = 600, 7000

        def check(client):
            chance = random.Random(SEED)
            steps = {each.name: each.steps / each.indices for each in client.pipelines["impulses"].outputs}
            self.assertEqual((steps["faster"], steps["slower"]), (2 / 3, 5 / 2))
            for at in (200, 203, chance.randrange(100, 400)):
                samples = np.zeros(total, np.float32)
                samples[at] = 1.0
                cut = chance.randrange(1, total)
                with client.session("impulses") as session:
                    results = [session.submit(part, index=start + first).result()
                               for first, part in ((0, samples[:cut]), (cut, samples[cut:]))]
                for name, _, _, off in (each for each in IMPULSES if each[0] in steps):
                    with self.subTest(PENSTOCK_TEST_SEED=SEED, output=name, at=at, cut=cut):
                        first = results[0].account.index_of(name)
                        made = np.abs(np.concatenate([each[name] for each in results]))
                        peak, *within = np.unravel_index(np.argmax(made), made.shape)
                        self.assertAlmostEqual(first + steps[name] * peak + sum(within), start + at, delta=off)

        self.each_client(check)

    def test_several_frames_of_one_length_have_the_index_of_the_first(self):
        def check(client):
            with client.session("fixed") as session:
                for request in range(3):
                    first = 768 * request
                    result = session.submit(np.arange(first, first + 768, dtype=np.float32).reshape(3, 256),
                                            index=first).result()
                    self.assertEqual(result.account.index_of("odd"), first - 16)
                    self.assertEqual(result.account.index_of("psd"), first - 16)
                    if request > 0:
                        np.testing.assert_allclose(result["odd"].ravel(), first - 16 + 4 * np.arange(192), atol=0.02)
            result = client.submit("doubled", np.zeros((5, 4), np.float32), index=-7).result()
            self.assertEqual((result.account.index_of("y"), result.account.index_of("stats")), (-7, -7))

        self.each_client(check)

    def interleaved(self, client, name, signals, starts):
        """Of two sessions, cut and put in turn at random: for each of them (first sample, result) of its requests."""
        chance = random.Random(SEED)
        frames_of = [np.ascontiguousarray(x.reshape(CHANNELS, -1, PLANE).swapaxes(0, 1)) for x in signals]
        futures = ([], [])
        with client.session(name) as one, client.session(name) as other:
            sent = [0, 0]
            while sent != [len(frames) for frames in frames_of]:
                which = chance.randrange(2)
                part = frames_of[which][sent[which]:sent[which] + chance.randint(1, 4)]
                if len(part) > 0:
                    first = sent[which] * PLANE
                    futures[which].append((first, (one, other)[which].submit(part, index=starts[which] + first,
                                                                             time_ns=first)))
                    sent[which] += len(part)
            return [[(first, future.result()) for first, future in each] for each in futures]

    def test_frames_whose_time_is_another_axis_are_scipys_and_have_their_samples_numbers(self):
        def check(client):
            described = client.pipelines["planar"]
            self.assertEqual(described.input.axis, 1)
            self.assertEqual({each.name: each.steps for each in described.outputs if each.steps != 1},
                             {"turned": 4, "again": 8})
            starts = (5000, 70000)
            signals = np.random.default_rng(SEED).standard_normal((2, CHANNELS, 12 * PLANE)).astype(np.float32)
            for start, x, results in zip(starts, signals, self.interleaved(client, "planar", signals, starts)):
                with self.subTest(PENSTOCK_TEST_SEED=SEED, start=start):
                    for first, result in results:
                        account = result.account
                        self.assertEqual((account.index, account.time_ns), (start + first, first))
                        self.assertEqual({name: start + first - account.index_of(name) for name in BEFORE}, BEFORE)
                    self.check_planar(x.astype(float), {
                        name: np.concatenate([result[name] for _, result in results]) for name in BEFORE})

        self.each_client(check)

    def test_complex_frames_whose_time_is_another_axis_are_numpys(self):
        def check(client):
            parts = np.random.default_rng(SEED).standard_normal((2, CHANNELS, 12 * PLANE, 2)).astype(np.float32)
            signals = parts.view(np.complex64)[..., 0]
            for x, results in zip(signals, self.interleaved(client, "planar_iq", signals, (0, 0))):
                with self.subTest(PENSTOCK_TEST_SEED=SEED):
                    self.check_planar_iq(x.astype(complex), {
                        name: np.concatenate([frame for _, result in results for frame in result[name]], axis=1)
                        for name, _, _ in IQ})

        self.each_client(check)

    def check_planar_iq(self, x, got):
        """By numpy and scipy in float64. x: channels, samples; each of got: channels, time, ..."""
        at = np.arange(x.shape[1])
        mixed = x * np.exp(2j * np.pi * (0.1 * at + 0.25))
        carriers = np.exp(-2j * np.pi / 8 * np.outer(np.arange(8), at + 4 + 1))
        bank = signal.lfilter(BANK.astype(float), 1, x[:, np.newaxis] * carriers)[..., 3::4].swapaxes(1, 2)
        late = np.pad(x, [(0, 0), (48, 0)])
        windows = np.lib.stride_tricks.sliding_window_view(late, 64, 1)[:, ::16]
        score = np.zeros(got["fm"].shape)
        before = np.lib.stride_tricks.sliding_window_view(got["fm"].astype(float), 100, 1)[:, :-1]
        score[:, 100:] = (got["fm"][:, 100:] - before.mean(-1)) / before.std(-1)
        sums = np.cumsum(np.abs(bank), axis=1)
        sums[:, 5:] -= sums[:, :-5].copy()
        mean = (sums / np.minimum(np.arange(sums.shape[1]) + 1, 5)[:, np.newaxis])[:, 1::2]
        peak = np.lib.stride_tricks.sliding_window_view(np.pad(np.abs(x), [(0, 0), (69, 0)]), 70, 1).max(-1)
        wanted = {"mixed": mixed, "bank": bank, "spectra": np.fft.fft(windows * signal.get_window("hann", 64)),
                  "again": late, "score": score, "levels": np.abs(bank), "mean": mean, "power": np.abs(x), "peak": peak}
        for name, all_of_it in wanted.items():
            np.testing.assert_allclose(got[name], all_of_it[:, :got[name].shape[1]], atol=1e-5 * np.abs(all_of_it).max(),
                                       err_msg=name)
        # An angle of nearly half a turn has one sign or the other.
        turned = np.exp(1j * np.angle(mixed[:, 1:] * mixed[:, :-1].conj()))
        np.testing.assert_allclose(np.exp(1j * got["fm"][:, 1:]), turned, atol=1e-5)
        np.testing.assert_array_equal(got["fm"][:, 0], 0)
        np.testing.assert_allclose(np.exp(1j * got["pm"].astype(float)), x / np.abs(x), atol=1e-4)
        self.assertLess(np.abs(np.diff(got["pm"].astype(float), axis=1)).max(), np.pi + 1e-3)
        self.assertGreater(np.abs(got["pm"]).max(), 20)

    def check_planar(self, x, got):
        """By scipy in float64. x: channels, samples; each of got: frames, channels, time, ..."""
        low = signal.lfilter(ODD.astype(float), 1, x)[:, ::4]
        windows = np.lib.stride_tricks.sliding_window_view(np.pad(low, [(0, 0), (32, 0)]), 64, 1)[:, ::32]
        spectra = np.fft.rfft(windows * signal.get_window("hann", 64))
        fast = signal.upfirdn(FASTER.astype(float), low, 3, 2)
        wanted = {"low": low, "poles": signal.sosfilt(SECTIONS, x), "spectra": spectra, "fast": fast,
                  "rows": x.reshape(CHANNELS, -1, 128)}
        for name, all_of_it in wanted.items():
            given = np.concatenate(list(got[name]), axis=1)
            np.testing.assert_allclose(given, all_of_it[:, :given.shape[1]], atol=1e-5 * np.abs(all_of_it).max(),
                                       err_msg=name)
        turned = np.concatenate(list(got["turned"]))
        np.testing.assert_allclose(turned, low.T, atol=1e-5)
        again = signal.lfilter(taps(9).astype(float), 1, low)[:, ::2].T
        np.testing.assert_allclose(np.concatenate(list(got["again"])), again, atol=1e-5)
        peaks = [sorted(event[2] for events in got["events"][:, channel, 1:] for event in events if event[0] >= 0)
                 for channel in range(CHANNELS)]
        poles = np.concatenate(list(got["poles"]), axis=1)
        for channel, peak in enumerate(peaks):
            self.assertGreater(len(peak), 10)
            self.assertTrue(np.all(poles[channel, np.array(peak, int)] >= 1.0))

    def test_a_recording_of_rows_is_cut_and_numbered_along_them(self):
        def check(client):
            clock = np.arange(3 * PLANE + 100, dtype=np.float32)
            rows = clock + 1000 * np.arange(CHANNELS, dtype=np.float32)[:, np.newaxis]
            with client.session("planar") as session:
                whole = session.run(rows, tail="drop", index=50)
            self.assertEqual((whole.account.index, whole.account.index_of("low")), (50, 34))
            self.assertEqual(whole["low"].shape, (3, CHANNELS, PLANE // 4))
            np.testing.assert_array_equal(np.concatenate(list(whole["rows"]), axis=1).reshape(CHANNELS, -1),
                                          rows[:, :3 * PLANE])
            low = np.concatenate(list(whole["low"]), axis=1)
            stands = whole.account.index_of("low") - 50 + 4 * np.arange(low.shape[1])
            np.testing.assert_allclose(low[:, 10:], stands[10:] + 1000 * np.arange(CHANNELS)[:, np.newaxis], atol=0.02)
            with client.session("planar") as session:
                parts = list(session.stream([rows[:, :700], rows[:, 700:2500]], tail="drop", index=50))
            self.assertEqual([part.account.index_of("poles") for part in parts], [50])
            self.assertEqual(parts[0]["low"].shape[0], 2)

        self.each_client(check)

    def test_without_an_account_a_result_is_as_before(self):
        def check(client):
            self.assertIsNone(client.submit("doubled", np.zeros(4, np.float32)).result().account)
            with client.session("chain") as session:
                self.assertIsNone(session.run(np.zeros(10000, np.float32)).account)

        self.each_client(check)

    def test_a_time_alone_gives_indices_from_the_requests_own_first_sample(self):
        def check(client):
            account = client.submit("doubled", np.zeros(4, np.float32), time_ns=123).result().account
            self.assertEqual((account.index, account.time_ns, account.index_of("y")), (None, 123, 0))

        self.each_client(check)

    def test_all_that_an_account_can_hold_comes_back(self):
        from penstock import SampleAccount
        most = SampleAccount(2**63 - 1, -2**63, 2**64 - 1, 2**32 - 1, 2**32 - 1, 4, 31)

        def check(client):
            account = client.submit("doubled", np.zeros(4, np.float32), account=most).result().account
            self.assertEqual((account.index, account.time_ns, account.lost_before, account.epoch, account.filled,
                              account.time_quality, account.flags), tuple(most))
            with client.session("chain") as session:  # an index before the least one wraps around
                account = session.submit(np.zeros(4, np.float32),
                                         account=most._replace(index=-2**63)).result().account
                self.assertEqual(account.index_of("odd"), 2**63 - 16)

        self.each_client(check)

    def test_shared_memory_carries_it_too(self):
        def check(client):
            samples = np.arange(LONGEST, dtype=np.float32)
            with client.session("chain") as session:
                for request in range(3):
                    result = session.submit(samples, index=LONGEST * request).result()
                    self.assertEqual(result.account.index_of("odd"), LONGEST * request - 16)
            self.assertEqual(client.large_requests, {"shm": 3, "zmq": 0})

        self.each_client(check, transport="shm")

    def test_a_recording_is_numbered_from_its_first_sample(self):
        def check(client):
            samples = np.arange(3 * LONGEST + 5, dtype=np.float32)
            with client.session("chain") as session:
                whole = session.run(samples, index=50, epoch=2)
                self.assertEqual((whole.account.index, whole.account.epoch, whole.account.index_of("rows")), (50, 2, 34))
            with client.session("chain") as session:
                parts = list(session.stream([samples[:1000], samples[1000:]], index=50))
            self.assertEqual([part.account.index for part in parts], [50, 1050, 1050 + LONGEST, 1050 + 2 * LONGEST])
            for part in parts:
                self.assertEqual(part["same"][0], part.account.index_of("same") - 50)

        self.each_client(check)

    def test_the_asynchronous_client_has_it(self):
        from penstock import AsyncClient

        async def ask(url):
            async with AsyncClient(url) as client:
                one = await client.submit("doubled", np.zeros(4, np.float32), index=9)
                async with client.session("chain") as session:
                    two = await session.submit(np.zeros(8, np.float32), index=100, epoch=1)
                    whole = await session.run(np.zeros(2 * LONGEST, np.float32), index=108)
                return one.account.index, two.account.index_of("odd"), two.account.epoch, whole.account.index_of("odd")

        self.daemons.each(self, lambda daemon: self.assertEqual(asyncio.run(ask(daemon.url)), (9, 84, 1, 92)))

    def test_what_no_header_can_hold_is_refused_before_it_is_sent(self):
        def check(client):
            for wrong in ({"index": 2**63}, {"epoch": -1}, {"lost_before": 2**64}, {"filled": 2**32}):
                with self.subTest(wrong), self.assertRaises(ValueError):
                    client.submit("doubled", np.zeros(4, np.float32), **wrong)
            with self.assertRaises(TypeError):
                client.submit("doubled", np.zeros(4, np.float32), index=1.5)

        self.each_client(check)

    def test_a_repeat_is_answered_with_the_same_account(self):
        def check(daemon):
            with RawClient(daemon.url) as client:
                session = client.open("chain")
                self.assertEqual(self.twice(client, "chain", np.zeros(9, np.float32), session),
                                 (104 + 8 * len(OUTPUTS), 300, 284))
                self.assertEqual(self.twice(client, "doubled", np.zeros(4, np.float32)), (104 + 16, 300, 300))

        self.daemons.each(self, check)

    def twice(self, client, name, samples, session=0):
        """Sends the same SUBMIT two times. Of both results, which must be the same: header_len, the account's index and
        that of the first output."""
        wire = client.wire
        client.requests += 1
        header = wire.Header(wire.MessageType.SUBMIT, client.requests, pipeline=client.pipelines[name], session=session,
                             tensors=1, frames=1, header_len=wire.ACCOUNT_HEADER_BYTES)
        head = wire.encode_header(header) + wire.encode_account(wire.SampleAccount(index=300, flags=1))
        parts = [head + wire.encode_tensor(wire.tensor_header(samples[None])), samples.tobytes()]
        answers = []
        for _ in range(2):
            client.socket.send_multipart(parts)
            answers.append(client.socket.recv_multipart())
        self.assertEqual(answers[0], answers[1])
        got = wire.decode_header(answers[0][0])
        self.assertEqual(got.type, wire.MessageType.RESULT)
        return (got.header_len, wire.decode_account(answers[0][0], got).index,
                wire.output_indices(answers[0][0], got)[0])


if __name__ == "__main__":
    unittest.main()
