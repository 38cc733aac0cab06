"""Stages of `op = "plugin"`: operators in shared libraries that users bring.

The plug-ins are built as their authors build them: with a compiler alone, and with CMake against an installed tree.
"""

import hashlib
import importlib.util
import io
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

from daemon_process import BIN, VERSION, Daemon, backends, pipeline, wait_until

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "deploy/examples"
INCLUDE = ROOT / "kernels/include"
INSTALLED_EXAMPLES = "share/doc/libpenstock-dev/examples"
CRASH = 1000000000  # as `beyond`: the plug-in ends the process
HANG = CRASH + 1  # it never ends
BUILD = pathlib.Path(os.environ.get("PENSTOCK_BUILD", "build/release")).resolve()
MISSING = [each for each in ("numpy", "zmq") if importlib.util.find_spec(each) is None]
if not MISSING:
    import numpy
    import penstock
if shutil.which("cc") is None:
    MISSING.append("cc")
NVCC = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")

# An operator that does as its `values` say.
ODD = r"""
#include <stdlib.h>
#include <string.h>
#include <penstock/plugin.h>

enum { CRASH = 1000000000, HANG };

static int32_t infer(const ps_params *params, const ps_spec *in, uint32_t ins, ps_spec *out, uint32_t *outs,
                     ps_needs *needs, ps_error *error) {
  (void)ins;
  if (ps_integer(params, "refuse", 0)) {
    return ps_fail(error, "refuse", "must be false, says the plug-in");
  }
  *out = *in;
  *outs = 1;
  needs->flags = (uint32_t)ps_integer(params, "flags", 0);
  return 0;
}

static int32_t make(const ps_params *params, const ps_spec *in, uint32_t ins, int64_t max_frames, int32_t device,
                    void **op, ps_needs *needs, ps_error *error) {
  int64_t *made = malloc(2 * sizeof *made);
  (void)ins;
  (void)max_frames;
  (void)device;
  (void)needs;
  (void)error;
  made[0] = ps_elements(in);
  made[1] = ps_integer(params, "beyond", 0);
  *op = made;
  return 0;
}

static const char *run(void *op, const ps_run *run) {
  const int64_t *self = op;
  const size_t bytes = (size_t)(run->frames * self[0]) * sizeof(float);
  memmove(run->out[0], run->in[0], bytes);
  for (int64_t i = 0; i < run->frames * self[0]; ++i) {
    ((float *)run->out[0])[i] *= FACTOR;
  }
  if (self[1] == CRASH) {
    abort();
  }
  if (self[1] == HANG) {
    for (;;) {
    }
  }
  memset((char *)run->out[0] + bytes, 0, (size_t)self[1]);
  return NULL;
}

const ps_operator *penstock_plugin_v1(uint32_t index) {
  static const ps_operator all[] = {{ABI, sizeof(ps_operator), "odd", infer, make, run, free},
                                    {ABI, sizeof(ps_operator), "even", infer, make, run, free}};
  return index < COUNT ? &all[index] : NULL;
}
"""

# Two outputs and a state, in waves: the sum of a session's frames so far, and how many they are.
SUMS = r"""
#include <stdlib.h>
#include <penstock/plugin.h>

static int32_t infer(const ps_params *params, const ps_spec *in, uint32_t ins, ps_spec *out, uint32_t *outs,
                     ps_needs *needs, ps_error *error) {
  (void)params;
  (void)error;
  out[0] = out[1] = *in;
  out[0].name = "sum";
  out[1].name = "count";
  out[1].code = PS_INT;
  out[1].rank = 1;
  out[1].extent[0] = 1;
  *outs = ins + 1;
  needs->flags = PS_WAVES;
  needs->state_bytes = (uint64_t)(ps_elements(in) + 1) * sizeof(float);
  return 0;
}

static int32_t make(const ps_params *params, const ps_spec *in, uint32_t ins, int64_t max_frames, int32_t device,
                    void **op, ps_needs *needs, ps_error *error) {
  int64_t *made = malloc(sizeof *made);
  (void)params;
  (void)ins;
  (void)max_frames;
  (void)device;
  (void)needs;
  (void)error;
  *made = ps_elements(in);
  *op = made;
  return 0;
}

static const char *run(void *op, const ps_run *run) {
  const int64_t n = *(const int64_t *)op;
  for (int64_t frame = 0; frame < run->frames; ++frame) {
    const float *before = (const float *)run->in[1] + frame * (n + 1);
    float *after = (float *)run->out[2] + frame * (n + 1);
    for (int64_t i = 0; i < n; ++i) {
      after[i] = before[i] + ((const float *)run->in[0])[frame * n + i];
      ((float *)run->out[0])[frame * n + i] = after[i];
    }
    after[n] = before[n] + 1;
    ((int32_t *)run->out[1])[frame] = (int32_t)after[n];
  }
  return NULL;
}

const ps_operator *penstock_plugin_v1(uint32_t index) {
  static const ps_operator sums = {PENSTOCK_PLUGIN_ABI, sizeof(ps_operator), "sums", infer, make, run, free};
  return index == 0 ? &sums : NULL;
}
"""


def run(*command, **more):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, **more)
    if done.returncode != 0:
        raise RuntimeError(f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def compile_plugin(source, to, *options):
    """With a bare compiler, as strict as compilers are."""
    run("cc", "-std=c11", "-pedantic", "-Wall", "-Wextra", "-Werror", "-O2", "-fPIC", "-shared", f"-I{INCLUDE}",
        *options, source, "-o", to, "-lm")


class Folder:
    """A folder of plug-ins that only its owner can write to."""

    def __init__(self, test):
        self.path = pathlib.Path(test.enterContext(tempfile.TemporaryDirectory(prefix="penstock-plugin-")))

    def odd(self, name="odd.so", abi="PENSTOCK_PLUGIN_ABI", operators=1, more="", factor=1):
        source = self.path / f"{name}.c"
        text = ODD.replace("ABI,", f"{abi},").replace("COUNT", str(operators)).replace("FACTOR", str(factor))
        source.write_text(text + more)
        compile_plugin(source, self.path / name)
        return self.path / name

    def check_config(self, stage, allow='["."]'):
        """What --check-config says of a pipeline with this stage; its exit code first."""
        file = self.path / "penstock.toml"
        file.write_text(VERSION + f"[code]\nallow = {allow}\n"
                        + pipeline("p", "f32", [16], [("mine", "plugin", stage)], ["mine"]))
        done = subprocess.run([BIN / "penstockd", "--config", file, "--backend", "host", "--check-config"],
                              capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def check_plugin(self, *words):
        done = subprocess.run([BIN / "penstock", "check-plugin", *map(str, words)], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr


def installed(folder):
    """A tree that was installed into the folder and moved, and the generator of its build."""
    if not (BUILD / "cmake_install.cmake").exists() or shutil.which("cmake") is None:
        raise unittest.SkipTest(f"{BUILD} is no build, or cmake is not installed")
    run("cmake", "--install", BUILD, "--component", "development",
        env={**os.environ, "DESTDIR": str(folder / "machine")})
    cache = (BUILD / "CMakeCache.txt").read_text()
    prefix = re.search(r"^CMAKE_INSTALL_PREFIX:PATH=/(.*)$", cache, re.MULTILINE).group(1)
    generator = re.search(r"^CMAKE_GENERATOR:INTERNAL=(.*)$", cache, re.MULTILINE).group(1)
    return (folder / "machine" / prefix).rename(folder / "moved"), generator


def build_with_cmake(folder, example, *options):
    """Builds an installed example, and returns the folder of the build."""
    tree, generator = installed(folder)
    run("cmake", "-G", generator, "-S", tree / INSTALLED_EXAMPLES / example, "-B", folder / "build",
        f"-DCMAKE_PREFIX_PATH={tree}", *options)
    run("cmake", "--build", folder / "build")
    return folder / "build"


def run_the_pages_commands(folder, headers):
    """The commands of docs/stages.md that build the CUTLASS example and check it, but for the daemon's start."""
    tree, generator = installed(folder)
    page = (ROOT / "docs/stages.md").read_text()
    commands = re.search(r"^## A plug-in by CUTLASS$.*?^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL).group(1)
    for old, new in ((f"/usr/{INSTALLED_EXAMPLES}", str(tree / INSTALLED_EXAMPLES)),
                     ("$(python3 -c 'import cutlass_library; print(cutlass_library.__path__[0])')/source/include",
                      shlex.quote(str(headers))),
                     ("python3 ", f"{sys.executable} "), ("penstockd --config penstock.toml", "")):
        if old not in commands:
            raise RuntimeError(f"docs/stages.md does not say {old}")
        commands = commands.replace(old, new)
    run("sh", "-ec", commands, cwd=folder, env={**os.environ, "CMAKE_PREFIX_PATH": str(tree), "CUDACXX": NVCC,
                                                "CMAKE_GENERATOR": generator, "PATH": f"{BIN}:{os.environ['PATH']}"})
    return folder / "plugin-cutlass"


def symbols_of(plugin):
    return run("nm", "--dynamic", "--defined-only", plugin).split()[2::3]


def moving_rms(signal, window):
    """In float64, over the last samples; those before the start are zero."""
    squares = numpy.concatenate([numpy.zeros(window - 1), signal.astype(numpy.float64) ** 2])
    sums = numpy.lib.stride_tricks.sliding_window_view(squares, window).sum(axis=1)
    return numpy.sqrt(sums / window)


def mappings_of_plugins(daemon):
    """How many plug-ins a daemon has in its memory."""
    maps = pathlib.Path(f"/proc/{daemon.process.pid}/maps").read_text()
    return len(set(re.findall(r"(\d+)\s+/memfd:penstock-library", maps)))


def proof_of(process):
    """Its child process that runs users' code on made-up frames; None if there is none at the moment."""
    for task in pathlib.Path(f"/proc/{process}/task").iterdir():
        try:
            for child in (task / "children").read_text().split():
                if b"--prove-code" in pathlib.Path(f"/proc/{child}/cmdline").read_bytes():
                    return child
        except OSError:
            pass  # it has ended
    return None


def has_ended(stat):
    """Whether the process of this open /proc/*/stat is gone, or waits for nothing but its parent."""
    try:
        stat.seek(0)
        return stat.read().rsplit(")", 1)[1].split()[0] in "ZX"
    except ProcessLookupError:
        return True


@unittest.skipIf(MISSING, f"not installed: {', '.join(MISSING)}")
class ExamplesTest(unittest.TestCase):
    """deploy/examples, as their readers build and run them."""

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="penstock-plugin-")))

    def serve_moving_rms(self, plugin):
        text = (EXAMPLES / "plugin-host/penstock.toml").read_text()
        daemon = Daemon("host", "callback", text, {"moving_rms.so": plugin.read_bytes()})
        self.addCleanup(daemon.stop)
        random = numpy.random.default_rng(28)
        signals = [random.normal(0, 3, 5000).astype(numpy.float32) for _ in range(3)]
        results = [[] for _ in signals]
        places = [0 for _ in signals]
        with penstock.Client(daemon.url) as client:
            sessions = [client.session("level") for _ in signals]
            while any(place < signal.size for place, signal in zip(places, signals)):
                for at, session in enumerate(sessions):
                    frame = signals[at][places[at]:places[at] + int(random.integers(1, 1025))]
                    if frame.size:
                        results[at].append(session.submit(frame))
                        places[at] += frame.size
            for signal, pending in zip(signals, results):
                given = numpy.concatenate([each.result()["rms"] for each in pending])
                numpy.testing.assert_allclose(given, moving_rms(signal, 100), rtol=2e-6)

    def test_the_host_example_with_a_compiler_alone(self):
        plugin = self.folder / "moving_rms.so"
        compile_plugin(EXAMPLES / "plugin-host/moving_rms.c", plugin)
        self.serve_moving_rms(plugin)

    def test_the_host_example_with_cmake(self):
        plugin = build_with_cmake(self.folder, "plugin-host") / "moving_rms.so"
        self.assertEqual(symbols_of(plugin), ["penstock_plugin_v1"])
        self.serve_moving_rms(plugin)

    def test_the_cuda_example_with_cmake(self):
        if NVCC is None:
            self.skipTest("no nvcc on this machine")
        plugin = build_with_cmake(self.folder, "plugin-cuda", f"-DCMAKE_CUDA_COMPILER={NVCC}") / "saxpy.so"
        self.assertEqual(symbols_of(plugin), ["penstock_plugin_v1"])

    def test_the_header_is_c_and_cpp(self):
        source = self.folder / "empty.c"
        source.write_text("#include <penstock/plugin.h>\nint main(void) { return 0; }\n")
        for words in (["cc", "-std=c11"], ["c++", "-x", "c++", "-std=c++11"], ["c++", "-x", "c++", "-std=c++20"]):
            with self.subTest(words):
                run(*words, "-pedantic", "-Wall", "-Wextra", "-Wconversion", "-Werror", f"-I{INCLUDE}",
                    "-fsyntax-only", source)

    def cuda_example(self):
        """PENSTOCK_CUDA_PLUGIN names one that was built elsewhere."""
        plugin = self.folder / "saxpy.so"
        if os.environ.get("PENSTOCK_CUDA_PLUGIN"):
            shutil.copyfile(os.environ["PENSTOCK_CUDA_PLUGIN"], plugin)
        elif NVCC is None:
            self.skipTest("no nvcc on this machine")
        else:
            run(NVCC, "-arch=sm_90", "-Xcompiler", "-fPIC", "-shared", f"-I{INCLUDE}",
                EXAMPLES / "plugin-cuda/saxpy.cu", "-o", plugin)
        return plugin

    def test_the_cuda_example_on_a_gpu(self):
        if "cuda" not in backends():
            self.skipTest("no GPU for the daemon")
        text = (EXAMPLES / "plugin-cuda/penstock.toml").read_text()
        daemon = Daemon("cuda", "callback", text, {"saxpy.so": self.cuda_example().read_bytes()})
        self.addCleanup(daemon.stop)
        random = numpy.random.default_rng(4)
        frames = [random.normal(0, 1, int(random.integers(1, 4097))).astype(numpy.float32) for _ in range(200)]
        with penstock.Client(daemon.url) as client:
            for frame, pending in [(frame, client.submit("added", frame)) for frame in frames]:
                # 2 x + x / 2 is exact but for its rounding, and so is what is taken off it.
                queued = (2.5 * frame.astype(numpy.float64)).astype(numpy.float32)
                wanted = (frame.astype(numpy.float64) - queued).astype(numpy.float32)
                numpy.testing.assert_array_equal(pending.result()["streamed"].ravel(), wanted)

    def test_the_cuda_example_compiles(self):
        plugin = self.cuda_example()
        done = subprocess.run([BIN / "penstock", "check-plugin", plugin, "--entry", "saxpy", "--input", "f32[8]",
                               "--input", "f32[8]"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("ABI 1, 2 operators: saxpy saxpy_stream", done.stdout)
        self.assertIn("saxpy runs on a GPU alone", done.stderr)
        text = (EXAMPLES / "plugin-cuda/penstock.toml").read_text()
        (self.folder / "penstock.toml").write_text(text)
        run(BIN / "penstockd", "--config", self.folder / "penstock.toml", "--check-config")


def cutlass_headers():
    """PENSTOCK_CUTLASS names their folder; else they are those of the package nvidia-cutlass, if this Python has it."""
    if os.environ.get("PENSTOCK_CUTLASS"):
        return pathlib.Path(os.environ["PENSTOCK_CUTLASS"])
    found = [pathlib.Path(folder) / "cutlass_library/source/include" for folder in sys.path]
    return next((folder for folder in found if folder.is_dir()), None)


def powers_of_beams(weights, frame, window):
    """In float64: `weights` of [beams, antennas], a frame of [antennas, samples]."""
    beams = weights.astype(numpy.complex128) @ frame.astype(numpy.complex128)
    return (numpy.abs(beams) ** 2).reshape(len(weights), -1, window).sum(axis=2)


@unittest.skipIf(MISSING, f"not installed: {', '.join(MISSING)}")
class CutlassExampleTest(unittest.TestCase):
    """deploy/examples/plugin-cutlass. PENSTOCK_BEAMFORMER names a beamformer.so that was built elsewhere."""

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="penstock-plugin-")))
        built, headers = os.environ.get("PENSTOCK_BEAMFORMER"), cutlass_headers()
        if not built and (NVCC is None or headers is None):
            raise unittest.SkipTest("no nvcc on this machine" if NVCC is None else
                                    "no CUTLASS: install nvidia-cutlass, or name its headers in PENSTOCK_CUTLASS")
        if built:
            cls.plugin = pathlib.Path(built)
            run(sys.executable, EXAMPLES / "plugin-cutlass/weights.py", cwd=cls.folder)
        else:
            cls.folder = run_the_pages_commands(cls.folder, headers)
            cls.plugin = cls.folder / "beamformer.so"

    def check_plugin(self, shape, *values):
        words = [word for value in ("weights=weights.npy", *values) for word in ("--values", value)]
        return subprocess.run([BIN / "penstock", "check-plugin", self.plugin, "--input", f"cf32{shape}", *words],
                              cwd=self.folder, capture_output=True, text=True)

    def test_it_is_proven_and_its_configuration_is_good(self):
        self.assertEqual(symbols_of(self.plugin), ["penstock_plugin_v1"])
        done = self.check_plugin([16, 1024], "window=256")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("beamformer of cf32[16, 1024]: makes f32[48, 4], 0 bytes of scratch", done.stdout)
        checked = self.folder / "checked"
        checked.mkdir()
        for source in (self.plugin, EXAMPLES / "plugin-cutlass/penstock.toml", self.folder / "weights.npy"):
            shutil.copy(source, checked)
        self.assertIn("good, 1 pipeline",
                      run(BIN / "penstockd", "--config", checked / "penstock.toml", "--check-config"))

    def test_what_it_can_not_do_is_refused(self):
        for shape, values, message in (
                ([15, 1024], [], "from the number of antennas must be a multiple of 4"),
                ([16, 1024], ["window=3"], "'window' must be an even number that divides the samples of a frame"),
                ([16, 1024], ["window=500"], "'window' must be an even number that divides the samples of a frame"),
                ([20, 1024], [], "'weights' must be a .npy file of real numbers, [beams, antennas, 2]"),
                ([16], [], "from beamformer takes one input: cf32 of [antennas, samples], both fixed")):
            with self.subTest(shape=shape, values=values):
                done = self.check_plugin(shape, *values)
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertIn(message, done.stderr)

    def test_its_sums_are_those_of_float64(self):
        random = numpy.random.default_rng(29)

        def noise(*shape):
            return (random.normal(size=shape) + 1j * random.normal(size=shape)).astype(numpy.complex64)

        # Tiles have 64 beams, 64 samples and 16 antennas: whole ones, and the beginnings of further ones.
        shapes = ((48, 16, 1024, 256), (64, 32, 128, 64), (70, 20, 540, 90), (1, 4, 2, 2), (130, 100, 200, 200))
        text = (EXAMPLES / "plugin-cutlass/penstock.toml").read_text()
        configuration, example = text[:text.index("# 48 beams")], text[text.index("[[pipeline]]"):]
        files, weights = {"beamformer.so": self.plugin.read_bytes()}, []
        for number, (beams, antennas, samples, window) in enumerate(shapes):
            weights.append(noise(beams, antennas))
            stored = io.BytesIO()
            numpy.save(stored, numpy.stack([weights[-1].real, weights[-1].imag], axis=-1))
            files[f"weights{number}.npy"] = stored.getvalue()
            configuration += (example.replace('name  = "beams"', f'name  = "beams{number}"')
                              .replace("[16, 1024]", f"[{antennas}, {samples}]")
                              .replace("weights.npy", f"weights{number}.npy")
                              .replace("window = 256", f"window = {window}"))
        for backend in backends():
            daemon = Daemon(backend, "callback", configuration, files)
            self.addCleanup(daemon.stop)
            for number, (beams, antennas, samples, window) in enumerate(shapes):
                with self.subTest(backend=backend, shape=shapes[number]), penstock.Client(daemon.url) as client:
                    frames = [noise(antennas, samples) for _ in range(8)]
                    pending = [client.submit(f"beams{number}", frame) for frame in frames]
                    for frame, each in zip(frames, pending):
                        wanted = powers_of_beams(weights[number], frame, window)
                        given = each.result()["beams"].reshape(wanted.shape)
                        self.assertLess(numpy.abs(given - wanted).max(), 1e-5 * wanted.max())


@unittest.skipIf(MISSING, f"not installed: {', '.join(MISSING)}")
class RefusalsTest(unittest.TestCase):
    """A plug-in that can't be used is refused with the file, the stage and the field."""

    def setUp(self):
        self.folder = Folder(self)

    def refused(self, message, stage='file = "odd.so"\n', **more):
        code, said = self.folder.check_config(stage, **more)
        self.assertEqual(code, 78, said)
        self.assertIn("pipeline 'p', stage 'mine', field '", said)
        self.assertIn(message, said)

    def test_a_good_one_is_not(self):
        self.folder.odd()
        self.assertEqual(self.folder.check_config('file = "odd.so"\n')[0], 0)

    def test_the_file_must_be_allowed_and_nobody_elses(self):
        plugin = self.folder.odd()
        self.refused("field 'file': \"odd.so\" is not allowed: add it", allow='["elsewhere"]')
        plugin.chmod(0o666)
        self.refused("has mode 0666, so that others than its owner can change its code: chmod go-w it")
        self.refused("field 'file': \"none.so\": there is no such file", 'file = "none.so"\n')

    def test_nothing_of_another_than_the_one_that_was_hashed_runs(self):
        plugin = self.folder.odd(more="#include <stdio.h>\n__attribute__((constructor)) static void start(void) "
                                      '{ fputs("it runs\\n", stderr); }\n')
        right = hashlib.sha256(plugin.read_bytes()).hexdigest()
        code, said = self.folder.check_config(f'file = "odd.so"\nsha256 = "{right}"\n')
        self.assertEqual(code, 0, said)
        self.assertIn("it runs", said)
        code, said = self.folder.check_config(f'file = "odd.so"\nsha256 = "{right[::-1]}"\n')
        self.assertEqual(code, 78, said)
        self.assertIn("stage 'mine', field 'sha256': ", said)
        self.assertNotIn("it runs", said)

    def test_it_must_be_a_plugin(self):
        plugin = self.folder.path / "odd.so"
        plugin.write_text("#!/bin/sh\n")
        self.refused(f"field 'file': {plugin}: is not a shared library")
        plugin.write_bytes(b"\x7fELF" + bytes(100))
        self.refused(f"{plugin}: is not a shared library of this machine")
        source = self.folder.path / "none.c"
        source.write_text("int nothing(void); int nothing(void) { return 0; }\n")
        compile_plugin(source, plugin)
        self.refused(f"{plugin}: has no function penstock_plugin_v1")
        whole = plugin.read_bytes()
        for size in (500, 3000, len(whole) - len(whole) // 2):  # as a copy does that is under way
            plugin.write_bytes(whole[:size])
            self.refused(f"{plugin}: is cut off: its end is missing")
        source.write_text("int missing(void); int uses(void); int uses(void) { return missing(); }\n")
        compile_plugin(source, plugin)
        self.refused("undefined symbol: missing")

    def test_it_must_be_of_this_abi(self):
        self.folder.odd(abi="7u")
        self.refused("odd.so: is built for ABI 7 of plug-ins; this daemon has ABI 1")

    def test_the_operator_must_be_clear(self):
        self.folder.odd(operators=2)
        self.refused("field 'entry': is missing: the plug-in has the operators 'odd', 'even'")
        self.refused("field 'entry': the plug-in has no operator 'neither'; it has 'odd', 'even'",
                     'file = "odd.so"\nentry = "neither"\n')

    def test_it_may_refuse_itself(self):
        self.folder.odd()
        self.refused("field 'values': 'refuse' must be false, says the plug-in",
                     'file = "odd.so"\nvalues = { refuse = true }\n')

    def test_one_that_breaks_the_rules_is_found_before_the_daemon_is_ready(self):
        self.folder.odd()
        for beyond, message in ((3, "on made-up frames: writes behind the end of its output"),
                                (CRASH, "the process that ran it on made-up frames was ended by SIGABRT")):
            with self.subTest(beyond):
                self.assertEqual(self.folder.check_config(f'file = "odd.so"\nvalues = {{ beyond = {beyond} }}\n')[0], 0)
                done = subprocess.run(
                    [BIN / "penstockd", "--config", self.folder.path / "penstock.toml", "--backend", "host", "--admin",
                     "none", "--listen", f"ipc://{self.folder.path}/data"], capture_output=True, text=True, timeout=300)
                self.assertEqual(done.returncode, 78, done.stderr)
                self.assertRegex(done.stderr, f"pipeline 'p', stage 'mine', field 'file': {message}")

    def test_a_start_that_proves_one_ends_when_it_is_told_to(self):
        self.folder.odd()
        self.assertEqual(self.folder.check_config(f'file = "odd.so"\nvalues = {{ beyond = {HANG} }}\n')[0], 0)
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(number), subprocess.Popen(
                    [BIN / "penstockd", "--config", self.folder.path / "penstock.toml", "--backend", "host", "--admin",
                     "none", "--listen", f"ipc://{self.folder.path}/data"], stderr=subprocess.PIPE) as daemon:
                proof = wait_until(lambda: proof_of(daemon.pid), "a stage is proven")
                with open(f"/proc/{proof}/stat") as of_proof:
                    daemon.send_signal(number)
                    self.assertEqual(daemon.wait(20), 0)
                    wait_until(lambda: has_ended(of_proof), "so has its process")

    def test_a_kernel_without_a_host_names_the_key(self):
        path = self.folder.path
        (path / "agc.cu").write_text("extern \"C\" __global__ void agc(const float* in, float* out) {}\n")
        kernel = 'file = "agc.cu"\ngrid = ["frames"]\nblock = [16]\nargs = ["in", "out"]\n'
        plugin = self.folder.odd()
        for host in ("", 'host = "odd.so"\n'):
            (path / "penstock.toml").write_text(VERSION + "[code]\nallow = [\".\"]\n" + pipeline(
                "p", "f32", [16], [("mine", "kernel", kernel + host)], ["mine"]))
            done = subprocess.run([BIN / "penstockd", "--config", path / "penstock.toml", "--backend", "host",
                                   "--print-plan", "p"], capture_output=True, text=True)
            if host:
                self.assertEqual(done.returncode, 0, done.stderr)
            else:
                self.assertEqual(done.returncode, 78, done.stderr)
                self.assertIn("stage 'mine', field 'host': is missing: the host backend can't run a CUDA kernel",
                              done.stderr)
        plugin.chmod(0o666)
        done = subprocess.run([BIN / "penstockd", "--config", path / "penstock.toml", "--check-config"],
                              capture_output=True, text=True)
        self.assertIn("stage 'mine', field 'host': ", done.stderr)
        self.assertIn("chmod go-w it", done.stderr)


@unittest.skipIf(MISSING, f"not installed: {', '.join(MISSING)}")
class KernelOnTheHostTest(unittest.TestCase):

    def test_its_plugin_does_the_kernels_work(self):
        kernel = ('file = "same.cu"\ngrid = ["frames"]\nblock = ["n0"]\nargs = ["in", "out"]\n'
                  'host = "odd.so"\nvalues = { flags = 2 }\n')
        text = VERSION + '[code]\nallow = ["."]\n' + pipeline("p", "f32", [16], [("mine", "kernel", kernel)], ["mine"])
        source = b'extern "C" __global__ void same(const float* in, float* out) { out[threadIdx.x] = in[threadIdx.x]; }'
        daemon = Daemon("host", "callback", text, {"same.cu": source, "odd.so": Folder(self).odd().read_bytes()})
        self.addCleanup(daemon.stop)
        frame = numpy.arange(16, dtype=numpy.float32)
        with penstock.Client(daemon.url) as client:
            numpy.testing.assert_array_equal(client.submit("p", frame).result()["mine"].ravel(), frame)


@unittest.skipIf(MISSING, f"not installed: {', '.join(MISSING)}")
class WavesTest(unittest.TestCase):

    def test_sessions_with_two_outputs(self):
        folder = Folder(self)
        source, plugin = folder.path / "sums.c", folder.path / "sums.so"
        source.write_text(SUMS)
        compile_plugin(source, plugin)
        code, said = folder.check_plugin(plugin, "--input", "f32[16]")
        self.assertEqual(code, 0, said)
        self.assertIn("sums of f32[16]: makes sum f32[16], count i32[1], ", said)
        text = VERSION + '[code]\nallow = ["sums.so"]\n' + pipeline(
            "p", "f32", [16], [("mine", "plugin", 'file = "sums.so"\n')], ["mine.count", "mine.sum"])
        daemon = Daemon("host", "callback", text, {"sums.so": plugin.read_bytes()})
        self.addCleanup(daemon.stop)
        frames = numpy.random.default_rng(2).integers(-100, 100, (5, 40, 16)).astype(numpy.float32)
        with penstock.Client(daemon.url) as client:
            sessions = [client.session("p") for _ in frames]
            pending = [[session.submit(frame) for session, frame in zip(sessions, step)]
                       for step in frames.transpose(1, 0, 2)]
            for step, futures in enumerate(pending):
                for session, future in enumerate(futures):
                    result = future.result()
                    numpy.testing.assert_array_equal(result["mine.sum"].ravel(), frames[session, :step + 1].sum(axis=0))
                    self.assertEqual(int(result["mine.count"].ravel()[0]), step + 1)


@unittest.skipIf(MISSING, f"not installed: {', '.join(MISSING)}")
class ReloadTest(unittest.TestCase):

    def test_another_plugin_of_the_same_name_takes_its_place(self):
        folder = Folder(self)
        plugins = {factor: folder.odd(f"by_{factor}.so", factor=factor) for factor in (1, 3)}
        text = VERSION + '[code]\nallow = ["."]\n' + pipeline(
            "p", "f32", [16], [("mine", "plugin", 'file = "mine.so"\n')], ["mine"])
        daemon = Daemon("host", "callback", text, {"mine.so": plugins[1].read_bytes()})
        self.addCleanup(daemon.stop)
        frame = numpy.arange(16, dtype=numpy.float32)
        with penstock.Client(daemon.url) as client:
            for factor in [3, 1] * 10:
                fresh = daemon.path / "fresh.so"
                fresh.write_bytes(plugins[factor].read_bytes())
                fresh.rename(daemon.path / "mine.so")
                self.assertEqual(daemon.ask_for_reload()[0], 200)
                numpy.testing.assert_array_equal(client.submit("p", frame).result()["mine"].ravel(), factor * frame)
        self.assertEqual(mappings_of_plugins(daemon), 2, "each content is loaded once")


@unittest.skipIf(MISSING, f"not installed: {', '.join(MISSING)}")
class CheckPluginTest(unittest.TestCase):
    """`penstock check-plugin`."""

    def setUp(self):
        self.folder = Folder(self)

    def test_a_good_one_is_told_what_it_has(self):
        plugin = self.folder.path / "moving_rms.so"
        compile_plugin(EXAMPLES / "plugin-host/moving_rms.c", plugin)
        code, said = self.folder.check_plugin(plugin, "--input", "f32[max 200, 2]", "--values", "window=9")
        self.assertEqual(code, 0, said)
        self.assertIn("moving_rms of f32[max 200, 2]: makes f32[max 200, 2], 0 bytes of scratch, 72 bytes of state a "
                      "session, by rows", said)
        self.assertIn("ok  a session's result is the same however it is cut into frames", said)
        self.assertIn("ok  the results are the same while 4 threads run it at once", said)
        code, said = self.folder.check_plugin(self.folder.odd(), "--input", "f32[8]")
        self.assertEqual(code, 0, said)

    def test_wrong_values_are_the_plugins_to_tell(self):
        plugin = self.folder.odd()
        self.assertEqual(self.folder.check_plugin(plugin, "--values", "refuse=true"),
                         (1, f"{plugin}: ABI 1, 1 operator: odd\n"
                             f"penstock: {plugin}: values 'refuse' must be false, says the plug-in\n"))
        code, said = self.folder.check_plugin(plugin, "--input", "f33[8]")
        self.assertEqual(code, 1)
        self.assertEqual(said, 'penstock: "f33[8]" is no frame: give it as f32[1024] or "f32[max 512, 2]"\n')
        self.assertEqual(self.folder.check_plugin()[0], 2)

    def test_what_writes_out_of_bounds_is_found(self):
        plugin = self.folder.odd()
        code, said = self.folder.check_plugin(plugin, "--input", "f32[8]", "--values", "beyond=3")
        self.assertEqual(code, 1)
        self.assertIn(f"penstock: {plugin}: operator 'odd': writes behind the end of its output, 0 bytes in a batch of "
                      "1 frame", said)

    def test_a_crash_is_told(self):
        code, said = self.folder.check_plugin(self.folder.odd(), "--values", f"beyond={CRASH}")
        self.assertEqual(code, 1)
        self.assertRegex(said, "odd.so: it crashes: ")


if __name__ == "__main__":
    unittest.main()
