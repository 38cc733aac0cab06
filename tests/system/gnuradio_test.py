"""demodulate, resample, channelize and clock through the real daemon beside GNU Radio's blocks, over whole signals that
are cut at random.

PENSTOCK_TEST_SEED repeats a run.
"""

import os
import random
import unittest

import numpy as np
from scipy import signal

from daemon_process import VERSION, Daemons, npy, pipeline

try:
    from gnuradio import analog, blocks, digital, filter as filters, gr
    LACK = ""
except ImportError as error:
    LACK = f"this Python has no GNU Radio: {error}"

SEED = int(os.environ.get("PENSTOCK_TEST_SEED", random.randrange(2**32)))
LONGEST = 4096
GAIN = 3.7
UP, DOWN = 5, 3
BRANCH = 13  # taps; GNU Radio begins with the first result that sees so many samples
RATIONAL = signal.firwin(BRANCH * UP, 1 / UP).astype(np.float32)
LATER = (BRANCH - 1) * UP // DOWN  # results
CHANNELS = 12
BANK = signal.firwin(CHANNELS * 16, 1 / CHANNELS).astype(np.float32)
OMEGA, GAIN_OMEGA, MU, GAIN_MU, LIMIT = 8.03, 0.25 * 0.175 ** 2, 0.5, 0.175, 0.005


def configuration():
    one, bank = [f"max {LONGEST}"], 'taps = "bank.npy"\n'
    text = pipeline("fm", "cf32", one, [("y", "demodulate", f'kind = "fm"\ngain = {GAIN}\n')], ["y"])
    for dtype in ("f32", "cf32"):
        text += pipeline("rate_" + dtype, dtype, one,
                         [("y", "resample", f'up = {UP}\ndown = {DOWN}\ntaps = "rational.npy"\n')], ["y"])
    for hop in (CHANNELS, CHANNELS // 2):
        text += pipeline(f"bank_{hop}", "cf32", one,
                         [("y", "channelize", f"channels = {CHANNELS}\nhop = {hop}\n" + bank)], ["y"])
    text += pipeline("clock", "f32", one, [("y", "clock", f"omega = {OMEGA}\ngain_omega = {GAIN_OMEGA}\nmu = {MU}\n"
                                                         f"gain_mu = {GAIN_MU}\nlimit = {LIMIT}\n")], ["y"])
    return VERSION + text


def noise(steps, is_complex=True):
    x = np.random.default_rng(SEED).standard_normal((steps, 2 if is_complex else 1), dtype=np.float32)
    return x.view(np.complex64)[:, 0] if is_complex else x[:, 0]


def run(x, *chain):
    """What comes of a signal behind GNU Radio's blocks."""
    is_complex = np.iscomplexobj(x)
    top = gr.top_block()
    source = (blocks.vector_source_c if is_complex else blocks.vector_source_f)(x.tolist())
    sink = (blocks.vector_sink_c if chain[-1].output_signature().sizeof_stream_item(0) == 8 else blocks.vector_sink_f)()
    top.connect(source, *chain, sink)
    top.run()
    return np.array(sink.data(), np.complex64 if isinstance(sink, blocks.vector_sink_c) else np.float32)


def bank_of(x, oversample):
    """GNU Radio's channels of a signal: [outputs, CHANNELS]."""
    top = gr.top_block()
    split = blocks.stream_to_streams(gr.sizeof_gr_complex, CHANNELS)
    bank = filters.pfb_channelizer_ccf(CHANNELS, BANK.tolist(), oversample)
    sinks = [blocks.vector_sink_c() for _ in range(CHANNELS)]
    top.connect(blocks.vector_source_c(x.tolist()), split)
    for channel in range(CHANNELS):
        top.connect((split, channel), (bank, channel))
        top.connect((bank, channel), sinks[channel])
    top.run()
    return np.stack([np.array(each.data()) for each in sinks], axis=-1)


@unittest.skipIf(LACK, LACK)
class GnuradioTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        print(f"PENSTOCK_TEST_SEED={SEED}", flush=True)
        cls.daemons = Daemons(configuration(), files={"rational.npy": npy(RATIONAL), "bank.npy": npy(BANK)})
        cls.addClassCleanup(cls.daemons.stop)

    def through(self, name, x, check, multiple=1):
        """Calls check(results) with what each daemon gives of the signal, cut at random into multiples."""
        from penstock import Client

        def cut(daemon):
            chance = random.Random(SEED)
            with Client(daemon.url, timeout=120) as client, client.session(name) as session:
                sent, at = [], 0
                while at < len(x):
                    steps = multiple * chance.randint(1, chance.choice((30, LONGEST // multiple)))
                    sent.append(session.submit(x[at:at + steps]))
                    at += steps
                check([future.result()["y"] for future in sent])

        self.daemons.each(self, cut)

    def close(self, got, wanted, share):
        self.assertEqual(got.shape, wanted.shape)
        self.assertLessEqual(np.abs(got - wanted).max(), share * np.abs(wanted).max())

    def test_demodulate_equals_quadrature_demod(self):
        x = noise(60_000)
        wanted = run(x, analog.quadrature_demod_cf(GAIN))

        def check(results):
            self.close(np.concatenate(results), wanted, 1e-5)

        self.through("fm", x, check)

    def test_resample_equals_rational_resampler(self):
        for dtype, block in (("f32", filters.rational_resampler_fff), ("cf32", filters.rational_resampler_ccf)):
            x = noise(60_000, dtype == "cf32")
            runs = [run(x, block(UP, DOWN, RATIONAL.tolist(), 0)) for _ in range(3)]

            def check(results):
                got = np.concatenate(results)[LATER:]
                least = min(len(got), *map(len, runs))
                self.assertLess(len(got) - least, 100)  # at the end
                # Of GNU Radio 3.10.5 a single result of some runs is off by 1e-3, at another place each time.
                agree = [np.abs(got[:least] - wanted[:least]) <= 1e-5 * np.abs(wanted).max() for wanted in runs]
                self.assertGreaterEqual(np.sum(agree, axis=0).min(), 2)

            self.through("rate_" + dtype, x, check)

    def test_channelize_equals_pfb_channelizer(self):
        for hop in (CHANNELS, CHANNELS // 2):
            x = noise(CHANNELS * 4000)
            wanted = bank_of(x, CHANNELS / hop)

            def check(results):
                got = np.concatenate(results)
                self.assertLess(abs(len(got) - len(wanted)), 100)
                least = min(len(got), len(wanted))
                self.close(got[:least], wanted[:least], 1e-5)

            self.through(f"bank_{hop}", x, check, hop)

    def test_clock_finds_the_symbols_of_clock_recovery_mm(self):
        symbols = np.random.default_rng(SEED).integers(0, 2, 4000) * 2 - 1
        held = np.repeat(symbols, 8).astype(float)
        x = signal.lfilter(np.hanning(18)[1:-1] / np.hanning(18).sum(), 1, held).astype(np.float32)
        wanted = run(x, digital.clock_recovery_mm_ff(OMEGA, GAIN_OMEGA, MU, GAIN_MU, LIMIT))

        def check(results):
            got = np.concatenate([block[1:1 + int(block[0])] for block in results])
            self.assertLess(abs(len(got) - len(wanted)), 10)
            least = min(len(got), len(wanted))
            np.testing.assert_array_equal(got[:least] > 0, wanted[:least] > 0)
            # Between the steps lies a cubic here, and there a filter of eight taps.
            off = np.abs(got[:least] - wanted[:least])
            self.assertLess(off.max(), 0.02)
            self.assertLess(np.median(off), 2e-4)

        self.through("clock", x[3:], check)  # where the middle of its first eight taps stands


if __name__ == "__main__":
    unittest.main()
