"""Kernels of Numba and of Triton go through penstock.kernels.export into a pipeline.

Each is compiled to PTX, which needs no GPU; the daemon links that and checks the stage that export has written. With a
GPU a daemon serves them, and what comes back is compared with NumPy and SciPy in float64 and with what Numba and Triton
compute themselves. What this machine has no package for is skipped.
"""

import json
import pathlib
import re
import tempfile
import unittest

import compilers
from daemon_process import VERSION, Daemon, backends

try:
    import numpy
    import penstock
    from penstock.kernels import export
    from session_signals import through_sessions, worst_error
except ImportError as error:
    raise unittest.SkipTest(str(error)) from error
try:
    from numba import cuda
except ImportError:
    cuda = None
try:
    import triton
    from triton import language as tl
except ImportError:
    triton = None
try:
    import scipy.signal
except ImportError:
    scipy = None

POLE = 0.9
CHANNELS, SAMPLES = 8, 256
STEER = numpy.exp(0.7j * numpy.arange(CHANNELS)).astype(numpy.complex64)
HEAD = VERSION + """
[sessions]
max_sessions = 64
max_per_client = 64
[code]
allow = ["."]
"""
LINKED = re.compile(r"kernel \S+ for sm_90: \d+ registers, \d+ bytes of shared memory")

if cuda is not None:
    @cuda.jit
    def scale(x, y, count, factor):
        i = cuda.grid(1)
        if i < count:
            y[i] = factor * x[i]

    @cuda.jit
    def pole(x, y, frames, pool, stride, count, length, a):
        frame = cuda.grid(1)
        # 8 numbers of a frame: position (two), steps, produced, previous, next, place, half
        if frame >= count or frames[8 * frame + 4] >= 0:
            return
        half = frames[8 * frame + 7]
        # In floats: the state is one, at the beginning of its half.
        before = (2 * frames[8 * frame + 6] + half) * (stride // 4)
        after = (2 * frames[8 * frame + 6] + 1 - half) * (stride // 4)
        last = numpy.float32(0)
        if frames[8 * frame] != 0 or frames[8 * frame + 1] != 0:
            last = pool[before]
        while frame >= 0:
            for k in range(frames[8 * frame + 2]):
                last = x[frame * length + k] + a * last
                y[frame * length + k] = last
            frame = frames[8 * frame + 5]
        pool[after] = last

if triton is not None:
    @triton.jit
    def triton_scale(x, y, count, factor, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(y + at, factor * tl.load(x + at, mask=at < count), mask=at < count)

    @triton.jit
    def power(x, y, LENGTH: tl.constexpr = 1024):
        row = tl.program_id(0)
        part = tl.load(x + row * LENGTH + tl.arange(0, LENGTH))
        tl.store(y + row, tl.sum(part * part) / LENGTH)

    @triton.jit
    def beam(x, weights, y, CHANNELS: tl.constexpr, SAMPLES: tl.constexpr):
        frame = tl.program_id(0)
        at = tl.arange(0, SAMPLES)
        re = tl.zeros([SAMPLES], tl.float32)
        im = tl.zeros([SAMPLES], tl.float32)
        for channel in range(CHANNELS):
            sample = x + 2 * ((frame * CHANNELS + channel) * SAMPLES + at)
            a, b = tl.load(sample), tl.load(sample + 1)
            c, d = tl.load(weights + 2 * channel), tl.load(weights + 2 * channel + 1)
            re += c * a - d * b
            im += c * b + d * a
        tl.store(y + frame * SAMPLES + at, re * re + im * im)


def write_numba(folder):
    """The pipelines of Numba's kernels, by name."""
    return {
        "scale": ("f32", [1000], export(
            scale, folder / "scale.ptx", grid=["ceil(frames * n0 / 256)"], block=[256], values={"factor": 0.3},
            signature={"x": "f32* in", "y": "f32* out", "count": "i64 frames * n0", "factor": "f32 factor"})),
        "pole": ("f32", ["max 64"], export(
            pole, folder / "pole.ptx", grid=["ceil(frames / 64)"], block=[64], values={"a": POLE},
            state={"bytes": 4}, signature={
                "x": "f32* in", "y": "f32* out", "frames": "i32* session.frames", "pool": "f32* session.pool",
                "stride": "i64 session.stride", "count": "frames", "length": "n0", "a": "f32 a"}))}


def write_triton(folder):
    """The pipelines of Triton's kernels, by name."""
    return {
        "triton_scale": ("f32", [1000], export(
            triton_scale, folder / "triton_scale.ptx", grid=["ceil(frames * n0 / BLOCK)"], values={"factor": 0.3},
            constants={"BLOCK": 512}, options={"num_warps": 8},
            signature={"x": "f32* in", "y": "f32* out", "count": "i64 frames * n0", "factor": "f32 factor"})),
        "power": ("f32", [1024], export(
            power, folder / "power.ptx", grid=["frames"], output={"dtype": "f32", "shape": [1]},
            signature={"x": "f32* in", "y": "f32* out"})),
        "beam": ("cf32", [CHANNELS, SAMPLES], export(
            beam, folder / "beam.ptx", grid=["frames"], output={"dtype": "f32", "shape": ["n1"]},
            constants={"CHANNELS": CHANNELS, "SAMPLES": SAMPLES}, values={"weights": STEER.view(numpy.float32)},
            signature={"x": "f32* in", "weights": "f32* weights", "y": "f32* out"}))}


def configuration(pipelines):
    text = HEAD
    for name, (dtype, shape, stage) in pipelines.items():
        text += f'[[pipeline]]\nname = "{name}"\ninput = {{ dtype = "{dtype}", shape = {json.dumps(shape)} }}\n{stage}\n'
    return text


class KernelsExportTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="penstock-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def need(self, package, name):
        if package is None:
            self.skipTest(f"{name} is not installed")

    def check(self, pipelines):
        """The daemon links the kernels, and their parameters are those of the stages."""
        if compilers.missing(".ptx"):
            self.skipTest(compilers.missing(".ptx"))
        (self.folder / "penstock.toml").write_text(configuration(pipelines))
        code, text = compilers.check(self.folder)
        self.assertEqual(code, 0, text)
        self.assertEqual(len(LINKED.findall(text)), len(pipelines), text)

    def test_numba_kernels_are_linked_and_fit_their_stages(self):
        self.need(cuda, "numba-cuda")
        pipelines = write_numba(self.folder)
        self.assertIn('args   = ["in", "out", "i64 frames * n0", "f32 factor"]\n', pipelines["scale"][2])
        self.check(pipelines)

    def test_triton_kernels_are_linked_and_fit_their_stages(self):
        self.need(triton, "triton")
        pipelines = write_triton(self.folder)
        stage = pipelines["triton_scale"][2]
        self.assertIn('args   = ["in", "out", "i64 frames * n0", "f32 factor", "null", "null"]\n', stage)
        self.assertIn('grid   = ["ceil(frames * n0 / 512)"]\nblock  = [256]\n', stage)
        self.assertRegex(pipelines["power"][2], r"shared = [1-9]")
        self.assertIn(".target sm_90a", (self.folder / "power.ptx").read_text())
        self.check(pipelines)

    def test_a_kernel_that_others_can_not_write_is_written_whole(self):
        self.need(cuda, "numba-cuda")
        write_numba(self.folder)
        self.assertEqual((self.folder / "scale.ptx").stat().st_mode & 0o022, 0)
        self.assertEqual(sorted(each.name for each in self.folder.iterdir()), ["pole.ptx", "scale.ptx"])

    def test_a_wrong_argument_is_named(self):
        self.need(cuda, "numba-cuda")
        good = {"x": "f32* in", "y": "f32* out", "count": "frames", "factor": "f32 factor"}
        for signature, more, message in (
                ({**good, "x": "float* in"}, {}, r"signature\['x'\].*unknown type"),
                ({**good, "x": "in"}, {}, r"signature\['x'\].*\"f32\* in\""),
                ({**good, "x": "session"}, {}, r"signature\['x'\].*session\.frames"),
                ({**good, "x": "bf16* in"}, {}, r"signature\['x'\].*no bf16"),
                ({**good, "z": "f32* in"}, {}, r"signature\['z'\].*no such parameter"),
                ({"x": "f32* in"}, {}, "signature says nothing of .*'y'"),
                (good, {"constants": {"BLOCK": 1}}, r"constants\['BLOCK'\]"),
                (good, {"options": {"num_warps": 1}}, r"options\['num_warps'\]"),
                (good, {"architecture": "hopper"}, "architecture='hopper'")):
            with self.subTest(message), self.assertRaisesRegex(ValueError, message):
                export(scale, self.folder / "no.ptx", signature=signature, grid=[1], **{"block": [1], **more})
        with self.assertRaisesRegex(TypeError, "block"):
            export(scale, self.folder / "no.ptx", signature=good, grid=[1])
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_a_wrong_constant_of_triton_is_named(self):
        self.need(triton, "triton")
        good = {"x": "f32* in", "y": "f32* out", "count": "frames", "factor": "f32 factor"}
        with self.assertRaisesRegex(ValueError, "constants says nothing of .*'BLOCK'"):
            export(triton_scale, self.folder / "no.ptx", signature=good, grid=[1])
        with self.assertRaisesRegex(ValueError, r"constants\['factor'\]"):
            export(triton_scale, self.folder / "no.ptx", signature=good, grid=[1], constants={"BLOCK": 1, "factor": 2})
        with self.assertRaisesRegex(ValueError, r"signature\['x'\].*no complex"):
            export(triton_scale, self.folder / "no.ptx", signature={**good, "x": "cf32* in"}, grid=[1],
                   constants={"BLOCK": 1})
        with self.assertRaisesRegex(TypeError, "num_warps"):
            export(triton_scale, self.folder / "no.ptx", signature=good, grid=[1], block=[128], constants={"BLOCK": 1})

    def test_only_kernels_are_exported(self):
        with self.assertRaisesRegex(TypeError, "kernel is a function, not what numba.cuda.jit or triton.jit gives"):
            export(lambda x: x, self.folder / "no.ptx", signature={}, grid=[1])


@unittest.skipUnless("cuda" in backends(), "not on this machine: serving the kernels takes a GPU")
class ServedKernelsTest(unittest.TestCase):
    """One daemon serves every kernel that this machine has the package of."""

    @classmethod
    def setUpClass(cls):
        if compilers.missing(".ptx"):
            raise unittest.SkipTest(compilers.missing(".ptx"))
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            pipelines = {**(write_numba(folder) if cuda else {}), **(write_triton(folder) if triton else {})}
            if not pipelines:
                raise unittest.SkipTest("neither numba-cuda nor triton is installed")
            files = {each.name: each.read_bytes() for each in folder.iterdir()}
        cls.daemon = Daemon("cuda", "callback", configuration(pipelines), files)
        cls.client = penstock.Client(cls.daemon.url)
        cls.random = numpy.random.default_rng(1)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        code, log = cls.daemon.stop()
        assert code == 0, log

    def need(self, package, name):
        if package is None:
            self.skipTest(f"{name} is not installed")

    def serve(self, pipeline, frames):
        """Each frame as a request of its own, all in flight together."""
        futures = [self.client.submit(pipeline, each) for each in frames]
        return numpy.stack([numpy.asarray(each.result(60).array).reshape(-1) for each in futures])

    def signal(self, *shape):
        return self.random.standard_normal(shape, dtype=numpy.float32)

    def test_numba_scale(self):
        self.need(cuda, "numba-cuda")
        x = self.signal(50, 1000)
        got = self.serve("scale", x)
        self.assertTrue(numpy.array_equal(got, x * numpy.float32(0.3)))
        own = cuda.device_array(x.size, numpy.float32)
        scale[(x.size + 255) // 256, 256](cuda.to_device(x.reshape(-1)), own, x.size, numpy.float32(0.3))
        self.assertTrue(numpy.array_equal(got.reshape(-1), own.copy_to_host()))

    def test_numba_pole_keeps_its_state(self):
        self.need(cuda, "numba-cuda")
        self.need(scipy, "scipy")
        x = self.signal(64, 500)
        got = through_sessions(self.client, "pole", x, 64)
        want = scipy.signal.lfilter([1], [1, -numpy.float64(numpy.float32(POLE))], x.astype(numpy.float64), axis=1)
        self.assertLess(worst_error(got, want), 2e-6)

    def test_triton_scale(self):
        self.need(triton, "triton")
        x = self.signal(50, 1000)
        got = self.serve("triton_scale", x)
        self.assertTrue(numpy.array_equal(got, x * numpy.float32(0.3)))

    def test_triton_power(self):
        self.need(triton, "triton")
        x = self.signal(50, 1024)
        got = self.serve("power", x)
        want = numpy.mean(x.astype(numpy.float64) ** 2, axis=1)
        self.assertLess(numpy.abs(got[:, 0] / want - 1).max(), 1e-6)
        self.compare_with_triton(power, got, x, 50, {"LENGTH": 1024})

    def test_triton_beam(self):
        self.need(triton, "triton")
        x = (self.signal(50, CHANNELS, SAMPLES) + 1j * self.signal(50, CHANNELS, SAMPLES)).astype(numpy.complex64)
        got = self.serve("beam", x)
        want = numpy.abs(numpy.einsum("c,fct->ft", STEER.astype(complex), x.astype(complex))) ** 2
        self.assertLess(numpy.abs(got - want).max() / want.max(), 1e-5)
        self.compare_with_triton(beam, got, x.view(numpy.float32), 50,
                                 {"CHANNELS": CHANNELS, "SAMPLES": SAMPLES}, STEER.view(numpy.float32))

    def compare_with_triton(self, kernel, got, x, blocks, constants, *arrays):
        """Triton launches kernels on what torch has."""
        try:
            import torch
        except ImportError:
            print(f"skipped: {kernel.__name__} by Triton itself, for torch is not installed", flush=True)
            return
        own = torch.empty(got.size, dtype=torch.float32, device="cuda")
        kernel[(blocks,)](torch.from_numpy(x).cuda(), *(torch.from_numpy(each).cuda() for each in arrays), own,
                          **constants)
        self.assertTrue(numpy.array_equal(got.reshape(-1), own.cpu().numpy()))


if __name__ == "__main__":
    unittest.main()
