"""Maps through the real daemon, each compared with numpy in float64."""

import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import numpy as np

from daemon_process import BIN, VERSION, Daemons, pipeline

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
N, M = 40, 13  # frames of no round number of elements


def stage(name, expression, more="", sources=None):
    source = f"from = {json.dumps(sources)}\n" if sources else ""
    return name, "map", f"{source}expr = {json.dumps(expression)}\n{more}"


def real(random, count):
    return random.standard_normal((count, N, M)).astype(np.float32)


def iq(random, count):
    return (real(random, count) + 1j * real(random, count)).astype(np.complex64)


def whole(dtype):
    def make(random, count):
        limits = np.iinfo(dtype)
        return random.integers(limits.min, limits.max, (count, N, M), dtype, endpoint=True)
    return make


def pairs(dtype):
    def make(random, count):
        limits = np.iinfo(dtype)
        return random.integers(limits.min, limits.max, (count, N, M, 2), dtype, endpoint=True)
    return make


def complex_of(x):
    return x[..., 0].astype(float) + 1j * x[..., 1]


i0 = np.arange(N)[:, None]
i1 = np.arange(M)
# name: dtype, input, stages, numpy in float64
CASES = {
    "power_db": ("cf32", iq, [stage("y", "log10(max(re*re + im*im, 1e-20))")],
                 lambda x: np.log10(np.maximum(np.abs(x) ** 2, 1e-20))),
    "affine": ("f32", real, [stage("y", "gain * x + 0.5", "values = { gain = 3 }\n")], lambda x: 3 * x + 0.5),
    "clip": ("f32", real, [stage("y", "clamp(x, -0.5, 0.5)")], lambda x: np.clip(x, -0.5, 0.5)),
    "gate": ("f32", real, [stage("y", "abs(x) < level ? 0 : x", "values = { level = 0.25 }\n")],
             lambda x: np.where(np.abs(x) < 0.25, 0, x)),
    "phase": ("cf32", iq, [stage("y", "arg(x) / pi")], lambda x: np.angle(x) / np.pi),
    "mixer": ("cf32", iq, [stage("y", "x * exp(j * 2 * pi * i0 / 40)")], lambda x: x * np.exp(2j * np.pi * i0 / 40)),
    "ratio": ("cf32", iq, [stage("y", "conj(x) / (2 + x*x)")], lambda x: np.conj(x) / (2 + x * x)),
    "root": ("cf32", iq, [stage("y", "sqrt(x) + log(x)")], lambda x: np.sqrt(x) + np.log(x)),
    "cube": ("cf32", iq, [stage("y", "x^3 - x^-1")], lambda x: x**3 - 1 / x),
    "bytes": ("u8", whole(np.uint8), [stage("y", "(x - 127.5) / 127.5")], lambda x: (x - 127.5) / 127.5),
    "shorts": ("i16", whole(np.int16), [stage("y", "x^2 / 32768")], lambda x: x.astype(float) ** 2 / 32768),
    "raw_iq": ("ci16", pairs(np.int16), [stage("y", "re*re + im*im")], lambda x: np.abs(complex_of(x)) ** 2),
    "raw_bytes": ("cu8", pairs(np.uint8), [stage("y", "(x - complex(127.5, 127.5)) / 127.5")],
                  lambda x: (complex_of(x) - (127.5 + 127.5j)) / 127.5),
    "rounded": ("f32", real, [stage("y", "100 * x", 'output = { dtype = "i8" }\n')],
                lambda x: np.clip(np.rint(100 * x.astype(np.float32)), -128, 127)),
    "ramp": ("f32", real, [stage("y", "x + i0 * n1 + i1")], lambda x: x + i0 * M + i1),
    "logic": ("f32", real, [stage("y", "(x > 0 && x < 1) || !(x >= -1) ? 1 : isnan(x)")],
              lambda x: ((x > 0) & (x < 1)) | ~(x >= -1)),
    "waves": ("f32", real, [stage("y", "sin(x) * cos(x) + tanh(x) - atan2(x, 2) + atan(x)")],
              lambda x: np.sin(x) * np.cos(x) + np.tanh(x) - np.arctan2(x, 2) + np.arctan(x)),
    "growth": ("f32", real, [stage("y", "exp(x) + log2(abs(x) + 1) + pow(abs(x), 1.5) + sinh(x) + cosh(x)")],
               lambda x: np.exp(x) + np.log2(np.abs(x) + 1) + np.abs(x) ** 1.5 + np.sinh(x) + np.cosh(x)),
    "corners": ("f32", real, [stage("y", "floor(x) + 10 * ceil(x) + 100 * round(x)")],
                lambda x: np.floor(x) + 10 * np.ceil(x) + 100 * np.rint(x)),
    "angles": ("f32", real, [stage("y", "asin(clamp(x, -1, 1)) + acos(clamp(x, -1, 1)) + tan(x / 4)")],
               lambda x: np.pi / 2 + np.tan(x / 4)),
    # Two inputs by name, one of them with the trailing extents alone.
    "sum_of_two": ("f32", real, [
        ("a", "affine", "a = 2\n"), ("b", "affine", 'from = "input"\nb = 1\n'),
        stage("y", "left * right - a", 'inputs = { left = "a", right = "b" }\n', ["a", "b"])],
        lambda x: 2 * x * (x + 1) - 2 * x),
    # What `inputs` calls by name need not be said again in `from`.
    "named_inputs": ("f32", real, [
        ("a", "affine", "a = 2\n"), ("b.c", "affine", 'from = "input"\nb = 1\n'),
        stage("y", "x * y + i0", 'inputs = { x = "a", y = "b.c" }\n')], lambda x: 2 * x * (x + 1) + i0),
    # What one map alone reads is computed with it.
    "fused": ("cf32", iq, [
        stage("turned", "x * j", sources=["input"]), stage("power", "re*re + im*im", sources=["turned"]),
        stage("y", "10 * log10(max(power, 1e-20)) + abs(input)", sources=["power", "input"])],
        lambda x: 10 * np.log10(np.maximum(np.abs(x) ** 2, 1e-20)) + np.abs(x)),
}


def example(page, title):
    """The first block of TOML below a heading of a document."""
    part = (DOCS / page).read_text().split(f"\n## {title}\n")[1]
    return re.search(r"```toml\n(.*?)```", part, re.DOTALL).group(1)


class MapTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        text = VERSION
        for name, (dtype, _, stages, _) in CASES.items():
            text += pipeline(name, dtype, [N, M], stages, ["y"])
            text += pipeline(name + "_any", dtype, [f"max {N}", M], stages, ["y"])
        text += pipeline("trailing", "f32", [2], [
            ("events", "detect", "high = 0\nmax_events = 3\n"),
            stage("y", "events + 10 * input", sources=["events", "input"])], ["events", "y"])
        text += pipeline("apart", "cf32", [N, M], CASES["fused"][2], ["turned", "power", "y"])
        operators = pipeline("example", "cf32", [N, M], [stage("iq", "x - 0.1"),
                                                         stage("noise", "abs(iq) + 1", sources=["iq"])], ["level"])
        text += operators + example("operators.md", "map")
        cls.daemons = Daemons(text)
        cls.addClassCleanup(cls.daemons.stop)

    def close(self, got, expected, name):
        expected = np.asarray(expected)
        self.assertEqual(got.shape, expected.shape, name)
        self.assertEqual(np.iscomplexobj(got), np.iscomplexobj(expected), name)
        scale = np.maximum(np.abs(expected), 1.0)
        self.assertLessEqual((np.abs(got - expected) / scale).max(), 4e-6, name)

    def test_every_expression_equals_numpy(self):
        def served(daemon):
            from penstock import Client
            with Client(daemon.url, transport="zmq", timeout=60) as client:
                for seed, (name, (_, make, _, expected)) in enumerate(CASES.items()):
                    for count in (1, 5):
                        x = make(np.random.default_rng(seed), count)
                        wide = x if x.dtype.kind != "c" else x.astype(complex)
                        wide = wide.astype(float) if x.dtype == np.float32 else wide
                        want = expected(wide)
                        got = np.asarray(client.submit(name, x).result()["y"])
                        self.close(got, want, name)
                        rows = 1 + 7 * seed % N
                        short = np.ascontiguousarray(x[:1, :rows])
                        if "i0" not in str(CASES[name][2]):
                            got = np.asarray(client.submit(name + "_any", short).result()["y"])
                            self.close(got, want[:1, :rows], name + "_any")
        self.daemons.each(self, served)

    def test_the_documents_examples_do_what_they_say(self):
        def served(daemon):
            from penstock import Client
            with Client(daemon.url, transport="zmq", timeout=60) as client:
                x = iq(np.random.default_rng(3), 4)
                z = x.astype(complex) - 0.1
                want = 10 * np.log10(np.maximum(np.abs(z) ** 2 / (np.abs(z) + 1), 1e-20))
                self.close(np.asarray(client.submit("example", x).result()["level"]), want, "operators.md")
        self.daemons.each(self, served)

    def test_maps_that_became_one_give_the_same_bits(self):
        def served(daemon):
            from penstock import Client
            with Client(daemon.url, transport="zmq", timeout=60) as client:
                x = iq(np.random.default_rng(2), 7)
                one, apart = (np.asarray(client.submit(name, x).result()["y"]) for name in ("fused", "apart"))
                np.testing.assert_array_equal(one, apart)
        self.daemons.each(self, served)

    def test_an_input_with_the_trailing_extents_repeats(self):
        def served(daemon):
            from penstock import Client
            with Client(daemon.url, transport="zmq", timeout=60) as client:
                x = np.random.default_rng(1).standard_normal((200, 2)).astype(np.float32)
                result = client.submit("trailing", x).result()
                expected = np.asarray(result["events"]).astype(float) + 10 * x[:, None, :]
                self.close(np.asarray(result["y"]), expected, "trailing")
        self.daemons.each(self, served)


class CheckTest(unittest.TestCase):
    """What is wrong is said before the daemon starts, with its place."""

    def refusal(self, stages, dtype="f32"):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "penstock.toml"
            file.write_text(VERSION + pipeline("p", dtype, [4], stages, [stages[-1][0]]))
            done = subprocess.run([BIN / "penstockd", "--config", file, "--check-config"], capture_output=True, text=True)
            self.assertNotEqual(done.returncode, 0, stages)
            return done.stderr

    def test_an_error_names_stage_field_line_and_letter(self):
        said = self.refusal([stage("y", "log10(pwoer)", "values = { power = 2 }\n")])
        for part in ("penstock.toml:9", "'y'", "expr", "'pwoer'", "did you mean 'power'", "at letter 7"):
            self.assertIn(part, said)

    def test_each_wrong_expression_is_refused(self):
        for expression, message in (("x +", "ends where a number is wanted"), ("max(x)", "it takes two or more"),
                                    ("sin(x, x)", "it takes one"), ("x ? 1", "lacks ':'"), ("sin(j)", "complex value")):
            with self.subTest(expression):
                self.assertIn(message, self.refusal([stage("y", expression)]))
        self.assertIn("takes inputs of one shape", self.refusal([
            ("s", "moments", 'from = "input"\n'), stage("y", "input + s", sources=["input", "s"])]))
        self.assertIn("the expression is complex", self.refusal([stage("y", "x * j", 'output = { dtype = "f32" }\n')]))
        self.assertIn("which the stage does not read", self.refusal([
            stage("y", "a", 'inputs = { a = "b" }\n', ["input"])]))

    def test_the_plan_says_which_maps_became_one(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "penstock.toml"
            stages = CASES["fused"][2]
            file.write_text(VERSION + pipeline("one", "cf32", [4], stages, ["y"])
                            + pipeline("two", "cf32", [4], stages, ["power", "y"]))
            def shown(name):
                return subprocess.run([BIN / "penstockd", "--config", file, "--backend", "host", "--print-plan", name],
                                      capture_output=True, text=True, check=True).stdout
            self.assertIn("map (with 'turned', 'power')", shown("one"))
            self.assertIn("map (with 'turned')", shown("two"))
            self.assertNotIn("'power')", shown("two"))

    def check_for_gpu(self, text, **environment):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "penstock.toml"
            file.write_text(VERSION + text)
            return subprocess.run([BIN / "penstockd", "--config", file, "--check-config", "--arch", "sm_90"],
                                  capture_output=True, text=True, env={**os.environ, **environment})

    def test_without_a_compiler_it_says_what_to_install(self):
        done = self.check_for_gpu(pipeline("p", "f32", [4], [stage("y", "x + 1")], ["y"]),
                                  PENSTOCK_NVRTC="/nonexistent/libnvrtc.so")
        self.assertNotEqual(done.returncode, 0)
        for part in ("stage 'y'", "needs libnvrtc", "Debian: "):
            self.assertIn(part, done.stderr)

    def test_each_expression_compiles_for_a_gpu(self):
        text = "".join(pipeline(name + end, dtype, [first, M], stages, ["y"])
                       for name, (dtype, _, stages, _) in CASES.items() for end, first in (("", N), ("_any", f"max {N}")))
        done = self.check_for_gpu(text)
        if "libnvrtc" in done.stderr:
            self.skipTest("libnvrtc is not installed: " + done.stderr.strip())
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count("kernel penstock_map for sm_90"), 2 * len(CASES), done.stdout)


if __name__ == "__main__":
    unittest.main()
