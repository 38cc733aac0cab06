"""What the monitoring of machines is made of: band power, means of blocks, envelopes, and an alarm that a lasting fault
does not end. Whole signals through sessions in frames of random lengths, compared with numpy and scipy in float64."""

import random
import unittest

import numpy as np
from scipy import signal

from daemon_process import VERSION, Daemons, npy, pipeline

LONGEST = 4096  # steps of a frame
BLOCK, HOP, BAND = 1024, 512, (100, 200)
MEAN = 120
ENVELOPE = 1001
WINDOW, GAP, HOLD = 300, 20, 5.0
HIGH, LOW, PAUSE, LEAST = 5.0, 3.0, 25, 40

# What scipy.signal.hilbert multiplies a spectrum by: negative frequencies become 0.
ANALYTIC = np.where(np.arange(ENVELOPE) == 0, 1.0, np.where(np.arange(ENVELOPE) <= ENVELOPE // 2, 2.0, 0.0))

CONFIGURATION = (
    VERSION
    + pipeline("band", "f32", [f"max {LONGEST}"], [
        ("blocks", "reframe", f"length = {BLOCK}\nhop = {HOP}\n"),
        ("psd", "power_spectrum", 'from = "blocks"\n'),
        ("bins", "slice", f'from = "psd"\nstart = {BAND[0]}\nstop = {BAND[1]}\n'),
        ("power", "reduce", 'from = "bins"\nfunction = "sum"\n')], ["power"])
    + pipeline("means", "f32", [f"max {LONGEST}"], [
        ("mean", "accumulate", f'along = "rows"\nframes = {MEAN}\nevery = {MEAN}\n')], ["mean"])
    + pipeline("envelope", "f32", [f"max {LONGEST}"], [
        ("blocks", "reframe", f"length = {ENVELOPE}\n"),
        ("spectrum", "fft", 'from = "blocks"\nhalf = false\n'),
        ("positive", "multiply", 'from = "spectrum"\nby = "analytic.npy"\n'),
        ("analytic", "ifft", 'from = "positive"\n'),
        ("level", "magnitude", 'from = "analytic"\n')], ["level"])
    + pipeline("alarm", "f32", [f"max {LONGEST}"], [
        ("score", "moving_zscore", f"window = {WINDOW}\ngap = {GAP}\nhold = {HOLD}\n"),
        ("alarms", "detect", f'from = "score"\nalong = "session"\nhigh = {HIGH}\nlow = {LOW}\ngap = {PAUSE}\n'
                             f"min_length = {LEAST}\nmax_events = 16\n")], ["alarms"]))


def noise(steps, seed):
    return np.random.default_rng(seed).standard_normal(steps).astype(np.float32)


def scores(x):
    """The definition, one step after the other."""
    window, z = [], np.zeros(len(x))
    for n, value in enumerate(x):
        if len(window) == WINDOW:
            mean = np.mean(window)
            z[n] = (value - mean) / np.std(window)
        m = n - GAP
        if m >= 0 and abs(z[m]) <= HOLD and abs(z[n]) <= HOLD:
            window = [*window[-WINDOW + 1:], x[m]]
    return z


def events(z):
    """Those that are over: start, end, index and value of the peak."""
    found, start, end = [], None, None
    for n, value in enumerate(z):
        if value >= HIGH:
            start, end = n if start is None else start, None
        elif start is not None and end is None and value < LOW:
            end = n
        if end is not None and n == end + PAUSE:
            if end - start >= LEAST:
                peak = start + int(np.argmax(z[start:end]))
                found.append((start, end, peak, z[peak]))
            start = end = None
    return found


class MonitoringTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemons = Daemons(CONFIGURATION, {"analytic.npy": npy(ANALYTIC)})
        cls.addClassCleanup(cls.daemons.stop)

    def through(self, name, signals):
        """Of each backend: for each signal, the results of its frames; sessions among each other."""
        from penstock import Client
        cuts, made = random.Random(7), []

        def served(daemon):
            with Client(daemon.url, timeout=60) as client:
                sessions = [client.session(name) for _ in signals]
                at, futures = [0] * len(signals), [[] for _ in signals]
                while any(begin < len(x) for begin, x in zip(at, signals)):
                    one = cuts.randrange(len(signals))
                    end = min(at[one] + cuts.randint(1, LONGEST), len(signals[one]))
                    if end > at[one]:
                        futures[one].append(sessions[one].submit(signals[one][at[one]:end]))
                    at[one] = end
                made.append([[future.result(60).array for future in each] for each in futures])
                for session in sessions:
                    session.close()
        self.daemons.each(self, served)
        return made

    def check(self, name, signals, width, expected):
        for results in self.through(name, signals):
            for x, frames in zip(signals, results):
                got = np.concatenate([frame.reshape(-1, width) for frame in frames])
                wanted = expected(x.astype(float))
                self.assertEqual(got.shape, wanted.shape)
                np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())

    def test_band_power(self):
        window = signal.get_window("hann", BLOCK)

        def power(x):
            rows = np.lib.stride_tricks.sliding_window_view(x, BLOCK)[::HOP]
            psd = np.abs(np.fft.rfft(rows * window)) ** 2
            return psd[:, BAND[0]:BAND[1]].sum(axis=1, keepdims=True)
        self.check("band", [noise(20_011, 1), noise(30_000, 2)], 1, power)

    def test_means_of_blocks(self):
        def means(x):
            return x[:len(x) // MEAN * MEAN].reshape(-1, MEAN).mean(axis=1, keepdims=True)
        self.check("means", [noise(20_011, 3) + 5, noise(24_000, 4)], 1, means)

    def test_envelope_is_that_of_the_analytic_signal(self):
        def envelope(x):
            return np.abs(signal.hilbert(x[:len(x) // ENVELOPE * ENVELOPE].reshape(-1, ENVELOPE), axis=1))
        steps = np.arange(25_000)
        tone = (1 + 0.5 * np.sin(steps / 90)) * np.sin(steps * 0.7)
        self.check("envelope", [tone.astype(np.float32), noise(20_011, 5)], ENVELOPE, envelope)

    def test_alarm_lasts_as_long_as_the_fault(self):
        signals = [noise(12_000, seed) for seed in (6, 7)]
        signals[0][3000:9000] += 9  # twenty windows long, with a pause that is no end
        signals[0][5000:5015] -= 9
        signals[0][10_000:10_010] += 12  # too short for an alarm
        signals[1][4000:4500] += 20
        signals[1][6000:6200] += 15
        wanted = [events(scores(x.astype(float))) for x in signals]
        self.assertEqual([len(each) for each in wanted], [1, 2])
        self.assertGreater(wanted[0][0][1] - wanted[0][0][0], 5900)
        for results in self.through("alarm", signals):
            for frames, expected in zip(results, wanted):
                told = []
                for frame in frames:
                    table = frame.reshape(-1, 4)
                    self.assertEqual(table[0, 0], table[0, 1])
                    told.extend(table[1:1 + int(table[0, 1])])
                self.assertEqual([tuple(each[:3]) for each in told], [each[:3] for each in expected])
                np.testing.assert_allclose([each[3] for each in told], [each[3] for each in expected], rtol=1e-5)


if __name__ == "__main__":
    unittest.main()
