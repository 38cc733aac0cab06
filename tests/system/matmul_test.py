"""Matrix products through the real daemon, each compared with numpy in float64."""

import ctypes
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import numpy as np

from daemon_process import BIN, VERSION, Daemons, npy, pipeline

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
TORCH = os.environ.get("PENSTOCK_TORCH_PYTHON")
K, H, N = 96, 130, 5
RANDOM = np.random.default_rng(7)
HIDDEN = RANDOM.standard_normal((K, H)).astype(np.float32) / 10
HIDDEN_BIAS = RANDOM.standard_normal(H)  # float64
SCORE = RANDOM.standard_normal((H, N)).astype(np.float16)


def example():
    """The first block of TOML in the operator's section."""
    part = (DOCS / "operators.md").read_text().split("\n## matmul\n")[1]
    return re.search(r"```toml\n(.*?)```", part, re.DOTALL).group(1)


def gelu(y):
    return y / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (y + 0.044715 * y ** 3)))


def network(x):
    return gelu(x.astype(float) @ HIDDEN.astype(float) + HIDDEN_BIAS) @ SCORE.astype(float)


class MatmulTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        try:
            ctypes.CDLL(os.environ.get("PENSTOCK_OPENBLAS", "libopenblas.so.0"))
        except OSError as error:
            raise unittest.SkipTest(f"{error}: Debian's libopenblas0") from error
        text = VERSION + pipeline("network", "f32", [3, K], [], ["hidden", "score"]) + example()
        text += pipeline("any", "f32", ["max 40", K], [], ["score"]) + example()
        text += pipeline("repeats", "f32", [K], [("y", "matmul", 'weights = "hidden.npy"\nrepeatable = true\n')], ["y"])
        cls.daemons = Daemons(text, {"hidden.npy": npy(HIDDEN), "hidden_bias.npy": npy(HIDDEN_BIAS),
                                     "score.npy": npy(SCORE)})
        cls.addClassCleanup(cls.daemons.stop)

    def close(self, got, expected):
        self.assertEqual(got.shape, expected.shape)
        np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-3 * np.abs(expected).max())

    def test_the_documents_network_equals_numpy(self):
        def served(daemon):
            from penstock import Client
            with Client(daemon.url, timeout=60) as client:
                for frames in (1, 4, 33):
                    x = RANDOM.standard_normal((frames, 3, K)).astype(np.float32)
                    self.close(np.asarray(client.submit("network", x).result()["score"]), network(x))
                for rows in (1, 17, 40):
                    x = RANDOM.standard_normal((2, rows, K)).astype(np.float32)
                    self.close(np.asarray(client.submit("any", x).result()["score"]), network(x))
        self.daemons.each(self, served)

    @unittest.skipUnless(TORCH, "PENSTOCK_TORCH_PYTHON names no Python with torch")
    def test_the_documents_linear_layer_equals_pytorchs(self):
        part = (DOCS / "operators.md").read_text().split("\n## matmul\n")[1]
        program = re.search(r"```python\n(.*?)```", part, re.DOTALL).group(1) + """
x = torch.randn(7, 64)
numpy.savez("expected.npz", x=x, y=layer(x).detach())
"""
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([TORCH, "-c", program], cwd=folder, check=True)
            files = {file: (pathlib.Path(folder) / file).read_bytes() for file in ("hidden.npy", "hidden_bias.npy")}
            expected = np.load(pathlib.Path(folder) / "expected.npz")
            x, y = expected["x"], expected["y"]
        layer = 'weights = "hidden.npy"\nbias = "hidden_bias.npy"\n'
        daemons = Daemons(VERSION + pipeline("p", "f32", [64], [("y", "matmul", layer)], ["y"]), files)
        self.addCleanup(daemons.stop)

        def served(daemon):
            from penstock import Client
            with Client(daemon.url, timeout=60) as client:
                np.testing.assert_allclose(client.submit("p", x).result()["y"], y, atol=1e-5)
        daemons.each(self, served)

    def test_a_repeatable_product_has_the_same_bits_in_every_batch(self):
        def served(daemon):
            from penstock import Client
            with Client(daemon.url, timeout=60) as client:
                x = RANDOM.standard_normal((50, K)).astype(np.float32)
                alone = [client.submit("repeats", x[at]) for at in range(len(x))]
                together = np.asarray(client.submit("repeats", x).result()["y"])
                some = np.asarray(client.submit("repeats", x[11:30]).result()["y"])
                np.testing.assert_array_equal(some, together[11:30])
                for at, each in enumerate(alone):
                    np.testing.assert_array_equal(np.asarray(each.result()["y"]).reshape(-1), together[at])
        self.daemons.each(self, served)

    def test_what_does_not_fit_is_refused_by_pipeline_stage_and_field(self):
        with tempfile.TemporaryDirectory() as folder:
            place = pathlib.Path(folder)
            np.save(place / "w.npy", HIDDEN)
            np.save(place / "nan.npy", np.where(HIDDEN > 0.3, np.nan, HIDDEN))

            def said(lines, backend="host", **environment):
                (place / "penstock.toml").write_text(
                    VERSION + pipeline("p", "f32", [K], [("layer", "matmul", lines)], ["layer"]))
                done = subprocess.run([BIN / "penstockd", "--config", place / "penstock.toml", "--check-config",
                                       "--backend", backend], capture_output=True, text=True, timeout=60,
                                      env={**os.environ, **environment})
                return done.returncode, done.stderr

            self.assertEqual(said('weights = "w.npy"\n')[0], 0)
            for lines, field, reason in (
                    ('weights = "none.npy"\n', "weights", '"none.npy": it can\'t be read'),
                    ('weights = "nan.npy"\n', "weights", "is not finite"),
                    ('weights = "w.npy"\nbias = "w.npy"\n', "bias", f"must be [{H}]"),
                    ('weights = "w.npy"\ncompute = "f8"\n', "compute", "bf16")):
                code, text = said(lines)
                self.assertEqual(code, 78, text)
                self.assertIn(f"pipeline 'p', stage 'layer', field '{field}': ", text)
                self.assertIn(reason, text)
            code, text = said('weights = "w.npy"\n', PENSTOCK_OPENBLAS="/nowhere.so")
            self.assertNotEqual(code, 0)
            self.assertIn("pipeline 'p', stage 'layer'", text)
            self.assertIn("needs OpenBLAS", text)
            self.assertIn("libopenblas0", text)
            # A GPU does without.
            self.assertEqual(said('weights = "w.npy"\n', "cuda", PENSTOCK_OPENBLAS="/nowhere.so")[0], 0)
            # As a start does, which takes the host where there is no GPU.
            self.assertEqual(said('weights = "w.npy"\n', "auto", PENSTOCK_OPENBLAS="/nowhere.so",
                                  PENSTOCK_CUDA_MODULE="/nowhere.so")[0], 69)


if __name__ == "__main__":
    unittest.main()
