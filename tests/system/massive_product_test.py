"""Products by cuBLAS-Xt on a thread of their own, by a CUDA runtime and a cuBLAS that need no GPU (tests/fake_cuda)."""

import ctypes
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import numpy as np
from penstock import Client, Expired, Failed

from daemon_process import BIN, Daemon, npy, wait_until
from fake_cuda import FAKE_CUDA, FakeCuda

FAKE_CUBLAS = FAKE_CUDA.with_name("penstock-cublas-fake.so")
INNER, COLUMNS = 12, 5
# The first number of a row, and what the fake cuBLAS does then.
FAILS, HELD, ENDLESS = 666, 555, 777
DEVICE_LOST = 75
HEAD = """config_version = 1
[device]
slots = 8
streams = 2
"""
PRODUCT = f"""
[[pipeline]]
name = "product"
input = {{ dtype = "f32", shape = [3, {INNER}] }}
batch = {{ max_frames = 4 }}
[[pipeline.stage]]
name = "layer"
op = "matmul"
weights = "w.npy"
engine = "xt"
"""
OTHER = """
[[pipeline]]
name = "other"
input = { dtype = "f32", shape = [8] }
[[pipeline.stage]]
name = "twice"
op = "affine"
a = 2.0
"""
NUMBERS = np.random.default_rng(1)
WEIGHTS = NUMBERS.standard_normal((INNER, COLUMNS)).astype(np.float32)
BIAS = NUMBERS.standard_normal(COLUMNS).astype(np.float32)


FILES = {"w.npy": npy(WEIGHTS), "b.npy": npy(BIAS)}


def frames_that(does=None, count=1):
    frames = NUMBERS.standard_normal((count, 3, INNER)).astype(np.float32)
    if does is not None:
        frames[0, 0, 0] = does
    return frames


def product(frames, weights=WEIGHTS):
    return frames.astype(np.float64) @ weights


def has_openblas():
    try:
        ctypes.CDLL(os.environ.get("PENSTOCK_OPENBLAS", "libopenblas.so.0"))
    except OSError:
        return False
    return True


@unittest.skipUnless(FAKE_CUBLAS.exists(), f"{FAKE_CUBLAS.name} is built where CUDA's headers are")
class MassiveProduct(unittest.TestCase):

    def start(self, text, files=FILES, head=HEAD):
        gate = tempfile.TemporaryDirectory(prefix="penstock-")
        self.addCleanup(gate.cleanup)
        self.gate = pathlib.Path(gate.name) / "open"
        self.cuda = FakeCuda()
        self.daemon = Daemon("cuda", "callback", head + text, files, environment={
            **self.cuda.environment, "PENSTOCK_CUBLAS": str(FAKE_CUBLAS), "FAKE_CUBLAS_GATE": str(self.gate)})
        self.addCleanup(self.end)

    def end(self):
        if self.daemon.process.poll() is None:
            self.daemon.process.kill()
            self.daemon.process.wait()
        self.daemon.folder.cleanup()

    def client(self, transport="auto"):
        client = Client(self.daemon.url, transport=transport, timeout=60)
        self.addCleanup(client.close)
        return client

    def expect(self, future, frames, weights=WEIGHTS):
        found = future.result(60)["layer"]
        np.testing.assert_allclose(found, product(frames, weights).reshape(found.shape), rtol=1e-5, atol=1e-5)

    def test_results_are_those_of_numpy_however_frames_come(self):
        self.start(PRODUCT)
        for transport in ("zmq", "shm"):
            client = self.client(transport)
            asked = []
            for count in (1, 4, 2, 3, 1, 1, 1):
                if transport == "shm":
                    frames = client.frames("product", count)
                    frames[:] = frames_that(count=count)
                else:
                    frames = frames_that(count=count)
                asked.append((client.submit("product", frames, frames=count), frames))
            for future, frames in asked:
                self.expect(future, frames)
            self.assertEqual(client.large_requests["shm"] > 0, transport == "shm")
        self.assertIn("weights: the file's pages are pinned", self.daemon.log.read_text())

    def test_bias_and_activation_follow(self):
        self.start(PRODUCT + 'bias = "b.npy"\nactivation = "gelu"\n')
        frames = frames_that(count=4)
        y = product(frames) + BIAS
        found = self.client().submit("product", frames, frames=4).result(60)["layer"]
        expected = y / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (y + 0.044715 * y**3)))
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)

    def test_a_call_that_fails_fails_its_batch_alone(self):
        self.start(PRODUCT + OTHER)
        client = self.client()
        for _ in range(5):  # more than a device may refuse
            with self.assertRaises(Failed) as failed:
                client.submit("product", frames_that(FAILS), frames=1).result(60)
            self.assertEqual((failed.exception.stage, failed.exception.device_error),
                             ("layer", "CUBLAS_STATUS_EXECUTION_FAILED"))
            frames = frames_that()
            self.expect(client.submit("product", frames, frames=1), frames)
        np.testing.assert_array_equal(client.submit("other", np.ones(8, np.float32)).result(60)["twice"], 2)
        self.assertTrue(client.status()["balanced"])

    def test_a_product_that_takes_long_holds_up_no_other_pipeline_and_no_deadline(self):
        self.start(PRODUCT + OTHER)
        client = self.client()
        frames = frames_that(HELD, 4)
        held = client.submit("product", frames, frames=4)
        for value in range(20):
            found = client.submit("other", np.full(8, value, np.float32)).result(60)["twice"]
            np.testing.assert_array_equal(found, 2 * value)
        with self.assertRaises(Expired):
            client.submit("product", frames_that(count=4), frames=4, timeout=0.2).result(60)
        self.assertFalse(held.done())
        self.gate.touch()
        self.expect(held, frames)

    def test_a_stop_waits_for_the_product(self):
        self.start(PRODUCT)
        client = self.client()
        frames = frames_that(HELD)
        held = client.submit("product", frames, frames=1)
        client.ping()  # it has come in
        self.daemon.process.terminate()
        wait_until(lambda: "drain" in self.daemon.log.read_text(), "the stop has begun")
        self.gate.touch()
        self.expect(held, frames)
        self.assertEqual(self.daemon.process.wait(60), 0)

    def test_a_product_that_never_ends_is_a_device_that_hangs(self):
        self.start(PRODUCT.replace("[[pipeline]]", 'hang_timeout = "300ms"\n[[pipeline]]', 1))
        client = self.client()
        future = client.submit("product", frames_that(ENDLESS), frames=1)
        self.assertIn("hangs", str(future.exception(60)))
        self.assertEqual(self.daemon.process.wait(60), DEVICE_LOST)

    def test_a_reload_brings_it_changes_it_and_takes_it_away(self):
        self.start(OTHER)
        configuration = self.daemon.path / "penstock.toml"
        client = self.client()
        for factor in range(1, 4):
            weights = WEIGHTS * factor
            (self.daemon.path / "part").write_bytes(npy(weights))
            (self.daemon.path / "part").rename(self.daemon.path / "w.npy")
            configuration.write_text(HEAD + OTHER + PRODUCT)
            status, said = self.daemon.ask_for_reload()
            self.assertEqual((status, said.get("changed")), (200, True), said)
            with Client(self.daemon.url, timeout=60) as fresh:
                frames = frames_that(count=2)
                self.expect(fresh.submit("product", frames, frames=2), frames, weights)
        configuration.write_text(HEAD + OTHER)
        self.assertEqual(self.daemon.ask_for_reload()[0], 200)
        np.testing.assert_array_equal(client.submit("other", np.ones(8, np.float32)).result(60)["twice"], 2)

    def test_the_documents_example_is_served(self):
        page = (pathlib.Path(__file__).resolve().parents[2] / "docs/operators.md").read_text()
        text = re.search(r"```toml\n(# massive.toml\n.*?)```", page, re.DOTALL).group(1)
        weights = NUMBERS.standard_normal((512, 40)).astype(np.float32)
        self.start(text, {"large.npy": npy(weights)}, head="")
        client = self.client()
        x = NUMBERS.standard_normal((3, 64, 512)).astype(np.float32)
        y = x.astype(np.float64) @ weights
        found = client.submit("massive", x, frames=3).result(60)["product"]
        np.testing.assert_allclose(found, y, rtol=1e-4, atol=1e-3)
        if has_openblas():
            spread = client.submit("streamed", x, frames=3).result(60)["spread"]
            np.testing.assert_allclose(spread[..., 0], y.mean(-1), rtol=1e-4, atol=1e-3)

    def refusal(self, text, *words, files=FILES, **environment):
        """What the daemon says when it refuses to start."""
        with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
            for name, content in files.items():
                (pathlib.Path(folder) / name).write_bytes(content)
            (pathlib.Path(folder) / "penstock.toml").write_text(HEAD + text)
            done = subprocess.run(
                [BIN / "penstockd", "--config", f"{folder}/penstock.toml", "--listen", f"ipc://{folder}/data", "--admin",
                 "none", *words], capture_output=True, text=True, timeout=60,
                env={**os.environ, **FakeCuda().environment, "PENSTOCK_CUBLAS": str(FAKE_CUBLAS), **environment})
        self.assertNotEqual(done.returncode, 0, done.stderr)
        return done.stderr + done.stdout

    def test_what_can_not_be_is_refused_by_name(self):
        then = '[[pipeline.stage]]\nname = "twice"\nop = "affine"\na = 2.0\n'
        half = {**FILES, "w.npy": npy(WEIGHTS.astype(np.float16))}
        check = ("--check-config", )
        for said, text, words, files in (
            ("only stage of its pipeline", PRODUCT + then, check, FILES),
            ("must be f32 with engine", PRODUCT, check, half),
            ('must be "host" with engine', PRODUCT + 'weights_in = "device"\n', check, FILES),
            ('must be "f32" with engine', PRODUCT + 'compute = "tf32"\n', check, FILES),
            ("tile_bytes", PRODUCT + "tile_bytes = 1048576\n", check, FILES),
            ("which needs a GPU", PRODUCT, ("--backend", "host"), FILES),
            ("which needs a GPU", PRODUCT, ("--check-config", "--backend", "host"), FILES)):
            with self.subTest(said):
                found = self.refusal(text, *words, files=files)
                self.assertIn(said, found)
                self.assertIn("stage 'layer'", found)

    def test_a_machine_without_cublas_is_told_what_to_install(self):
        found = self.refusal(PRODUCT, "--backend", "cuda", PENSTOCK_CUBLAS="/nonexistent/libcublas.so")
        self.assertIn('engine = "xt" needs cuBLAS', found)
        self.assertIn("libcublas-13-0", found)


if __name__ == "__main__":
    unittest.main()
