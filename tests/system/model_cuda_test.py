"""Models on a GPU: how the daemon loads, captures, shares and refuses them.

On the fake CUDA runtime, with libraries that are written by hand as AOTInductor writes them. Models that PyTorch
compiles need a GPU.
"""

import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import tempfile
import unittest
import zipfile

import numpy as np
from penstock import Client

from daemon_process import BIN, VERSION, Daemon, pipeline
from fake_cuda import FAKE_CUDA, FakeCuda

INPUT, HIDDEN = 6, 4

# h' = h + x W, y = h' V + b: with state, by two products. The weights are on the device.
SOURCE = r"""
#include <stddef.h>
#include <stdint.h>
typedef void *handle;
int32_t aoti_torch_create_tensor_from_blob(void *, int64_t, const int64_t *, const int64_t *, int64_t, int32_t, int32_t,
                                           int32_t, handle *);
int32_t aoti_torch_empty_strided(int64_t, const int64_t *, const int64_t *, int32_t, int32_t, int32_t, handle *);
int32_t aoti_torch_delete_tensor_object(handle);
int32_t aoti_torch_cuda_addmm_out(handle, handle, handle, handle, double, double);
int32_t aoti_torch_dtype_float32(void);
int32_t aoti_torch_device_type_cuda(void);
int32_t aoti_torch_create_cuda_stream_guard(void *, int32_t, handle *);
int32_t aoti_torch_delete_cuda_stream_guard(handle);
int cudaMalloc(void **, size_t);
int cudaFree(void *);
int cudaMemcpy(void *, const void *, size_t, int);
int MISSING(void);

static const float W[INPUT * HIDDEN] = {WEIGHTS};
static const float V[HIDDEN * 2] = {MORE};
static const float B[2] = {0.5f, -1};
static float *constants;

int32_t AOTInductorModelContainerCreateWithDevice(handle *made, size_t models, const char *device, const char *folder) {
  (void)models;
  (void)folder;
  if (device[0] != 'c' || cudaMalloc((void **)&constants, sizeof W + sizeof V + sizeof B) != 0) {
    return 1;
  }
  cudaMemcpy(constants, W, sizeof W, 1);
  cudaMemcpy(constants + INPUT * HIDDEN, V, sizeof V, 1);
  cudaMemcpy(constants + INPUT * HIDDEN + HIDDEN * 2, B, sizeof B, 1);
  *made = constants;
  return 0;
}
int32_t AOTInductorModelContainerDelete(handle made) { return cudaFree(made); }
int32_t AOTInductorModelContainerGetNumInputs(handle made, size_t *count) { (void)made; *count = 2; return 0; }
int32_t AOTInductorModelContainerGetNumOutputs(handle made, size_t *count) { (void)made; *count = 2; return 0; }
int32_t AOTInductorModelContainerGetNumConstants(handle made, size_t *count) { (void)made; *count = 3; return 0; }
int32_t AOTInductorModelContainerGetConstantFromFolded(handle made, size_t constant, _Bool *folded) {
  (void)made; (void)constant;
  *folded = 0;
  return 0;
}
int32_t AOTInductorModelContainerRunConstantFolding(handle made, _Bool inactive, void *stream, handle proxy) {
  (void)made; (void)inactive; (void)stream; (void)proxy;
  return 0;
}

static handle matrix(float *data, int64_t rows, int64_t columns) {
  const int64_t sizes[2] = {rows, columns}, strides[2] = {columns, 1};
  handle made = NULL;
  if (data != NULL) {
    aoti_torch_create_tensor_from_blob(data, 2, sizes, strides, 0, aoti_torch_dtype_float32(),
                                       aoti_torch_device_type_cuda(), 0, &made);
  } else {
    aoti_torch_empty_strided(2, sizes, strides, aoti_torch_dtype_float32(), aoti_torch_device_type_cuda(), 0, &made);
  }
  return made;
}

int32_t AOTInductorModelContainerRunSingleThreaded(handle made, handle *inputs, size_t ins, handle *outputs,
                                                   size_t outs, void *stream, handle proxy) {
  const int64_t one[1] = {2}, step[1] = {1};
  float *at = made;
  handle guard, w = matrix(at, INPUT, HIDDEN), v = matrix(at + INPUT * HIDDEN, HIDDEN, 2), b;
  (void)ins; (void)outs; (void)proxy;
  aoti_torch_create_cuda_stream_guard(stream, 0, &guard);
  aoti_torch_create_tensor_from_blob(at + INPUT * HIDDEN + HIDDEN * 2, 1, one, step, 0, aoti_torch_dtype_float32(),
                                     aoti_torch_device_type_cuda(), 0, &b);
  outputs[1] = matrix(NULL, FRAMES, HIDDEN);
  outputs[0] = matrix(NULL, FRAMES, 2);
  int32_t met = aoti_torch_cuda_addmm_out(outputs[1], inputs[1], inputs[0], w, 1, 1);
  met = met != 0 ? met : aoti_torch_cuda_addmm_out(outputs[0], b, outputs[1], v, 1, 1);
  aoti_torch_delete_tensor_object(w);
  aoti_torch_delete_tensor_object(v);
  aoti_torch_delete_tensor_object(b);
  aoti_torch_delete_tensor_object(inputs[0]);
  aoti_torch_delete_tensor_object(inputs[1]);
  aoti_torch_delete_cuda_stream_guard(guard);
#ifdef CALLS_MISSING
  return MISSING();
#else
  return met;
#endif
}
"""

RNG = np.random.default_rng(29)
W = RNG.integers(-4, 5, (INPUT, HIDDEN)).astype(np.float64) / 4
V = RNG.integers(-4, 5, (HIDDEN, 2)).astype(np.float64) / 4
B = np.array([0.5, -1])


def library(folder, frames, *options, scale=1):
    source, made = folder / "model.c", folder / "model.so"
    text = SOURCE
    for name, value in (("INPUT", INPUT), ("HIDDEN", HIDDEN), ("FRAMES", frames),
                        ("WEIGHTS", ", ".join(map(str, (scale * W).ravel()))),
                        ("MORE", ", ".join(map(str, V.ravel())))):
        text = re.sub(rf"\b{name}\b", str(value), text)
    source.write_text(text)
    subprocess.run(["cc", "-O1", "-fPIC", "-shared", "-o", made, source, *options], check=True)
    return made.read_bytes()


def package(buckets=(1, 4), architecture="sm_90", options=(), scale=1):
    """The bytes of a package, as penstock.torch.export makes them."""
    with tempfile.TemporaryDirectory(prefix="penstock-model-") as name:
        folder = pathlib.Path(name)
        facts = {"format": 1, "torch": "2.11.0", "cpu": None, "cuda": architecture,
                 "inputs": [{"name": "x", "dtype": "f32", "shape": [INPUT]}],
                 "outputs": [{"name": "y", "dtype": "f32", "shape": [2]}],
                 "state": {"dtype": "f32", "shape": [HIDDEN]}, "buckets": {"cpu": [], "cuda": list(buckets)}}
        with zipfile.ZipFile(folder / "model.pt2", "w") as archive:
            archive.writestr("model/archive_format", "pt2")
            for frames in buckets:
                archive.writestr(f"model/data/aotinductor/cuda_{frames}/model.so",
                                 library(folder, frames, *options, scale=scale))
            archive.writestr("model/extra/penstock.json", json.dumps(facts))
        return (folder / "model.pt2").read_bytes()


STAGES = [("net", "model", 'file = "model.pt2"\n')]
TEXT = (VERSION + '[device]\nslots = 8\nstreams = 4\n[code]\nallow = ["."]\n'
        + pipeline("p", "f32", [INPUT], STAGES, ["net"], extra="batch = { max_frames = 16 }\n"))


def wanted(frames):
    """Of one session, in float64; its numbers are exact in float32 too."""
    return np.cumsum(frames @ W, axis=0) @ V + B


@unittest.skipUnless(FAKE_CUDA.exists(), "there is no CUDA module of the fake runtime (it needs CUDA's headers)")
@unittest.skipIf(shutil.which("cc") is None, "there is no C compiler")
class ModelsOnCuda(unittest.TestCase):

    def start(self, content, text=TEXT):
        self.fake = FakeCuda()
        daemon = Daemon("cuda", "callback", text, {"model.pt2": content}, environment=self.fake.environment)
        self.addCleanup(daemon.stop)
        return daemon

    def plan(self, content):
        """What --print-plan says; its exit code first."""
        with tempfile.TemporaryDirectory(prefix="penstock-model-") as name:
            folder = pathlib.Path(name)
            (folder / "penstock.toml").write_text(TEXT)
            (folder / "model.pt2").write_bytes(content)
            (folder / "model.pt2").chmod(0o644)
            done = subprocess.run([BIN / "penstockd", "--config", folder / "penstock.toml", "--backend", "cuda",
                                   "--print-plan", "p"], capture_output=True, text=True,
                                  env={**os.environ, **FakeCuda().environment})
        return done.returncode, done.stdout + done.stderr

    def refusal(self, content):
        code, said = self.plan(content)
        self.assertEqual(code, 78, said)
        return said

    def test_sessions_in_random_cuts(self):
        daemon = self.start(package())
        draw = random.Random(7)
        frames = RNG.integers(-8, 9, (20, 40, INPUT)).astype(np.float32)
        with Client(daemon.url) as client:
            sessions = [client.session("p") for _ in frames]
            places, pending = [0] * len(frames), [[] for _ in frames]
            while any(place < 40 for place in places):
                at = draw.randrange(len(frames))
                count = min(draw.choice([1, 1, 2, 5]), 40 - places[at])
                if count:
                    block = frames[at, places[at]:places[at] + count]
                    pending[at].append(sessions[at].submit(block))
                    places[at] += count
            for each, results in zip(frames, pending):
                got = np.concatenate([result.result()["net"].reshape(-1, 2) for result in results])
                np.testing.assert_array_equal(got, wanted(each.astype(np.float64)).astype(np.float32))
            self.assertTrue(daemon.counters()["status"]["balanced"])

    def test_the_plan_says_what_a_model_keeps(self):
        code, said = self.plan(package())
        self.assertEqual(code, 0, said)
        self.assertRegex(said, r"memory +[\d,]+ bytes of net's own, on the device")

    def test_another_package_comes_with_a_reload(self):
        daemon = self.start(package())
        x = np.ones(INPUT, np.float32)
        with Client(daemon.url) as client:
            for turn in range(2, 8):
                (daemon.path / "next.pt2").write_bytes(package(scale=turn))
                os.replace(daemon.path / "next.pt2", daemon.path / "model.pt2")
                code, said = daemon.ask_for_reload()
                self.assertEqual(code, 200, said)
                with client.session("p") as session:
                    got = session.submit(x).result()["net"]
                np.testing.assert_array_equal(got.ravel(), (turn * W.sum(axis=0) @ V + B).astype(np.float32))

    def test_a_package_for_another_gpu_is_refused(self):
        self.assertRegex(self.refusal(package(architecture="sm_80")), r"field 'file'.*sm_80.*sm_90")

    def test_a_package_that_calls_what_there_is_not_is_refused(self):
        said = self.refusal(package(options=["-DCALLS_MISSING", "-DMISSING=aoti_torch_cuda__cudnn_rnn"]))
        self.assertIn("aoti_torch_cuda__cudnn_rnn", said)
        said = self.refusal(package(options=["-DCALLS_MISSING", "-DMISSING=cudaGraphicsMapResources"]))
        self.assertIn("cudaGraphicsMapResources", said)


if __name__ == "__main__":
    unittest.main(verbosity=2)
