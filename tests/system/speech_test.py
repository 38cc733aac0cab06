"""stft, istft and mel through the real daemon: each against its definition by numpy in float64, and against PyTorch's,
torchaudio's and librosa's functions where they are installed.

PENSTOCK_TEST_SEED repeats a run.
"""

import os
import random
import unittest

import numpy as np
from scipy import signal

from daemon_process import VERSION, Daemons, pipeline

try:
    import torch
except ImportError:
    torch = None
try:
    import torchaudio
except (ImportError, OSError):  # OSError: made for another PyTorch
    torchaudio = None
try:
    import librosa
except ImportError:
    librosa = None

SEED = int(os.environ.get("PENSTOCK_TEST_SEED", random.randrange(2**32)))
LONGEST = 2048
RATE = 16000
#: name: length, hop, padding, window_length, window, channels, whether the signal is complex
TRANSFORMS = {
    "usual": (512, 128, 256, 512, "hann", 1, False),
    "speech": (512, 160, 256, 400, "hann", 1, False),
    "uncentered": (400, 160, 0, 400, "hamming", 1, False),
    "odd": (255, 60, 127, 255, "hann", 3, False),
    "complex": (256, 64, 128, 256, "blackman", 1, True),
    "many": (64, 16, 32, 64, "hann", 64, False),
}
#: name: bins, count, low, high, scale, norm
BANKS = {
    "torchaudio": (201, 128, 0, 8000, "htk", "none"),
    "librosa": (513, 128, 0, 8000, "slaney", "slaney"),
    "narrow": (257, 80, 20, 7600, "slaney", "none"),
    "area": (257, 40, 300, 8000, "htk", "slaney"),
}


#: Few frames a batch, since rows that overlap take far more memory than their signal.
BATCH = "batch = { max_frames = 2 }\n"


def settings(length, hop, padding, window_length, window):
    return (f'length = {length}\nhop = {hop}\npadding = {padding}\nwindow_length = {window_length}\n'
            f'window = "{window}"\n')


def transform(name):
    *own, channels, is_complex = TRANSFORMS[name]
    shape = [f"max {LONGEST}"] + ([] if channels == 1 else [channels])
    half = "" if not is_complex else "half = false\n"
    return pipeline(name, "cf32" if is_complex else "f32", shape,
                    [("x", "stft", settings(*own)), ("y", "istft", settings(*own) + half)], ["x", "y"], BATCH)


def bank(name):
    bins, count, low, high, scale, norm = BANKS[name]
    lines = (f'rate = {RATE}\ncount = {count}\nlow = {low}\nhigh = {high}\nscale = "{scale}"\nnorm = "{norm}"\n')
    return pipeline("bank_" + name, "f32", [bins], [("y", "mel", lines)], ["y"])


def weights(length, _hop, _padding, window_length, window):
    """Of a row, in float64: a shorter window stands in its middle."""
    w = signal.get_window("boxcar" if window == "rectangular" else window, window_length)
    before = (length - window_length) // 2
    return np.pad(w, (before, length - window_length - before))


def by_definition(x, length, hop, padding, window_length, window):
    """Rows, channels, bins of a signal of [steps, channels] in float64."""
    rows = np.lib.stride_tricks.sliding_window_view(np.pad(x, [(padding, 0), (0, 0)]), length, 0)[::hop]
    rows = rows * weights(length, hop, padding, window_length, window)
    return np.fft.fft(rows, axis=-1) if np.iscomplexobj(x) else np.fft.rfft(rows, axis=-1)


def inverse_by_definition(spectra, is_complex, length, hop, padding, window_length, window):
    """Steps, channels: those that no later row reaches."""
    w = weights(length, hop, padding, window_length, window)
    rows = np.fft.ifft(spectra, axis=-1) if is_complex else np.fft.irfft(spectra, length, axis=-1)
    y = np.zeros((len(rows) * hop + length, rows.shape[1]), rows.dtype)
    squares = np.zeros(len(y))
    for row, values in enumerate(rows):
        y[row * hop:row * hop + length] += (w * values).T
        squares[row * hop:row * hop + length] += w * w
    return np.where(squares < 1e-11, 0, y.T / np.maximum(squares, 1e-11)).T[padding:len(rows) * hop]


def hz_of(mel, scale):
    if scale == "htk":
        return 700 * (10 ** (mel / 2595) - 1)
    return np.where(mel < 15, 200 / 3 * mel, 1000 * np.exp(np.log(6.4) / 27 * (mel - 15)))


def mel_of(frequency, scale):
    if scale == "htk":
        return 2595 * np.log10(1 + frequency / 700)
    return 3 * frequency / 200 if frequency < 1000 else 15 + 27 * np.log(frequency / 1000) / np.log(6.4)


def triangles(bins, count, low, high, scale, norm):
    """count, bins in float64."""
    corners = hz_of(np.linspace(mel_of(low, scale), mel_of(high, scale), count + 2), scale)
    f = np.arange(bins) * RATE / (2 * (bins - 1))
    left, middle, right = corners[:-2, None], corners[1:-1, None], corners[2:, None]
    h = np.maximum(0, np.minimum((f - left) / (middle - left), (right - f) / (right - middle)))
    return h * 2 / (right - left) if norm == "slaney" else h


class SpeechTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemons = Daemons(VERSION + "".join([*map(transform, TRANSFORMS), *map(bank, BANKS)]))
        cls.addClassCleanup(cls.daemons.stop)

    def each_client(self, check):
        from penstock import Client

        def connected(daemon):
            with Client(daemon.url, timeout=120) as client:
                check(client)

        self.daemons.each(self, connected)

    def signals(self, name, count=2):
        """[steps, channels], in f32 or cf32."""
        *_, channels, is_complex = TRANSFORMS[name]
        chance = np.random.default_rng(SEED)
        for steps in (20_000, 7_001)[:count]:
            x = chance.standard_normal((steps, channels * (1 + is_complex)), dtype=np.float32)
            yield x.view(np.complex64) if is_complex else x

    def through(self, client, name, signals):
        """Of each signal the spectra and the signal of them; all go at once, cut at random."""
        chance = random.Random(SEED)
        sessions = [client.session(name) for _ in signals]
        at, sent = [0] * len(signals), [[] for _ in signals]
        while any(place < len(x) for place, x in zip(at, signals)):
            one = chance.choice([each for each, x in enumerate(signals) if at[each] < len(x)])
            end = at[one] + chance.randint(1, chance.choice((30, LONGEST)))
            part = signals[one][at[one]:end]
            sent[one].append(sessions[one].submit(part if part.shape[1] > 1 else part[:, 0]))
            at[one] += len(part)
        all_of = []
        for futures, x in zip(sent, signals):
            results = [future.result() for future in futures]
            joined = [np.concatenate([each[output].reshape(-1, *shape) for each in results])
                      for output, shape in (("x", (x.shape[1], results[0]["x"].shape[-1])), ("y", (x.shape[1],)))]
            all_of.append(joined)
        for session in sessions:
            session.close()
        return all_of

    def close(self, got, wanted, share=1e-5):
        self.assertEqual(got.shape, wanted.shape)
        self.assertLessEqual(np.abs(got - wanted).max(), share * np.abs(wanted).max())

    def test_each_equals_its_definition_however_the_signals_are_cut(self):
        def check(client):
            for name, (*own, _, is_complex) in TRANSFORMS.items():
                with self.subTest(name, PENSTOCK_TEST_SEED=SEED):
                    signals = list(self.signals(name))
                    for x, (spectra, y) in zip(signals, self.through(client, name, signals)):
                        wide = x.astype(complex if is_complex else float)
                        self.close(spectra, by_definition(wide, *own))
                        wanted = inverse_by_definition(by_definition(wide, *own), is_complex, *own)
                        settled = own[0] if own[2] == 0 else 0  # a window that has just begun
                        self.close(y[settled:], wanted[settled:])
                        self.close(y[settled:], wide[settled:len(y)])

        self.each_client(check)

    @unittest.skipIf(torch is None, "PyTorch is not installed")
    def test_spectra_and_their_signal_equal_pytorchs(self):
        windows = {"hann": torch.hann_window, "hamming": torch.hamming_window, "blackman": torch.blackman_window}

        def check(client):
            for name, (length, hop, padding, window_length, window, _, is_complex) in TRANSFORMS.items():
                if padding not in (0, length // 2):
                    continue
                with self.subTest(name, PENSTOCK_TEST_SEED=SEED):
                    x, = self.signals(name, 1)
                    (spectra, y), = self.through(client, name, [x])
                    of_rows = {"n_fft": length, "hop_length": hop, "win_length": window_length,
                               "window": windows[window](window_length, dtype=torch.float64), "center": padding != 0,
                               "onesided": not is_complex}
                    theirs = torch.stft(torch.from_numpy(x.T.astype(complex if is_complex else float)), **of_rows,
                                        pad_mode="constant", return_complex=True)
                    self.close(spectra, theirs.numpy().transpose(2, 0, 1)[:len(spectra)])
                    if padding != 0:
                        again = torch.istft(theirs, **of_rows, return_complex=is_complex).numpy().T
                        self.close(y, again[:len(y)])

        self.each_client(check)

    @unittest.skipIf(librosa is None, "librosa is not installed")
    def test_spectra_and_their_signal_equal_librosas(self):
        def check(client):
            for name in ("usual", "speech", "uncentered", "odd"):
                length, hop, padding, window_length, window, *_ = TRANSFORMS[name]
                with self.subTest(name, PENSTOCK_TEST_SEED=SEED):
                    x, = self.signals(name, 1)
                    (spectra, y), = self.through(client, name, [x])
                    of_rows = {"n_fft": length, "hop_length": hop, "win_length": window_length, "window": window,
                               "center": padding != 0}
                    theirs = librosa.stft(x.T.astype(float), **of_rows)
                    self.close(spectra, theirs.transpose(2, 0, 1)[:len(spectra)])
                    again = librosa.istft(theirs, **of_rows).T
                    settled = length if padding == 0 else 0
                    self.close(y[settled:], again[settled:len(y)])

        self.each_client(check)

    def sums(self, client, name, x):
        return client.submit("bank_" + name, x).result()["y"]

    def powers(self, name):
        return np.random.default_rng(SEED).chisquare(2, (20, BANKS[name][0])).astype(np.float32)

    def test_bands_equal_their_definition(self):
        def check(client):
            for name, own in BANKS.items():
                with self.subTest(name, PENSTOCK_TEST_SEED=SEED):
                    x = self.powers(name)
                    self.close(self.sums(client, name, x), x.astype(float) @ triangles(*own).T, 1e-6)

        self.each_client(check)

    @unittest.skipIf(torchaudio is None, "torchaudio is not installed, or not for this PyTorch")
    def test_bands_equal_torchaudios(self):
        def check(client):
            for name, (bins, count, low, high, scale, norm) in BANKS.items():
                with self.subTest(name, PENSTOCK_TEST_SEED=SEED):
                    theirs = torchaudio.functional.melscale_fbanks(bins, low, high, count, RATE, mel_scale=scale,
                                                                   norm=None if norm == "none" else norm)
                    x = self.powers(name)
                    # Their triangles are computed in f32: about 1e-5 of the height off.
                    self.close(self.sums(client, name, x), x.astype(float) @ theirs.numpy().astype(float), 5e-5)

        self.each_client(check)

    @unittest.skipIf(librosa is None, "librosa is not installed")
    def test_bands_equal_librosas(self):
        def check(client):
            for name, (bins, count, low, high, scale, norm) in BANKS.items():
                with self.subTest(name, PENSTOCK_TEST_SEED=SEED):
                    theirs = librosa.filters.mel(sr=RATE, n_fft=2 * (bins - 1), n_mels=count, fmin=low, fmax=high,
                                                 htk=scale == "htk", norm=None if norm == "none" else norm,
                                                 dtype=np.float64)
                    x = self.powers(name)
                    self.close(self.sums(client, name, x), x.astype(float) @ theirs.T, 1e-6)

        self.each_client(check)


if __name__ == "__main__":
    unittest.main()
