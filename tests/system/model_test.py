"""Stages of `op = "model"`: packages of AOTInductor.

Most packages here are made without PyTorch: their libraries are written by hand, with the functions that AOTInductor's
have. One is compiled by PyTorch, where PENSTOCK_TORCH_PYTHON names a Python that has it.
"""

import hashlib
import importlib.util
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest
import unittest.mock
import zipfile

from daemon_process import BIN, VERSION, Daemon, pipeline, wait_until

MISSING = [each for each in ("numpy", "zmq") if importlib.util.find_spec(each) is None]
if not MISSING:
    import numpy
    import penstock
if shutil.which("cc") is None:
    MISSING.append("cc")
TORCH_PYTHON = os.environ.get("PENSTOCK_TORCH_PYTHON")

KEPT = 1 << 18  # bytes that a model keeps for each thread

# A model of FRAMES frames: x f32[4], state f32[4] -> sum f32[4] = FACTOR x + state, last f32[] = x[3], state + x.
LIBRARY = r"""
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef void *tensor;
int32_t aoti_torch_empty_strided(int64_t, const int64_t *, const int64_t *, int32_t, int32_t, int32_t, tensor *);
int32_t aoti_torch_get_data_ptr(tensor, void **);
int32_t aoti_torch_delete_tensor_object(tensor);
int32_t aoti_torch_dtype_float32(void);
#ifdef HALVES
int32_t aoti_torch_dtype_bfloat16(void);
int32_t aoti_torch_cpu_mm_out(tensor, tensor, tensor);
#endif
#ifdef CALLS_MORE
int32_t MORE(void);
#endif

#ifndef FACTOR
#define FACTOR 2
#endif
#ifndef STATES
#define STATES 1
#endif

// A variable of each thread that has a destructor, as C++ has it: AOTInductor's keep the last error in one.
int __cxa_thread_atexit(void (*)(void *), void *, void *);
extern void *__dso_handle __attribute__((visibility("hidden")));
static __thread char *kept;
static void drop(void *at) { free(*(char **)at); }
static void keep(void) {
  if (kept == NULL) {
    kept = memset(malloc(KEPT), 1, KEPT);
    __cxa_thread_atexit(drop, &kept, &__dso_handle);
  }
}

static int32_t f32;
__attribute__((constructor)) static void start(void) { f32 = aoti_torch_dtype_float32(); }

int32_t AOTInductorModelContainerCreateWithDevice(void **made, size_t models, const char *device, const char *cubins) {
  (void)cubins;
  *made = malloc(1);
  keep();
#ifdef CALLS_MORE
  MORE();
#endif
  return models != 1 || strcmp(device, "cpu") != 0;
}
int32_t AOTInductorModelContainerDelete(void *made) { free(made); return 0; }
int32_t AOTInductorModelContainerGetNumInputs(void *made, size_t *count) { (void)made; *count = 1 + STATES; return 0; }
int32_t AOTInductorModelContainerGetNumOutputs(void *made, size_t *count) { (void)made; *count = 2 + STATES; return 0; }
int32_t AOTInductorModelContainerGetNumConstants(void *made, size_t *count) { (void)made; *count = 0; return 0; }
int32_t AOTInductorModelContainerGetConstantFromFolded(void *made, size_t at, _Bool *is) {
  (void)made; (void)at; *is = 0; return 0;
}
int32_t AOTInductorModelContainerRunConstantFolding(void *made, _Bool inactive, void *stream, void *proxy) {
  (void)made; (void)inactive; (void)stream; (void)proxy; return 1;
}

static float *make(int64_t columns, tensor *made) {
  const int64_t sizes[] = {FRAMES, columns}, strides[] = {columns, 1};
  void *data = NULL;
  if (aoti_torch_empty_strided(columns == 1 ? 1 : 2, sizes, strides, f32, 0, 0, made) != 0 ||
      aoti_torch_get_data_ptr(*made, &data) != 0) {
    return NULL;
  }
  return data;
}

int32_t AOTInductorModelContainerRunSingleThreaded(void *made, tensor *inputs, size_t in, tensor *outputs, size_t out,
                                                   void *stream, void *proxy) {
  void *x = NULL, *state = NULL;
  tensor held = NULL;
  keep();
  (void)made; (void)stream; (void)proxy; (void)in; (void)out;
  aoti_torch_get_data_ptr(inputs[0], &x);
  if (STATES == 1) {
    aoti_torch_get_data_ptr(inputs[1], &state);
  }
  float *const between = make(4, &held);
  float *const sum = make(4, &outputs[0]), *const last = make(1, &outputs[1]);
  float *const next = STATES == 1 ? make(4, &outputs[2]) : between;
  if (between == NULL || sum == NULL || last == NULL || next == NULL) {
    return 1;
  }
  for (int i = 0; i < 4 * FRAMES; ++i) {
    between[i] = FACTOR * ((const float *)x)[i];
#ifdef MIXES
    between[i] += ((const float *)x)[i % 4];
#endif
  }
  for (int i = 0; i < 4 * FRAMES; ++i) {
    const float before = state == NULL ? 0 : ((const float *)state)[i];
    sum[i] = between[i] + before;
    next[i] = before + ((const float *)x)[i];
    last[i / 4] = ((const float *)x)[i];
  }
  aoti_torch_delete_tensor_object(held);
  aoti_torch_delete_tensor_object(inputs[0]);
  if (STATES == 1) {
    aoti_torch_delete_tensor_object(inputs[1]);
  }
#ifdef ALIASES
  aoti_torch_delete_tensor_object(outputs[2]);
  outputs[2] = outputs[0];
#endif
#ifdef HALVES
  const int64_t one[] = {1, 1};
  if (aoti_torch_empty_strided(2, one, one, aoti_torch_dtype_bfloat16(), 0, 0, &held) != 0 ||
      aoti_torch_cpu_mm_out(held, held, held) != 0) {
    return 1;
  }
#endif
#ifdef CHECKS
  return getenv("AOTI_RUNTIME_CHECK_INPUTS") != NULL;
#endif
#ifdef FAILS
  return 1;
#endif
  return 0;
}
"""

FACTS = {"format": 1, "torch": "2.13.0", "cpu": "default", "cuda": None,
         "inputs": [{"name": "x", "dtype": "f32", "shape": [4]}],
         "outputs": [{"name": "sum", "dtype": "f32", "shape": [4]}, {"name": "last", "dtype": "f32", "shape": []}],
         "state": {"dtype": "f32", "shape": [4]}, "buckets": {"cpu": [1, 4], "cuda": []}}

# The same, by PyTorch, with a convolution, a product and vectorized functions: the reference is eager.
TORCH = r"""
import json, pathlib, sys, numpy, torch
from torch._inductor.package import package_aoti

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = torch.nn.Conv1d(1, 4, 5, stride=2, padding=2)
        self.linear = torch.nn.Linear(4 * 16, 8)

    def forward(self, x, state):
        y = torch.nn.functional.gelu(self.convolution(x.unsqueeze(1)))
        state = torch.tanh(self.linear(y.flatten(1)) + state)
        return torch.softmax(state, -1), state.exp().sum(1), state.clone()

class Halves(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(32, 8).bfloat16()

    def forward(self, x):
        return self.linear(x.bfloat16()).float()

def compiled(model, *example):
    return torch._inductor.aot_compile(torch.export.export(model, example).module(), example, options={
        "aot_inductor.package": True, "aot_inductor.link_libtorch": False, "cpp.threads": 1})

folder = pathlib.Path(sys.argv[1])
torch.manual_seed(3)
model, halves = Model().eval(), Halves().eval()
with torch.no_grad():
    files = {f"cpu_{frames}": compiled(model, torch.randn(frames, 32), torch.randn(frames, 8)) for frames in (1, 4)}
    package_aoti(str(folder / "halves.pt2"), {"cpu_1": compiled(halves, torch.randn(1, 32))})
    x, state, y, z = torch.randn(30, 32), torch.zeros(1, 8), [], []
    for each in x:
        one, two, state = model(each[None], state)
        y.append(one[0]); z.append(two)
package_aoti(str(folder / "bare.pt2"), files)
numpy.savez(folder / "reference.npz", x=x, y=torch.stack(y), z=torch.stack(z), halves=halves(x).detach())
print(torch.__version__.split("+")[0])
"""


def build(folder, frames, *options):
    """The bytes of a library for a number of frames."""
    source, library = folder / "model.c", folder / f"model_{frames}.so"
    source.write_text(LIBRARY)
    subprocess.run(["cc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-fPIC", "-shared", f"-DFRAMES={frames}",
                    f"-DKEPT={KEPT}", source, "-o", library, "-Wl,--no-as-needed", "-l:libstdc++.so.6", *options], check=True)
    return library.read_bytes()


def package(libraries, facts=None, compression=zipfile.ZIP_STORED, **changes):
    """A package of libraries by their models' names; `changes` are to its facts."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", compression) as archive:
        archive.writestr("model/archive_version", "1")
        for name, library in libraries.items():
            archive.writestr(f"model/data/aotinductor/{name}/{name}.wrapper.so", library)
        archive.writestr("model/extra/penstock.json", json.dumps({**(facts or FACTS), **changes}))
    return made.getvalue()


def configuration(stage='file = "m.pt2"\n', shape=(4,), outputs=("net.sum", "net.last"), more=""):
    return VERSION + '[code]\nallow = ["."]\n' + pipeline("p", "f32", list(shape), [("net", "model", stage)],
                                                          list(outputs), more)


def maps_of(daemon):
    return pathlib.Path(f"/proc/{daemon.process.pid}/maps").read_text()


def mappings_of(daemon):
    return len(re.findall(r"/memfd:penstock-library", maps_of(daemon)))


def descriptors_of(daemon):
    return len(list(pathlib.Path(f"/proc/{daemon.process.pid}/fd").iterdir()))


def memory_of(daemon):
    """Bytes that no file holds."""
    status = pathlib.Path(f"/proc/{daemon.process.pid}/status").read_text()
    return 1024 * int(re.search(r"^RssAnon:\s*([0-9]+) kB", status, re.MULTILINE)[1])


@unittest.skipIf(MISSING, f"not installed: {', '.join(MISSING)}")
class ModelTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory(prefix="penstock-model-") as folder:
            folder = pathlib.Path(folder)
            for file, name in (("libtorch.so", "libtorch.so"), ("libnone.so", "libnone.so.7")):
                subprocess.run(["cc", "-shared", "-x", "c", "/dev/null", f"-Wl,-soname,{name}", "-o", folder / file],
                               check=True)
            cls.good = {f"cpu_{frames}": build(folder, frames) for frames in (1, 4)}
            cls.bare = [{"cpu_4": build(folder, 4, "-DSTATES=0", f"-DFACTOR={factor}")} for factor in (2, 3)]
            cls.odd = {name: {"cpu_1": build(folder, 1, *options)} for name, options in {
                "mixes": ["-DMIXES"], "fails": ["-DFAILS"], "checks": ["-DCHECKS"], "aliases": ["-DALIASES"],
                "calls": ["-DCALLS_MORE", "-DMORE=aoti_torch_cpu_no_such_thing"],
                "product": ["-DCALLS_MORE", "-DMORE=aoti_torch_cpu_mm_out"],
                "convolution": ["-DCALLS_MORE", "-DMORE=aoti_torch_cpu_convolution"],
                "halves": ["-DHALVES"], "linked": [folder / "libtorch.so"], "lacks": [folder / "libnone.so"],
                "proxy": ["-DCALLS_MORE", "-DMORE=aoti_torch_proxy_executor_call_function"]}.items()}
            cls.mixes = build(folder, 4, "-DMIXES")

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="penstock-model-")))

    def serve(self, text, **files):
        daemon = Daemon("host", "callback", text, {f"{name}.pt2": content for name, content in files.items()})
        self.addCleanup(daemon.stop)
        return daemon

    def penstockd(self, made, text, *words):
        (self.folder / "m.pt2").write_bytes(made)
        (self.folder / "penstock.toml").write_text(text)
        backend = () if "--backend" in words else ("--backend", "host")
        done = subprocess.run([BIN / "penstockd", "--config", self.folder / "penstock.toml", *backend, *words],
                              capture_output=True, text=True, timeout=300)
        return done.returncode, done.stdout + done.stderr

    def refused(self, message, made, stage='file = "m.pt2"\n', **more):
        code, said = self.penstockd(made, configuration(stage, **more), "--check-config")
        self.assertEqual(code, 78, said)
        self.assertIn("pipeline 'p', stage 'net', field '", said)
        self.assertIn(message, said)
        # It points at the field, where that stands in the stage.
        line, field = re.search(r"penstock\.toml:(\d+): .*?field '(\w+)'", said).groups()
        text = (self.folder / "penstock.toml").read_text().splitlines()
        if any(each.startswith(f"{field} =") for each in text[text.index("[[pipeline.stage]]"):]):
            self.assertTrue(text[int(line) - 1].startswith(f"{field} ="), said)

    def test_sessions_each_as_if_alone(self):
        # Batches of every size up to 7: one of 4, some of 1, and rests that are padded.
        daemon = self.serve(configuration(more="batch = { max_frames = 7 }\n"), m=package(self.good))
        x = numpy.random.default_rng(5).integers(-100, 100, (12, 30, 4)).astype(numpy.float32)
        with penstock.Client(daemon.url) as client:
            sessions = [client.session("p") for _ in x]
            pending = [[session.submit(frame) for session, frame in zip(sessions, step)]
                       for step in x.transpose(1, 0, 2)]
            before = numpy.cumsum(x, axis=1) - x
            for step, futures in enumerate(pending):
                for session, future in enumerate(futures):
                    result = future.result()
                    numpy.testing.assert_array_equal(result["net.sum"].ravel(),
                                                     2 * x[session, step] + before[session, step])
                    self.assertEqual(float(result["net.last"].ravel()[0]), x[session, step, 3])

    def test_the_state_may_be_the_same_tensor_as_an_output(self):
        # As of a model that returns its state as its result: Inductor drops a clone between them.
        daemon = self.serve(configuration(), m=package(self.odd["aliases"], buckets={"cpu": [1]}))
        x = numpy.random.default_rng(5).integers(-100, 100, (30, 4)).astype(numpy.float32)
        with penstock.Client(daemon.url) as client, client.session("p") as session:
            numpy.testing.assert_array_equal(session.submit(x).result()["net.sum"], 2 * numpy.cumsum(x, axis=0))

    def test_inputs_by_name(self):
        text = VERSION + '[code]\nallow = ["."]\n' + pipeline("p", "f32", [4], [
            ("half", "affine", "a = 0.5\n"), ("net", "model", 'file = "m.pt2"\ninputs = { x = "half" }\n')],
            ["net.last"])
        daemon = self.serve(text, m=package(self.good))
        with penstock.Client(daemon.url) as client:
            result = client.session("p").submit(numpy.float32([1, 2, 3, 4])).result()
            self.assertEqual(float(result["net.last"].ravel()[0]), 2)

    def test_reloads_under_load_leave_memory_as_it_was(self):
        made = [package(each, state=None, buckets={"cpu": [4]}) for each in self.bare]
        daemon = self.serve(configuration(), m=made[0])
        one, descriptors, memory = mappings_of(daemon), descriptors_of(daemon), memory_of(daemon)
        self.assertGreater(one, 0)
        with penstock.Client(daemon.url) as client:
            for turn in range(1, 100):
                fresh = daemon.path / "fresh.pt2"
                fresh.write_bytes(made[turn % 2])
                fresh.rename(daemon.path / "m.pt2")
                pending = [client.submit("p", numpy.float32([1, 2, 3, 4])) for _ in range(8)]
                self.assertEqual(daemon.ask_for_reload()[0], 200)
                pending += [client.submit("p", numpy.float32([1, 2, 3, 4])) for _ in range(8)]
                sums = [result.result()["net.sum"].ravel().tolist() for result in pending]
                self.assertIn(sums[0], ([2, 4, 6, 8], [3, 6, 9, 12]))
                self.assertEqual(sums[-1], [3, 6, 9, 12] if turn % 2 else [2, 4, 6, 8])
            # The client is still there. The daemon keeps the files of the package that it started with, but not loaded.
            wait_until(lambda: mappings_of(daemon) <= one and descriptors_of(daemon) <= descriptors + 4,
                       f"what was replaced is unloaded: {one} mappings and {descriptors} descriptors at first")
            # What the threads kept of each of them would be more. A sanitizer's own memory says nothing.
            if not re.search(r"/lib[at]san\.", maps_of(daemon)):
                wait_until(lambda: memory_of(daemon) < memory + KEPT * 100,
                           f"what was replaced is freed: {memory} bytes at first")

    def test_one_that_breaks_the_rules_is_found_before_the_daemon_is_ready(self):
        for made, message in (
                (package({**self.good, "cpu_4": self.mixes}), "on made-up frames: "),
                (package(self.odd["fails"], buckets={"cpu": [1]}), "has a model that can't be run: the model's code returned an error (MODEL_FAILED)"),
                (package(self.good, outputs=[{"name": "sum", "dtype": "f32", "shape": [2, 2]}, FACTS["outputs"][1]]),
                 "an output has another type or shape than the package's penstock.json says: export it again (MODEL_O"),
                # Compiled for other inputs than the package says: AOTInductor's libraries look when they are asked to.
                (package(self.odd["checks"], buckets={"cpu": [1]}), "has a model that can't be run: the model's code returned an error (MODEL_FAILED)")):
            with self.subTest(message):
                code, said = self.penstockd(made, configuration(), "--admin", "none", "--listen",
                                            f"ipc://{self.folder}/data")
                self.assertEqual(code, 78, said)
                self.assertIn("pipeline 'p', stage 'net', field 'file': ", said)
                self.assertIn(message, said)

    def test_functions_that_there_are_not_are_named(self):
        calls = package(self.odd["calls"], buckets={"cpu": [1]})
        self.refused("m.pt2: calls functions that Penstock has not: aoti_torch_cpu_no_such_thing; it needs PyTorch, "
                     "which could not be loaded", calls)
        self.refused("m.pt2: calls functions that Penstock has not: aoti_torch_cpu_no_such_thing\n", calls,
                     'file = "m.pt2"\nruntime = "own"\n')
        self.refused("m.pt2: is to run with libtorch: it needs PyTorch, which could not be loaded (",
                     package(self.good), 'file = "m.pt2"\nruntime = "libtorch"\n')
        self.refused("m.pt2: has operators that were not compiled and that PyTorch would have to run",
                     package(self.odd["proxy"], buckets={"cpu": [1]}))
        self.refused("field 'runtime': must be", package(self.good), 'file = "m.pt2"\nruntime = "mine"\n')

    def test_products_that_own_functions_lack_are_left_to_libtorch(self):
        made = package(self.odd["halves"], buckets={"cpu": [1]})
        # The functions' names do not tell it, so the model is run.
        self.assertEqual(self.penstockd(made, configuration(), "--check-config")[0], 0)
        lacks = "m.pt2: has a model that can't be run: own functions multiply f32 and f64 on the host"
        for runtime, message in (("own", "(TORCH_PRODUCT_OF_ANOTHER_TYPE_THAN_F32_AND_F64)\n"),
                                 ("auto", "; it needs PyTorch, which could not be loaded (")):
            code, said = self.penstockd(made, configuration(f'file = "m.pt2"\nruntime = "{runtime}"\n'), "--admin",
                                        "none", "--listen", f"ipc://{self.folder}/data")
            self.assertEqual(code, 78, said)
            self.assertIn(lacks, said)
            self.assertIn(message, said)

    def test_libraries_that_there_are_not_are_named(self):
        with unittest.mock.patch.dict(os.environ, PENSTOCK_OPENBLAS="/none", PENSTOCK_ONEDNN="/none"):
            for name, library in (("product", "OpenBLAS"), ("convolution", "oneDNN")):
                self.refused(f" needs {library}", package(self.odd[name], buckets={"cpu": [1]}))
            self.assertEqual(self.penstockd(package(self.good), configuration(), "--check-config")[0], 0)

    def test_inputs_must_be_those_of_the_model(self):
        good = package(self.good)
        self.refused("field 'from': the model's input 'x' is f32[4], and what it reads is f32[5]", good, shape=(5,))
        self.refused("field 'inputs': the model has no input 'y'; it has 'x'", good,
                     'file = "m.pt2"\ninputs = { y = "input" }\n')
        self.refused("field 'inputs': there is no stage 'nothing'", good, 'file = "m.pt2"\ninputs = { x = "nothing" }\n')
        code, said = self.penstockd(good, VERSION + '[code]\nallow = ["."]\n' + pipeline("p", "f32", [4], [
            ("half", "affine", "a = 0.5\n"),
            ("net", "model", 'file = "m.pt2"\nfrom = "half"\ninputs = { x = "input" }\n')], ["net.sum"]),
            "--check-config")
        self.assertEqual(code, 78, said)
        self.assertIn("stage 'net', field 'from': stands beside 'inputs'", said)
        two = package(self.good, inputs=[*FACTS["inputs"], {"name": "gain", "dtype": "f32", "shape": [1]}])
        self.refused("field 'inputs': is missing: the model has the inputs 'x', 'gain'", two)
        self.refused("field 'inputs': lacks 'gain'", two, 'file = "m.pt2"\ninputs = { x = "input" }\n')
        self.assertEqual(self.penstockd(good, configuration(), "--check-config")[0], 0)

    def test_it_must_be_a_whole_package(self):
        good = package(self.good)
        self.refused("m.pt2: is not a zip file, or cut off: its end is missing", good[:len(good) // 2])
        self.refused("m.pt2: is not a zip file, or cut off: its end is missing", b"#!/bin/sh\n")
        self.refused("m.pt2: is compressed: its members are to be stored, as by `zip -0`",
                     package(self.good, compression=zipfile.ZIP_DEFLATED))
        at = good.index(b"\x7fELF") + 5000
        self.refused("m.pt2: is damaged: its member model/data/aotinductor/cpu_1/cpu_1.wrapper.so can't be read",
                     good[:at] + bytes([good[at] ^ 1]) + good[at + 1:])
        self.refused("m.pt2: lacks the library of its model cpu_4", package({"cpu_1": self.good["cpu_1"]}))
        self.refused("m.pt2: has a model cpu_1 that is cut off: its end is missing",
                     package({**self.good, "cpu_1": self.good["cpu_1"][:6000]}))
        self.refused("m.pt2: has a model cpu_1 that is not a shared library",
                     package({**self.good, "cpu_1": b"nothing"}))
        # What stands in it is shown as far as it can be, and not at any length.
        named = good.replace(b"model/data/", b"m\x1b[2\xff/data/").replace(b"model/extra/", b"m\x1b[2\xff/extra/")
        at = named.index(b"\x7fELF") + 5000
        self.refused(r"m.pt2: is damaged: its member m\x1b[2\xff/data/aotinductor/cpu_1/cpu_1.wrapper.so can't be",
                     named[:at] + bytes([named[at] ^ 1]) + named[at + 1:])
        self.refused("m.pt2: has format \"" + "x" * 119 + "…; this daemon", package(self.good, format="x" * 999))
        bare = io.BytesIO()
        with zipfile.ZipFile(bare, "w") as archive:
            archive.writestr("model/archive_version", "1")
        self.refused("m.pt2: has no extra/penstock.json: make it with penstock.torch.export", bare.getvalue())

    def test_its_facts_must_be_right(self):
        for changes, message in (
                ({"format": 2}, "has format 2; this daemon reads format 1"),
                ({"buckets": {"cpu": [], "cuda": []}}, "has no model: its buckets are empty"),
                ({"buckets": {"cpu": [0]}}, "whose buckets.cpu has 0"),
                ({"cpu": "avx1024\n"}, r'whose cpu is "avx1024\x0a"; known: default, avx2, avx512'),
                ({"inputs": []}, "whose inputs is no list of 1 to 8 tensors"),
                ({"inputs": [{"name": "x", "dtype": "f33", "shape": [4]}]}, 'whose inputs[0].dtype is no type: "f33"'),
                ({"inputs": [{"name": "x", "dtype": "f32", "shape": [0]}]}, "whose inputs[0].shape has an extent of 0"),
                ({"state": {"shape": [4]}}, "whose state.dtype is missing")):
            with self.subTest(message):
                self.refused(message, package(self.good, **changes))
        code, said = self.penstockd(package(self.good, state=None), configuration(), "--admin", "none", "--listen",
                                    f"ipc://{self.folder}/data")
        self.assertEqual(code, 78, said)
        self.assertIn("has a model of 2 inputs and 3 outputs, with its state; its penstock.json says 1 and 2", said)

    def test_it_must_be_for_this_machine(self):
        self.refused("m.pt2: has no model for a CPU: export it with devices=(\"cpu\",)",
                     package({"cuda_1": self.good["cpu_1"]}, cuda="sm_90", buckets={"cuda": [1]}))
        for_gpu = package({"cuda_1": self.good["cpu_1"]}, cuda="sm_90", buckets={"cuda": [1]})
        code, said = self.penstockd(for_gpu, configuration(), "--check-config", "--backend", "cuda")
        self.assertEqual(code, 0, said)
        code, said = self.penstockd(package(self.good), configuration(), "--check-config", "--arch", "sm_90")
        self.assertEqual(code, 78, said)
        self.assertIn("m.pt2: has no model for a GPU: export it with devices=(\"cuda\",)", said)
        code, said = self.penstockd(package({"cuda_1": self.good["cpu_1"]}, cuda="sm_80", buckets={"cuda": [1]}),
                                    configuration(), "--check-config", "--arch", "sm_90")
        self.assertIn("m.pt2: has models for sm_80, and the GPU is sm_90", said)
        for name, message in (("linked", "is linked with libtorch.so: make it with penstock.torch.export"),
                              ("lacks", "needs the library libnone.so.7, which this machine lacks")):
            self.refused(f"m.pt2: {message}", package(self.odd[name], buckets={"cpu": [1]}))
        other = bytearray(self.good["cpu_1"])
        other[18] = 0xF3  # RISC-V
        self.refused("m.pt2: has a model cpu_1 that is built for another machine than this one",
                     package({**self.good, "cpu_1": bytes(other)}))

    def test_the_file_must_be_allowed_and_nobody_elses(self):
        made = package(self.good)
        text = configuration()
        code, said = self.penstockd(made, text.replace('["."]', '["elsewhere"]'), "--check-config")
        self.assertIn("field 'file': \"m.pt2\" is not allowed: add it", said)
        right = hashlib.sha256(made).hexdigest()
        self.assertEqual(self.penstockd(made, configuration(f'file = "m.pt2"\nsha256 = "{right}"\n'),
                                        "--check-config")[0], 0)
        self.assertEqual(self.penstockd(made, configuration(f'file = "m.pt2"\nsha256 = "{right.upper()}"\n'),
                                        "--check-config")[0], 0)
        self.refused("stage 'net', field 'sha256': ", made, f'file = "m.pt2"\nsha256 = "{right[::-1]}"\n')
        (self.folder / "m.pt2").chmod(0o666)
        self.refused("has mode 0666, so that others than its owner can change its code: chmod go-w it", made)


@unittest.skipIf(MISSING, f"not installed: {', '.join(MISSING)}")
@unittest.skipUnless(TORCH_PYTHON, "PENSTOCK_TORCH_PYTHON names no Python with PyTorch")
class TorchTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="penstock-model-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        done = subprocess.run([TORCH_PYTHON, "-c", TORCH, cls.folder], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(done.stderr)
        facts = {**FACTS, "torch": done.stdout.split()[-1], "inputs": [{"name": "x", "dtype": "f32", "shape": [32]}],
                 "outputs": [{"name": "y", "dtype": "f32", "shape": [8]}, {"name": "z", "dtype": "f32", "shape": []}],
                 "state": {"dtype": "f32", "shape": [8]}}
        cls.made = package(cls.libraries("bare.pt2"), facts)
        cls.halves = package(cls.libraries("halves.pt2"), facts, state=None, buckets={"cpu": [1]},
                             outputs=[{"name": "y", "dtype": "f32", "shape": [8]}])
        cls.reference = numpy.load(cls.folder / "reference.npz")

    @classmethod
    def libraries(cls, file):
        with zipfile.ZipFile(cls.folder / file) as bare:
            return {re.search("/(cpu_[0-9]+)/", name)[1]: bare.read(name)
                    for name in bare.namelist() if name.endswith(".so")}

    def libtorch(self):
        folder = subprocess.run([TORCH_PYTHON, "-c", "import torch; print(torch.__path__[0])"], capture_output=True,
                                text=True, check=True).stdout.strip()
        return {"PENSTOCK_LIBTORCH": f"{folder}/lib"}

    def check(self, runtime, environment):
        text = configuration(f'file = "m.pt2"\nruntime = "{runtime}"\n', shape=(32,), outputs=("net.y", "net.z"))
        daemon = Daemon("host", "callback", text, {"m.pt2": self.made}, environment=environment)
        self.addCleanup(daemon.stop)
        x, y, z = (self.reference[each] for each in "xyz")
        with penstock.Client(daemon.url) as client:
            sessions = [client.session("p") for _ in range(5)]
            pending = [[session.submit(frame) for session in sessions] for frame in x]
            for step, futures in enumerate(pending):
                for future in futures:
                    result = future.result()
                    numpy.testing.assert_allclose(result["net.y"].ravel(), y[step], atol=1e-6)
                    numpy.testing.assert_allclose(result["net.z"].ravel(), z[step], rtol=1e-6)

    def test_without_pytorch_it_gives_what_eager_does(self):
        self.check("own", {})

    def test_with_the_machines_pytorch_it_gives_what_eager_does(self):
        self.check("libtorch", self.libtorch())

    def test_auto_takes_the_machines_pytorch_for_products_in_bf16(self):
        daemon = Daemon("host", "callback", configuration(shape=(32,), outputs=("net",)), {"m.pt2": self.halves},
                        environment=self.libtorch())
        self.addCleanup(daemon.stop)
        with penstock.Client(daemon.url) as client:
            y = client.submit("p", self.reference["x"]).result()["net"]
        self.assertIn("pipeline 'p', stage 'net': with the functions of PyTorch", daemon.log.read_text())
        # Of sums of 32 products, rounded once: in another order some are a last place off.
        numpy.testing.assert_allclose(y, self.reference["halves"], rtol=2 ** -7, atol=2 ** -8)


if __name__ == "__main__":
    unittest.main()
