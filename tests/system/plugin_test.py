"""Stages of `op = "plugin"`: operators in shared libraries that users bring.

The plug-ins are built as their authors build them: with a compiler alone, and with CMake against an installed tree.
"""

import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from daemon_process import BIN, VERSION, Daemon, pipeline

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "deploy/examples"
INCLUDE = ROOT / "kernels/include"
BUILD = pathlib.Path(os.environ.get("PENSTOCK_BUILD", "build/release")).resolve()
MISSING = [each for each in ("numpy", "zmq") if importlib.util.find_spec(each) is None]
if shutil.which("cc") is None:
    MISSING.append("cc")

# An operator that does as its `values` say.
ODD = r"""
#include <stdlib.h>
#include <string.h>
#include <penstock/plugin.h>

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
  memset((char *)run->out[0] + bytes, 0, (size_t)self[1]);
  return NULL;
}

const ps_operator *penstock_plugin_v1(uint32_t index) {
  static const ps_operator all[] = {{ABI, sizeof(ps_operator), "odd", infer, make, run, free},
                                    {ABI, sizeof(ps_operator), "even", infer, make, run, free}};
  return index < COUNT ? &all[index] : NULL;
}
"""


def run(*command, **more):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, **more)
    if done.returncode != 0:
        raise RuntimeError(f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def compile_plugin(source, to, *options):
    run("cc", "-std=c11", "-pedantic", "-Wall", "-Wextra", "-Werror", "-O2", "-fPIC", "-shared", f"-I{INCLUDE}",
        *options, source, "-o", to, "-lm")


def moving_rms(signal, window):
    """In float64, over the last samples; those before the start are zero."""
    import numpy
    squares = numpy.concatenate([numpy.zeros(window), signal.astype(numpy.float64) ** 2])
    sums = numpy.convolve(squares, numpy.ones(window), "valid")[1:]
    return numpy.sqrt(numpy.maximum(sums, 0) / window)


@unittest.skipIf(MISSING, f"not installed: {', '.join(MISSING)}")
class HostExampleTest(unittest.TestCase):
    """deploy/examples/plugin-host, in a daemon."""

    def serve(self, plugin):
        import numpy
        import penstock
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
                numpy.testing.assert_allclose(given, moving_rms(signal, 100), rtol=2e-6, atol=1e-6)

    def test_built_with_a_compiler_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            plugin = pathlib.Path(folder) / "moving_rms.so"
            compile_plugin(EXAMPLES / "plugin-host/moving_rms.c", plugin)
            self.serve(plugin)


if __name__ == "__main__":
    unittest.main()
