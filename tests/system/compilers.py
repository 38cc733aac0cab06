"""CUDA's compilers, as a test of users' kernels needs them: libnvrtc for CUDA C++, libnvJitLink for PTX.

PENSTOCK_NVRTC and PENSTOCK_NVJITLINK name their files, as for the daemon. Without them the libraries of the packages
from PyPI are taken, if this Python has them, and then those that the daemon finds itself.
"""

import functools
import os
import pathlib
import subprocess
import sys
import tempfile

from daemon_process import BIN, VERSION

LIBRARIES = {"PENSTOCK_NVRTC": "libnvrtc.so.1[23]", "PENSTOCK_NVJITLINK": "libnvJitLink.so.1[23]"}
CODE = {".cu": 'extern "C" __global__ void copy(const float* in, float* out) { out[0] = in[0]; }\n',
        ".ptx": ".version 7.8\n.target sm_90\n.address_size 64\n"
                ".visible .entry copy(.param .u64 in, .param .u64 out) {\n  ret;\n}\n"}
PIPELINE = """
[code]
allow = ["."]
[[pipeline]]
name = "p"
input = { dtype = "f32", shape = [1] }
[[pipeline.stage]]
name = "copy"
op = "kernel"
"""


def check(folder, configuration="penstock.toml", architecture="sm_90"):
    """What `penstockd --check-config` says of a configuration in that folder: its exit code and its text. Users' code is
    compiled, unless `architecture` is empty."""
    done = subprocess.run([BIN / "penstockd", "--config", configuration, "--check-config",
                           *(("--arch", architecture) if architecture else ())],
                          cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
    return done.returncode, done.stdout


def choose_libraries():
    """Lets the daemon use this Python's packages."""
    for variable, name in LIBRARIES.items():
        found = [file for folder in sys.path for file in pathlib.Path(folder).glob(f"nvidia/*/lib/{name}")]
        if found:
            os.environ.setdefault(variable, str(max(found, key=lambda file: file.name)))


@functools.lru_cache(maxsize=None)
def missing(ending):
    """Why files that end in this (".cu", ".ptx") can't be compiled here; empty when they can."""
    choose_libraries()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / f"copy{ending}").write_text(CODE[ending])
        (folder / "penstock.toml").write_text(
            f'{VERSION}{PIPELINE}file = "copy{ending}"\ngrid = [1]\nblock = [1]\nargs = ["in", "out"]\n')
        code, text = check(folder)
    return "" if code == 0 else " ".join(text.split())
