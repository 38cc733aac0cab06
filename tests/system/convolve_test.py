"""Convolutions through the real daemon, each compared with PyTorch where it is installed, and with SciPy elsewhere."""

import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import numpy as np
from scipy import signal

from daemon_process import BIN, VERSION, Daemons, npy, pipeline

try:
    import torch
except ImportError:
    torch = None

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
RANDOM = np.random.default_rng(29)
SETTINGS = ("stride", "padding", "dilation", "groups")


def example():
    """The first block of TOML in the operator's section."""
    part = (DOCS / "operators.md").read_text().split("\n## convolve\n")[1]
    return re.search(r"```toml\n(.*?)```", part, re.DOTALL).group(1)


def relu(y):
    return np.maximum(y, 0)


def by_torch(x, weights, stride, padding, dilation, groups):
    convolve = torch.nn.functional.conv1d if weights.ndim == 3 else torch.nn.functional.conv2d
    return convolve(torch.from_numpy(x.astype(float)), torch.from_numpy(weights.astype(float)), None, stride, padding,
                    dilation, groups).numpy()


def by_scipy(x, weights, stride, padding, dilation, groups):
    """Each pair of channels by signal.correlate, with zeros between the numbers of a filter."""
    axes = weights.ndim - 2
    extents = [dilation * (extent - 1) + 1 for extent in weights.shape[2:]]
    spread = np.zeros((*weights.shape[:2], *extents))
    spread[(..., *[slice(None, None, dilation)] * axes)] = weights
    before = [(extent - 1) // 2 if padding == "same" else padding for extent in extents]
    behind = [extent - 1 - zeros if padding == "same" else padding for extent, zeros in zip(extents, before)]
    padded = np.pad(x.astype(float), [(0, 0), (0, 0), *zip(before, behind)])
    inner, outer = weights.shape[1], len(weights) // groups
    return np.stack([np.stack([sum(signal.correlate(frame[k // outer * inner + c], spread[k, c], "valid", "direct")
                                   for c in range(inner)) for k in range(len(weights))])
                     for frame in padded])[(..., *[slice(None, None, stride)] * axes)]


def convolved(x, weights, bias=None, stride=1, padding=0, dilation=1, groups=1):
    y = (by_torch if torch else by_scipy)(x, weights, stride, padding, dilation, groups)
    return y if bias is None else y + bias.reshape(-1, *[1] * (weights.ndim - 2))


def random(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


# name: shape of a frame, shape of the weights, settings
CASES = {
    "plain": ((3, 50), (5, 3, 7), {}),
    "wide": ((64, 33), (64, 64, 3), {"padding": 1}),
    "by_three": ((2, 101), (4, 2, 5), {"stride": 3, "padding": 4, "dilation": 2}),
    "apart": ((12, 40), (24, 1, 4), {"groups": 12, "padding": "same"}),
    "image": ((3, 19, 23), (8, 3, 3, 3), {"padding": "same"}),
    "image_by_two": ((4, 31, 17), (6, 2, 5, 4), {"stride": 2, "padding": 2, "groups": 2}),
    "image_spread": ((1, 20, 20), (1, 1, 3, 3), {"dilation": 3}),
    "image_wide": ((64, 14, 14), (64, 64, 3, 3), {"padding": 1}),
}
WEIGHTS = {name: random(*weights) for name, (_, weights, _) in CASES.items()}
BIAS = {name: random(weights[0]) for name, (_, weights, _) in CASES.items()}
BANK, BANK_BIAS, EACH = random(32, 16, 9), RANDOM.standard_normal(32), random(32, 1, 3).astype(np.float16)


def written(value):
    return f'"{value}"' if isinstance(value, str) else str(value)


class ConvolveTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        text = VERSION + pipeline("document", "f32", [16, 100], [], ["each"]) + example()
        files = {"bank.npy": npy(BANK), "bank_bias.npy": npy(BANK_BIAS), "each.npy": npy(EACH)}
        for name, (frame, _, settings) in CASES.items():
            lines = f'weights = "{name}.npy"\nbias = "{name}_bias.npy"\nactivation = "relu"\n'
            lines += "".join(f"{key} = {written(value)}\n" for key, value in settings.items())
            text += pipeline(name, "f32", list(frame), [("y", "convolve", lines)], ["y"])
            files |= {f"{name}.npy": npy(WEIGHTS[name]), f"{name}_bias.npy": npy(BIAS[name])}
        cls.daemons = Daemons(text, files)
        try:
            cls.daemons.each(cls(), lambda daemon: None)
        except RuntimeError as error:
            if "could not be loaded" in str(error):
                raise unittest.SkipTest("oneDNN (Debian's libdnnl2) or cuDNN is not installed") from error
            raise
        cls.addClassCleanup(cls.daemons.stop)

    def runTest(self):
        pass

    def close(self, got, expected, x, weights):
        bound = 1e-6 * np.sqrt(weights[0].size) * np.abs(x).max() * np.abs(weights).max() + 1e-6 * np.abs(expected)
        self.assertEqual(got.shape, expected.shape)
        self.assertLessEqual((np.abs(got - expected) / bound).max(), 1)

    def test_each_equals_the_reference(self):
        def served(daemon):
            from penstock import Client
            with Client(daemon.url, timeout=60) as client:
                for name, (frame, _, settings) in CASES.items():
                    for frames in (1, 3, 7):
                        x = random(frames, *frame)
                        with self.subTest(name, frames=frames):
                            self.close(np.asarray(client.submit(name, x).result()["y"]),
                                       relu(convolved(x, WEIGHTS[name], BIAS[name], **settings)), x, WEIGHTS[name])
        self.daemons.each(self, served)

    def test_the_documents_stages_equal_the_reference(self):
        x = random(5, 16, 100)
        features = relu(convolved(x, BANK, BANK_BIAS, stride=2, padding=4))
        expected = convolved(features.astype(np.float32), EACH, padding="same", groups=32)

        def served(daemon):
            from penstock import Client
            with Client(daemon.url, timeout=60) as client:
                self.close(np.asarray(client.submit("document", x).result()["each"]), expected, features, EACH)
        self.daemons.each(self, served)

    def test_references_agree(self):
        if torch is None:
            self.skipTest("PyTorch is not installed")
        for name, (frame, _, settings) in CASES.items():
            x = random(2, *frame)
            given = [{"stride": 1, "padding": 0, "dilation": 1, "groups": 1, **settings}[key] for key in SETTINGS]
            np.testing.assert_allclose(by_scipy(x, WEIGHTS[name], *given), by_torch(x, WEIGHTS[name], *given),
                                       rtol=1e-9, atol=1e-9)

    def test_what_does_not_fit_is_refused_by_pipeline_stage_and_field(self):
        with tempfile.TemporaryDirectory() as folder:
            place = pathlib.Path(folder)
            np.save(place / "w.npy", BANK)
            np.save(place / "large.npy", 1e6 * BANK)

            def said(lines, shape=(16, 100), backend="host", **environment):
                (place / "penstock.toml").write_text(
                    VERSION + pipeline("p", "f32", list(shape), [("layer", "convolve", lines)], ["layer"]))
                done = subprocess.run([BIN / "penstockd", "--config", place / "penstock.toml", "--check-config",
                                       "--backend", backend], capture_output=True, text=True, timeout=60,
                                      env={**os.environ, **environment})
                return done.returncode, done.stderr

            self.assertEqual(said('weights = "w.npy"\n')[0], 0)
            for lines, field, reason in (
                    ('weights = "none.npy"\n', "weights", '"none.npy": it can\'t be read'),
                    ('weights = "w.npy"\ngroups = 2\n', "weights", "must have 8 channels"),
                    ('weights = "w.npy"\nbias = "w.npy"\n', "bias", "must be [32]"),
                    ('weights = "w.npy"\npadding = "full"\n', "padding", '"same"'),
                    ('weights = "large.npy"\ncompute = "f16"\n', "weights", "too large for f16")):
                code, text = said(lines)
                self.assertEqual(code, 78, text)
                self.assertIn(f"pipeline 'p', stage 'layer', field '{field}': ", text)
                self.assertIn(reason, text)
            code, text = said('weights = "w.npy"\n', ("max 16", 100))
            self.assertEqual(code, 78, text)
            self.assertIn("fixed size", text)
            code, text = said('weights = "w.npy"\n', PENSTOCK_ONEDNN="/nowhere.so")
            self.assertNotEqual(code, 0)
            self.assertIn("pipeline 'p', stage 'layer'", text)
            self.assertIn("needs oneDNN", text)
            self.assertIn("libdnnl2", text)
            # A GPU does without.
            self.assertEqual(said('weights = "w.npy"\n', backend="cuda", PENSTOCK_ONEDNN="/nowhere.so")[0], 0)
            self.assertEqual(said('weights = "w.npy"\n', backend="auto", PENSTOCK_ONEDNN="/nowhere.so",
                                  PENSTOCK_CUDA_MODULE="/nowhere.so")[0], 69)


if __name__ == "__main__":
    unittest.main()
