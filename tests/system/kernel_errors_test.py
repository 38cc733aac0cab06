"""What is said of users' code that is wrong: pipeline, stage, field, and the user's own file and line.

All is found by --check-config, without a GPU. What needs a compiler is left out where there is none: NVRTC for .cu,
nvJitLink for .ptx (PENSTOCK_NVRTC and PENSTOCK_NVJITLINK name their files).
"""

import functools
import hashlib
import os
import pathlib
import re
import stat
import subprocess
import tempfile
import unittest

from daemon_process import BIN
from fake_cuda import cubin

GAIN = """#include <penstock.cuh>
extern "C" __global__ void gain(const float* in, float* out, long long frames, long long n0, float factor) {
  const long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
  if (i < frames * n0) {
    out[i] = factor * in[i];
  }
}
"""
PTX = """.version {version}
.target sm_80
.address_size 64
.visible .entry gain(.param .u64 in, .param .u64 out, .param .u64 frames, .param .u64 n0, .param .f32 factor) {{
  ret;
}}
"""
STAGE = {"file": '"gain.cu"', "grid": '["ceil(frames * n0 / 256)"]', "block": "[256]",
         "args": '["in", "out", "frames", "n0", "f32 factor"]', "values": "{ factor = 2.0 }"}


def configuration(allow='["."]', **stage):
    text = f"""config_version = 1
[code]
allow = {allow}
cache = ""
[[pipeline]]
name = "louder"
input = {{ dtype = "f32", shape = [64] }}
[[pipeline.stage]]
name = "gain"
op = "kernel"
"""
    return text + "".join(f"{key} = {value}\n" for key, value in {**STAGE, **stage}.items() if value is not None)


class Folder:
    """A configuration and the files beside it."""

    def __init__(self, text, files):
        self._folder = tempfile.TemporaryDirectory(prefix="penstock-")
        self.path = pathlib.Path(self._folder.name)
        self.write("penstock.toml", text)
        for name, content in files.items():
            self.write(name, content)

    def write(self, name, content):
        file = self.path / name
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        file.chmod(0o644)

    def remove(self):
        self._folder.cleanup()

    def check(self, architecture="sm_90", **environment):
        return subprocess.run([BIN / "penstockd", "--config", self.path / "penstock.toml", "--check-config", "--arch",
                               architecture], capture_output=True, text=True, timeout=120,
                              env={**os.environ, **environment})


@functools.lru_cache(None)
def lacks(file):
    """Why such a file can't be compiled here; "" if it can."""
    text = GAIN if file.endswith(".cu") else PTX.format(version="7.0")
    folder = Folder(configuration(file=f'"{file}"'), {file: text})
    done = folder.check()
    folder.remove()
    return done.stderr if "could not be loaded" in done.stderr else ""


class KernelErrors(unittest.TestCase):

    def refused(self, files, environment=None, code=78, **stage):
        """What is said, without the configuration's own name; FOLDER stands for the folder."""
        folder = Folder(configuration(**stage), files)
        self.addCleanup(folder.remove)
        self.prepare(folder)
        done = folder.check(**(environment or {}))
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stderr.replace(str(folder.path), "FOLDER")

    def prepare(self, folder):
        pass

    def expect(self, message, files, **stage):
        said = self.refused(files, **stage)
        self.assertIn(message, said)
        self.assertIn("pipeline 'louder', stage 'gain', field '", said)

    def need(self, file):
        if why := lacks(file):
            self.skipTest(why.strip())

    # Files, and whom they belong to.

    def test_a_file_that_is_missing(self):
        self.expect("penstock.toml:11: pipeline 'louder', stage 'gain', field 'file': \"gain.cu\": there is no such "
                    "file", {})

    def test_a_file_that_is_not_allowed(self):
        for allow in ('["kernels/"]', '["gain"]', '["gain.cubin"]'):
            with self.subTest(allow):
                self.expect("field 'file': \"gain.cu\" is not allowed: add it, or its folder, to code.allow",
                            {"gain.cu": GAIN, "kernels/other.cu": "", "gain": ""}, allow=allow)

    def test_a_link_out_of_what_is_allowed(self):
        with tempfile.TemporaryDirectory(prefix="penstock-") as other:
            file = pathlib.Path(other, "far.cu").resolve()
            file.write_text(GAIN)
            self.prepare = lambda folder: ((folder.path / "kernels").mkdir(),
                                           (folder.path / "kernels/gain.cu").symlink_to(file))
            self.expect(f"field 'file': \"kernels/gain.cu\", which is {file}, is not allowed", {},
                        file='"kernels/gain.cu"', allow='["kernels/"]')

    def test_a_file_that_others_can_write(self):
        self.prepare = lambda folder: (folder.path / "gain.cu").chmod(0o666)
        self.expect("FOLDER/gain.cu: has mode 0666, so that others than its owner can change its code: chmod go-w it",
                    {"gain.cu": GAIN})

    def test_a_folder_that_others_can_write(self):
        self.prepare = lambda folder: (folder.path / "kernels").chmod(0o777)
        self.expect("lies in FOLDER/kernels, which has mode 0777, so that others could put another file there",
                    {"kernels/gain.cu": GAIN}, file='"kernels/gain.cu"')

    def test_a_wrong_sha256(self):
        right = hashlib.sha256(GAIN.encode()).hexdigest()
        self.expect(f"field 'sha256': is 000000000000…, and that of the file is {right[:12]}…: if you trust the file "
                    "as it is now, take what `sha256sum FOLDER/gain.cu` prints", {"gain.cu": GAIN}, sha256=f'"{"0" * 64}"')
        self.expect("field 'sha256': \"abc\" is given; allowed is the 64 digits that `sha256sum FOLDER/gain.cu` prints",
                    {"gain.cu": GAIN}, sha256='"abc"')

    def test_the_right_sha256_is_taken(self):
        code = cubin({"gain": "scale 2"}, (8, 8, 8, 8, 4))
        folder = Folder(configuration(file='"gain.cubin"', sha256=f'"{hashlib.sha256(code).hexdigest()}"'),
                        {"gain.cubin": code})
        self.addCleanup(folder.remove)
        self.assertEqual(folder.check().returncode, 0)

    def test_a_folder_of_headers_that_is_not_allowed(self):
        self.expect("field 'include': \"include\" is not allowed", {"gain.cu": GAIN, "include/x.h": ""},
                    include='["include"]', allow='["gain.cu"]')

    def test_a_header_that_others_can_write(self):
        self.prepare = lambda folder: (folder.path / "include/x.h").chmod(stat.S_IRUSR | stat.S_IWOTH)
        self.expect("field 'include': FOLDER/include/x.h: has mode 0402, so that others than its owner can change its "
                    "code", {"gain.cu": GAIN, "include/x.h": ""}, include='["include"]')

    def test_options_that_name_headers(self):
        self.expect("field 'options': has \"-I/tmp\": name folders of headers in `include`", {"gain.cu": GAIN},
                    options='["-I/tmp"]')

    def test_options_that_name_other_files(self):
        for option in ("--pch", "-pch-dir=/nowhere", "--create-pch=/nowhere/x", " --use-pch=/nowhere/x",
                       "--time=/nowhere/x", "--fdevice-time-trace=/nowhere/x", "-Xptxas=-optf=/nowhere/x",
                       "--ptxas-options=/nowhere/x.ptx"):
            with self.subTest(option):
                self.expect(f"field 'options': has \"{option}\": it lets the compiler read or write other files",
                            {"gain.cu": GAIN}, options=f'["{option}"]')
        self.expect("field 'options': has \"-Xptxas\" alone: give its value with it", {"gain.cu": GAIN},
                    options='["-Xptxas", "/nowhere/x.ptx"]')

    def test_a_file_of_no_known_kind(self):
        self.expect("field 'file': \"gain.cpp\" is given; allowed are files that end in .cu, .ptx or .cubin",
                    {"gain.cpp": GAIN}, file='"gain.cpp"')

    # What a stage says of its kernel.

    def test_expressions(self):
        for field, text, message in (
                ("grid", '["frames *"]', "\"frames *\" ends where a number is wanted, at letter 9"),
                ("grid", '["frames", "rows"]', "\"rows\" has an unknown name 'rows' (known: frames, n0), at letter 1"),
                ("block", '["(n0"]', "\"(n0\" lacks ')', at letter 4"),
                ("shared", '"sqrt(n0)"', "\"sqrt(n0)\" has an unknown function 'sqrt' (known: ceil, min, max), at"),
                ("grid", "[]", "must be a list of 1 to 3 expressions"),
                ("args", "[]", "must be a list of 1 to 16 texts"),
                ("args", '["in", "f32 factor"]', "has no \"out\": the kernel could not write its result"),
                ("args", '["in", "out", "f32 gain"]', "has \"f32 gain\", and `values` has no 'gain'"),
                ("args", '["in", "out", "factor"]', "has \"factor\": say the type of the number, such as \"f32 f"),
                ("args", '["in3", "out"]', "has \"in3\", and the stage reads from 1"),
                ("output", '{ dtype = "f31" }', "has an unknown dtype \"f31\""),
                ("output", '{ shape = ["frames"] }', "\"frames\" depends on the batch"),
                ("state", "{ bytes = 0 }", "needs bytes from 1 to 1 GiB")):
            with self.subTest(field, text=text):
                self.expect(f"field '{field}': {message}" if field != "output" or "dtype" in text else message,
                            {"gain.cu": GAIN}, **{field: text})

    # Machine code.

    def test_a_cubin_that_is_none(self):
        self.expect("field 'file': FOLDER/gain.cubin: it is not a cubin: an ELF file of CUDA machine code",
                    {"gain.cubin": "no code"}, file='"gain.cubin"')

    def test_a_cubin_of_another_architecture(self):
        self.expect("field 'file': FOLDER/gain.cubin: it is for sm_80, and the device is sm_90: compile it for that "
                    "(nvcc --cubin --gpu-architecture=sm_90), or give the .cu or .ptx file",
                    {"gain.cubin": cubin({"gain": ""}, architecture=80)}, file='"gain.cubin"')

    def test_a_cubin_without_the_entry(self):
        self.expect("FOLDER/gain.cubin: there is no kernel 'agc'; it has gain, mute",
                    {"gain.cubin": cubin({"gain": "", "mute": ""})}, file='"gain.cubin"', entry='"agc"')
        self.expect("FOLDER/gain.cubin: it has several kernels: gain, mute; say which in entry",
                    {"gain.cubin": cubin({"gain": "", "mute": ""})}, file='"gain.cubin"')

    def test_arguments_that_the_kernel_does_not_take(self):
        for parameters, message in (
                ((8, 8, 8, 8), "has 5, and the kernel takes 4 parameters"),
                ((8, 8, 8, 8, 8),
                 "has \"f32 factor\", of 4 bytes, as its number 5; that parameter of the kernel has 8"),
                ((8, 8, 4, 8, 4), "has \"frames\", of 8 bytes, as its number 3; that parameter of the kernel has 4")):
            with self.subTest(parameters):
                self.expect("field 'args': " + message, {"gain.cubin": cubin({"gain": ""}, parameters)},
                            file='"gain.cubin"')

    # The compilers.

    def test_a_compiler_that_is_missing(self):
        for file, variable, library in (("gain.cu", "PENSTOCK_NVRTC", "libnvrtc"),
                                        ("gain.ptx", "PENSTOCK_NVJITLINK", "libnvJitLink")):
            with self.subTest(library):
                said = self.refused({file: GAIN}, {variable: "/nowhere/" + library}, code=69, file=f'"{file}"')
                self.assertIn(f"code for the GPU needs {library}, which could not be loaded (/nowhere/{library}: cannot "
                              "open shared object file", said)
                self.assertRegex(said, r"install it \(Debian: \S+ or \S+; PyPI has it too\), or name its file in " +
                                 variable)

    def test_a_syntax_error(self):
        self.need("gain.cu")
        self.expect("field 'file': FOLDER/gain.cu(5): error: identifier \"factr\" is undefined",
                    {"gain.cu": GAIN.replace("factor * in", "factr * in")})

    def test_a_header_that_is_missing(self):
        self.need("gain.cu")
        # Also one beside the source, where nobody has judged it.
        said = self.refused({"gain.cu": GAIN.replace("<penstock.cuh>", '"beside.h"'), "beside.h": ""})
        self.assertRegex(said, r'FOLDER/gain.cu\(1\): catastrophic error: \w+( not)? open source file "beside.h"')

    def test_a_header_outside_the_folders_of_include(self):
        self.need("gain.cu")
        headers = {"beside.h": "", "include/x.h": "", "include/out.h": '#include "../beside.h"\n'}
        for include, read in (('"FOLDER/beside.h"', "FOLDER/beside.h"), ('"../beside.h"', "../beside.h"),
                              ("<out.h>", "../beside.h")):
            with self.subTest(include):
                self.prepare = lambda folder, line=include: folder.write(
                    "gain.cu", GAIN.replace("<penstock.cuh>", line.replace("FOLDER", str(folder.path))))
                said = self.refused({"gain.cu": "", **headers}, include='["include"]')
                self.assertRegex(said, r"field 'file': FOLDER/gain.cu: includes \S*" + re.escape(read) +
                                 ", which is in none of the folders of `include`")

    def test_a_header_in_a_folder_of_include(self):
        self.need("gain.cu")
        for include in ("<x.h>", '"FOLDER/include/x.h"', '"link.h"', '"../include/x.h"'):
            with self.subTest(include):
                folder = Folder(configuration(include='["include"]'), {"include/x.h": "", "beside.h": ""})
                self.addCleanup(folder.remove)
                (folder.path / "include/link.h").symlink_to(folder.path / "beside.h")
                folder.write("gain.cu", GAIN.replace("<penstock.cuh>", include.replace("FOLDER", str(folder.path))))
                done = folder.check()
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_an_entry_that_is_missing(self):
        self.need("gain.cu")
        self.expect("FOLDER/gain.cu: there is no kernel 'agc'; it has gain", {"gain.cu": GAIN}, entry='"agc"')
        self.expect("FOLDER/gain.cu: there is no kernel 'agc'; it has none, or templates alone",
                    {"gain.cu": "template <class T> __global__ void gain(T*) {}"}, entry='"agc"')

    def test_arguments_of_other_types_than_the_kernels(self):
        self.need("gain.cu")
        self.expect("field 'args': has \"f32 factor\", of 4 bytes, as its number 5; that parameter of the kernel has 8",
                    {"gain.cu": GAIN.replace("float factor", "double factor")})

    def test_an_unknown_option(self):
        self.need("gain.cu")
        self.expect("FOLDER/gain.cu: nvrtc: error: unrecognized option --no-such-thing", {"gain.cu": GAIN},
                    options='["--no-such-thing"]')
        self.need("gain.ptx")
        self.expect("FOLDER/gain.ptx: nvJitLink does not take one of these: -arch=sm_90 --no-such-thing",
                    {"gain.ptx": PTX.format(version="7.0")}, file='"gain.ptx"', options='["--no-such-thing"]')

    def test_what_a_kernel_uses_is_said_for_each_architecture(self):
        self.need("gain.cu")
        tile = """
template <class T> __global__ void tile(const T* in, T* out, const double* table) {
  __shared__ T all[300];
  for (int i = threadIdx.x; i < 300; i += blockDim.x) all[i] = in[i % 64];
  __syncthreads();
  double far[100];
  for (int i = 0; i < 100; ++i) far[i] = table[i % 4] * i;
  out[threadIdx.x] = all[(threadIdx.x * 7) % 300] + T(far[int(in[0]) % 100]);
}
"""
        folder = Folder(configuration(entry='"tile<float>"', args='["in", "out", "f64* table"]', block="[64]",
                                      values="{ table = [1.0, 2.0, 3.0, 4.0] }"), {"gain.cu": tile})
        self.addCleanup(folder.remove)
        for architecture in ("sm_80", "sm_90", "sm_90a", "sm_100"):
            with self.subTest(architecture):
                done = folder.check(architecture)
                self.assertEqual(done.returncode, 0, done.stderr)
                found = re.search(rf"kernel tile<float> for {architecture}: (\d+) registers, (\d+) bytes of shared "
                                  r"memory, (\d+) bytes of stack", done.stdout)
                self.assertIsNotNone(found, done.stdout)
                registers, shared, stack = map(int, found.groups())
                self.assertEqual(shared, 1200)
                self.assertTrue(8 <= registers <= 255 and 800 <= stack <= 1024, done.stdout)

    def test_warnings_are_shown_of_a_kernel_that_is_good(self):
        self.need("gain.cu")
        folder = Folder(configuration(), {"gain.cu": GAIN.replace("  const", "  int unused;\n  const", 1)})
        self.addCleanup(folder.remove)
        done = folder.check()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"kernel gain for sm_90: \d+ registers, .*\n.*gain.cu\(3\): warning #177-D")

    def test_too_much_shared_memory(self):
        self.need("gain.cu")
        large = "  __shared__ float tile[100000]; tile[threadIdx.x] = in[0]; out[0] = tile[5];\n  const long long i"
        self.expect("FOLDER/gain.cu: ptxas error   : Entry function 'gain' uses too much shared data",
                    {"gain.cu": GAIN.replace("  const long long i", large)})

    def test_ptx_that_is_newer_than_the_linker(self):
        self.need("gain.ptx")
        self.expect("FOLDER/gain.ptx(1): fatal: Unsupported .version 99.0; current version is '",
                    {"gain.ptx": PTX.format(version="99.0")}, file='"gain.ptx"')

    def test_ptx_that_is_none(self):
        self.need("gain.ptx")
        self.expect("FOLDER/gain.ptx: it is no PTX", {"gain.ptx": "void gain() {}"}, file='"gain.ptx"')

    def test_an_error_in_ptx(self):
        self.need("gain.ptx")
        self.expect("FOLDER/gain.ptx(5): error: ", {"gain.ptx": PTX.format(version="7.0").replace("ret;", "rat;")},
                    file='"gain.ptx"')

    def test_ptx_without_the_entry(self):
        self.need("gain.ptx")
        self.expect("FOLDER/gain.ptx: there is no kernel 'agc'; it has gain",
                    {"gain.ptx": PTX.format(version="7.0")}, file='"gain.ptx"', entry='"agc"')


if __name__ == "__main__":
    unittest.main()
