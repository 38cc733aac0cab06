"""Kernels of a user's own in one daemon: their results are those of NumPy and SciPy in float64, and those of the same
source when CuPy compiles and launches it on the same GPU.

Without a GPU the kernels are compiled. What this machine has no package for is skipped.
"""

import pathlib
import subprocess
import tempfile
import unittest

import compilers
from daemon_process import BIN, VERSION, Daemon, backends

try:
    import numpy
    import penstock
    from session_signals import through_sessions, worst_error
except ImportError as error:
    raise unittest.SkipTest(str(error)) from error
try:
    from scipy.signal import lfilter
except ImportError:
    lfilter = None
try:
    import cupy
except ImportError:
    cupy = None

HEADER = pathlib.Path(__file__).resolve().parents[2] / "daemon/code/include/penstock.cuh"
A, POLE = numpy.float32(0.3), numpy.float32(0.9)
CHANNELS, SAMPLES = 16, 512
WEIGHTS = (numpy.exp(0.7j * numpy.arange(CHANNELS)) / CHANNELS).astype(numpy.complex64)
DELAYS = (7 * numpy.arange(CHANNELS) % 40).astype(numpy.int32)

SAXPY = """
template <class T>
__global__ void saxpy(const T* x, const T* y, T* out, long long count, T a) {
  const long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
  if (i < count) {
    out[i] = fma(a, x[i], y[i]);
  }
}
"""
REVERSE = """
extern "C" __global__ void reverse(const float* in, float* out) {
  extern __shared__ float tile[];
  const long long frame = static_cast<long long>(blockIdx.x) * blockDim.x;
  tile[threadIdx.x] = in[frame + threadIdx.x];
  __syncthreads();
  out[frame + threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}
"""
POLE_SOURCE = """
#include <penstock.cuh>

__device__ void filter(const float* in, float* out, penstock::session s, int frames, int n0, int n1, float a) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const int frame = i / n1;
  const int channel = i % n1;
  if (frame >= frames || !s.first(frame)) {
    return;
  }
  float y = s.begins(frame) ? 0.0f : s.before<float>(frame)[channel];
  for (int f = frame; f >= 0; f = s.frames[f].next) {
    for (int k = 0; k < s.frames[f].steps; ++k) {
      const long long at = (static_cast<long long>(f) * n0 + k) * n1 + channel;
      y = in[at] + a * y;
      out[at] = y;
    }
  }
  s.after<float>(frame)[channel] = y;
}
extern "C" __global__ void pole(const float* in, float* out, penstock::session s, int frames, int n0, int n1, float a) {
  filter(in, out, s, frames, n0, n1, a);
}
"""
# CuPy passes no structs by value.
POLE_BY_MEMBERS = """
extern "C" __global__ void pole_by_members(const float* in, float* out, const penstock::frame* table,
                                           unsigned char* pool, unsigned long long stride, int frames, int n0, int n1,
                                           float a) {
  penstock::session s{table, pool, stride};
  filter(in, out, s, frames, n0, n1, a);
}
"""
BEAM = """
// |sum of w[c] x[c][t - delay[c]]|^2 over the channels
extern "C" __global__ void beam(const float2* in, float* out, const float2* weights, const int* delays,
                                long long frames, int channels, int samples) {
  const long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
  const long long frame = i / samples;
  const int t = i % samples;
  if (frame >= frames) {
    return;
  }
  float re = 0, im = 0;
  for (int c = 0; c < channels; ++c) {
    if (t >= delays[c]) {
      const float2 x = in[(frame * channels + c) * samples + t - delays[c]];
      re += weights[c].x * x.x - weights[c].y * x.y;
      im += weights[c].x * x.y + weights[c].y * x.x;
    }
  }
  out[i] = re * re + im * im;
}
"""
FILES = {"saxpy.cu": SAXPY, "reverse.cu": REVERSE, "pole.cu": POLE_SOURCE, "beam.cu": BEAM}
CONFIGURATION = f"""{VERSION}
[sessions]
max_sessions = 1200
max_per_client = 1200
[code]
allow = ["."]

[[pipeline]]
name = "saxpy"
input = {{ dtype = "f32", shape = [1000] }}
outputs = ["saxpy"]
[[pipeline.stage]]
name = "quarter"
op = "affine"
a = 0.25
[[pipeline.stage]]
name = "saxpy"
op = "kernel"
from = ["input", "quarter"]
file = "saxpy.cu"
entry = "saxpy<float>"
grid = ["ceil(frames * n0 / 256)"]
block = [256]
args = ["in", "in1", "out", "i64 frames * n0", "f32 a"]
values = {{ a = {A} }}

[[pipeline]]
name = "reverse"
input = {{ dtype = "f32", shape = [768] }}
[[pipeline.stage]]
name = "reverse"
op = "kernel"
file = "reverse.cu"
grid = ["frames"]
block = ["n0"]
shared = "4 * n0"
args = ["in", "out"]

[[pipeline]]
name = "pole"
input = {{ dtype = "f32", shape = ["max 64", 2] }}
[[pipeline.stage]]
name = "pole"
op = "kernel"
file = "pole.cu"
grid = ["ceil(frames * n1 / 128)"]
block = [128]
args = ["in", "out", "session", "i32 frames", "i32 n0", "i32 n1", "f32 a"]
values = {{ a = {POLE} }}
state = {{ bytes = "4 * n1" }}

[[pipeline]]
name = "beam"
input = {{ dtype = "cf32", shape = [{CHANNELS}, {SAMPLES}] }}
[[pipeline.stage]]
name = "beam"
op = "kernel"
file = "beam.cu"
output = {{ dtype = "f32", shape = ["n1"] }}
grid = ["ceil(frames * n1 / 128)"]
block = [128]
args = ["in", "out", "weights", "i32* delays", "frames", "i32 n0", "i32 n1"]
values = {{ weights = {WEIGHTS.view(numpy.float32).tolist()}, delays = {DELAYS.tolist()} }}
"""


@unittest.skipIf(compilers.missing(".cu"), compilers.missing(".cu"))
class CompiledKernelsTest(unittest.TestCase):
    def test_each_kernel_fits_its_stage(self):
        with tempfile.TemporaryDirectory(prefix="penstock-") as name:
            folder = pathlib.Path(name)
            for file, text in {**FILES, "penstock.toml": CONFIGURATION}.items():
                (folder / file).write_text(text)
            code, said = compilers.check(folder)
        self.assertEqual(code, 0, said)
        for pipeline in ("saxpy", "reverse", "pole", "beam"):
            self.assertRegex(said, rf"pipeline '{pipeline}', stage '{pipeline}': kernel \S+ for sm_90: \d+ registers")


@unittest.skipIf(compilers.missing(".cu"), compilers.missing(".cu"))
@unittest.skipUnless("cuda" in backends(), "not on this machine: serving the kernels takes a GPU")
class ServedKernelsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon("cuda", "callback", CONFIGURATION, {name: text.encode() for name, text in FILES.items()})
        cls.client = penstock.Client(cls.daemon.url)
        cls.random = numpy.random.default_rng(1)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        code, log = cls.daemon.stop()
        if code != 0:
            raise AssertionError(f"the daemon ended with {code}:\n{log}")

    def serve(self, pipeline, frames):
        """Each frame as a request of its own, all in flight together."""
        futures = [self.client.submit(pipeline, each) for each in frames]
        return numpy.stack([each.result(60).array for each in futures])

    def launch(self, source, kernel, blocks, threads, arguments, like, shared=0):
        """What CuPy's launch of the kernel writes to its second array, or None without CuPy."""
        if cupy is None:
            print(f"skipped: {kernel} by CuPy, which is not installed", flush=True)
            return None
        module = cupy.RawModule(code=source, options=("--std=c++17",), name_expressions=[kernel])
        out = cupy.empty(like.shape, like.dtype)
        given = [out if each is Ellipsis else cupy.asarray(each) if isinstance(each, numpy.ndarray) else each
                 for each in arguments]
        module.get_function(kernel)((blocks,), (threads,), tuple(given), shared_mem=shared)
        return cupy.asnumpy(out)

    def assert_same(self, got, theirs):
        if theirs is not None:
            self.assertTrue(numpy.array_equal(got, theirs))

    def test_saxpy_is_exact(self):
        # So few bits that the sum is exact in float64, and rounded once as the kernel does.
        x = (self.random.integers(-2**15, 2**15, (200, 1000)) / 256).astype(numpy.float32)
        got = self.serve("saxpy", x)
        self.assertTrue(numpy.array_equal(got, (x * numpy.float64(A) + x / 4).astype(numpy.float32)))
        self.assert_same(got, self.launch(SAXPY, "saxpy<float>", (x.size + 255) // 256, 256,
                                          (x, x / numpy.float32(4), ..., numpy.int64(x.size), A), x))

    def test_a_tile_reversed_in_shared_memory_is_exact(self):
        x = self.random.standard_normal((200, 768), dtype=numpy.float32)
        got = self.serve("reverse", x)
        self.assertTrue(numpy.array_equal(got, x[:, ::-1]))
        self.assert_same(got, self.launch(REVERSE, "reverse", len(x), 768, (x, ...), x, shared=4 * 768))

    @unittest.skipIf(lfilter is None, "scipy is not installed")
    def test_a_filter_follows_a_thousand_sessions_however_they_are_cut(self):
        x = self.random.standard_normal((1000, 300, 2), dtype=numpy.float32)
        want = lfilter([1], [1, -numpy.float64(POLE)], x.astype(numpy.float64), axis=1)
        got = through_sessions(self.client, "pole", x, 64)
        self.assertLess(worst_error(got, want), 2e-6)
        if not HEADER.exists():
            print("skipped: pole by CuPy, for penstock.cuh is not in the tree", flush=True)
            return
        # For CuPy each signal is a frame.
        table = numpy.zeros(len(x), numpy.dtype([("position", "i8"), ("steps", "i4"), ("produced", "i4"),
                                                 ("previous", "i4"), ("next", "i4"), ("place", "i4"), ("half", "i4")]))
        table["steps"], table["previous"], table["next"], table["place"] = x.shape[1], -1, -1, numpy.arange(len(x))
        source = HEADER.read_text().replace("#pragma once", "") + POLE_SOURCE.replace("#include <penstock.cuh>", "")
        pool = numpy.zeros(2 * len(x) * 256, numpy.uint8)
        theirs = self.launch(source + POLE_BY_MEMBERS, "pole_by_members", (2 * len(x) + 127) // 128, 128,
                             (x, ..., table.view(numpy.uint8), pool, numpy.uint64(256), numpy.int32(len(x)),
                              numpy.int32(x.shape[1]), numpy.int32(2), POLE), x)
        if theirs is not None:
            self.assertTrue(numpy.array_equal(numpy.stack(got), theirs))

    def test_a_beamformer_agrees_with_float64(self):
        x = self.random.standard_normal((100, CHANNELS, SAMPLES, 2), dtype=numpy.float32)
        x = x.view(numpy.complex64)[..., 0]
        got = self.serve("beam", x)
        total = numpy.zeros((len(x), SAMPLES), complex)
        for channel, (weight, delay) in enumerate(zip(WEIGHTS, DELAYS)):
            total[:, delay:] += complex(weight) * x[:, channel, :SAMPLES - delay].astype(complex)
        want = numpy.abs(total) ** 2
        self.assertLess(numpy.abs(got - want).max() / want.max(), 1e-5)
        theirs = self.launch(BEAM, "beam", (len(x) * SAMPLES + 127) // 128, 128,
                             (x, ..., WEIGHTS, DELAYS, numpy.int64(len(x)), numpy.int32(CHANNELS),
                              numpy.int32(SAMPLES)), got)
        if theirs is not None:
            self.assertLess(numpy.abs(got - theirs).max() / want.max(), 1e-6)


ARGUMENTS = "const float* in, float* out, long long frames, long long n0"
AT = "const long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;"
# What a kernel does, and what the daemon says of it before it serves.
BROKEN = {
    "if (i <= frames * n0) out[i] = 1;": "on made-up frames: writes behind the end of its output",
    "if (i < frames * n0) out[i] = in[(i + n0) % (frames * n0)];": "on made-up frames: a frame's result depends on",
    "if (i < frames * n0 && i % n0 != 3) out[i] = in[i];": "on made-up frames: a second run gives another result",
    "if (i < frames * n0) const_cast<float*>(in)[i] = out[i] = 1;": "on made-up frames: changes its input",
    "*(volatile float*)nullptr = out[i];": "on made-up frames: fails: cudaErrorIllegalAddress",
    "for (volatile float* x = out; *x == *x || *x != *x;) {}": "it did not end within 60 s on made-up frames",
}


@unittest.skipIf(compilers.missing(".cu"), compilers.missing(".cu"))
@unittest.skipUnless("cuda" in backends(), "not on this machine: running the kernels takes a GPU")
class BrokenKernelsTest(unittest.TestCase):
    def test_a_kernel_that_breaks_a_rule_is_refused_before_it_serves(self):
        for body, message in BROKEN.items():
            with self.subTest(body), tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder)
                (path / "k.cu").write_text(f'extern "C" __global__ void k({ARGUMENTS}) {{ {AT} {body} }}\n')
                (path / "penstock.toml").write_text(VERSION + """
[code]
allow = ["k.cu"]
cache = ""
[[pipeline]]
name = "broken"
input = { dtype = "f32", shape = [64] }
[[pipeline.stage]]
name = "k"
op = "kernel"
file = "k.cu"
grid = ["ceil(frames * n0 / 128) + 1"]
block = [128]
args = ["in", "out", "frames", "n0"]
""")
                done = subprocess.run([BIN / "penstockd", "--config", path / "penstock.toml", "--listen",
                                       f"ipc://{folder}/data", "--admin", "none", "--backend", "cuda"],
                                      capture_output=True, text=True, timeout=100)
                self.assertEqual(done.returncode, 78, done.stderr)
                self.assertIn(f"penstock.toml:9: pipeline 'broken', stage 'k', field 'file': {message}", done.stderr)


if __name__ == "__main__":
    unittest.main()
