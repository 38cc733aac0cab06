"""The tree that `cmake --install` makes can be moved, and other projects can build against it.

PENSTOCK_BUILD names the folder of a finished build.
"""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

BUILD = pathlib.Path(os.environ.get("PENSTOCK_BUILD", "build/release")).resolve()

CONFIGURATION = """
config_version = 1
[[pipeline]]
name = "half"
input = { dtype = "f32", shape = [4] }
[[pipeline.stage]]
name = "half"
op = "affine"
a = 0.5
"""

PROGRAM = """
#include <cstdio>
#include <vector>

#include <penstock/penstock.hpp>

int main(int, char** argv) {
  penstock::client client({.url = argv[1]});
  const std::vector<float> frame{2, 4, 6, 8};
  const auto result = client.submit("half", {.bytes = std::as_bytes(std::span(frame))}).get();
  for (const float each : result.output("half").to_vector<float>()) {
    std::printf("%g ", static_cast<double>(each));
  }
  try {
    (void)client.submit("nothing", {});
  } catch (const penstock::request_error& refused) {
    std::printf("refused\\n");
  }
}
"""

PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(outside LANGUAGES CXX)
find_package(penstock 0.1 REQUIRED)
add_executable(with_shared outside.cpp)
target_link_libraries(with_shared PRIVATE penstock::client)
add_executable(with_static outside.cpp)
target_link_libraries(with_static PRIVATE penstock::client_static)
"""


def run(*command, **more):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, **more)
    if done.returncode != 0:
        raise RuntimeError(f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


class InstallTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        if not (BUILD / "cmake_install.cmake").exists():
            raise unittest.SkipTest(f"{BUILD} is no build (PENSTOCK_BUILD names one)")
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="penstock-")))
        run("cmake", "--install", BUILD, env={**os.environ, "DESTDIR": str(cls.folder / "machine")})
        prefix = re.search(r"^CMAKE_INSTALL_PREFIX:PATH=/(.*)$", (BUILD / "CMakeCache.txt").read_text(), re.MULTILINE)
        # What follows uses the tree where it was not installed to.
        cls.installed = (cls.folder / "machine" / prefix.group(1)).rename(cls.folder / "moved")
        (cls.folder / "penstock.toml").write_text(CONFIGURATION)
        (cls.folder / "outside.cpp").write_text(PROGRAM)
        (cls.folder / "CMakeLists.txt").write_text(PROJECT)
        cls.library = next(cls.installed.glob("lib*/**/libpenstock.so")).parent
        cls.url = f"ipc://{cls.folder}/data"
        cls.daemon = subprocess.Popen(
            [cls.installed / "bin/penstockd", "--config", cls.folder / "penstock.toml", "--backend", "host",
             "--admin", "none", "--listen", cls.url], stderr=subprocess.DEVNULL)
        cls.addClassCleanup(cls.end)
        run(cls.installed / "bin/penstock", "--url", cls.url, "--timeout", "60s", "ping")

    @classmethod
    def end(cls):
        cls.daemon.terminate()
        cls.daemon.wait(60)

    def check(self, program):
        said = run(program, self.url, env={**os.environ, "LD_LIBRARY_PATH": str(self.library)})
        self.assertEqual(said, "1 2 3 4 refused\n")

    def test_an_outside_project_finds_the_library_with_cmake(self):
        # CMake's default generator wants a program of its own, which not every machine has.
        generator = re.search(r"^CMAKE_GENERATOR:INTERNAL=(.*)$", (BUILD / "CMakeCache.txt").read_text(), re.MULTILINE)
        run("cmake", "-G", generator.group(1), "-S", self.folder, "-B", self.folder / "build", f"-DCMAKE_PREFIX_PATH={self.installed}")
        run("cmake", "--build", self.folder / "build")
        for program in ("with_shared", "with_static"):
            with self.subTest(program):
                self.check(self.folder / "build" / program)

    def test_an_outside_project_finds_the_library_with_pkg_config(self):
        environment = {**os.environ, "PKG_CONFIG_PATH": str(self.library / "pkgconfig")}
        flags = run("pkg-config", "--cflags", "--libs", "penstock", env=environment).split()
        self.assertIn(f"-L{self.library}", [os.path.normpath(each) for each in flags])
        program = self.folder / "with_pkg_config"
        run("c++", "-std=c++20", self.folder / "outside.cpp", *flags, "-o", program)
        self.check(program)

    def test_the_pages_link_to_pages_that_are_there(self):
        pages = list((self.installed / "share/doc/penstock").glob("**/*.md"))
        self.assertGreater(len(pages), 5)
        for page in pages:
            for link in re.findall(r"\]\((?!http|#)([^)#]+)", page.read_text()):
                self.assertTrue((page.parent / link).exists(), f"{page.name} links to {link}")

    def test_the_library_shows_its_public_names_alone(self):
        shown = run("nm", "--dynamic", "--defined-only", "--demangle", "--with-symbol-versions",
                    self.library / "libpenstock.so").splitlines()
        names = [line.split(maxsplit=2)[2] for line in shown]
        self.assertIn("penstock::client::~client()@@PENSTOCK_1", names)
        for name in names:
            self.assertRegex(name, r"^(PENSTOCK_1|((typeinfo|typeinfo name|vtable) for )?penstock::\w+)")
            self.assertNotRegex(name, r"^penstock::(link|wire)::|^penstock::client::implementation::")

    def test_the_library_has_a_soname_and_nothing_names_the_build(self):
        for file, soname in (("libpenstock.so", "libpenstock.so.1"),):
            dynamic = run("readelf", "--dynamic", self.library / file)
            self.assertIn(f"soname: [{soname}]", dynamic)
        for program in (self.library / "libpenstock.so", self.installed / "bin/penstockd",
                        self.installed / "bin/penstock"):
            self.assertIsNone(re.search(r"R(UN)?PATH", run("readelf", "--dynamic", program)), program)

    def test_an_installed_daemon_looks_for_the_module_where_it_is_installed(self):
        places = [each for each in self.installed.rglob("penstock-cuda.so")]
        module = places[0] if places else self.library / "penstock/penstock-cuda.so"
        module.parent.mkdir(exist_ok=True)
        kept = module.with_suffix(".kept")
        if places:
            module.rename(kept)
        module.write_bytes(b"this is no shared object")
        try:
            done = subprocess.run([self.installed / "bin/penstockd", "--config", self.folder / "penstock.toml",
                                   "--backend", "cuda", "--print-plan", "half"], capture_output=True, text=True)
        finally:
            module.unlink()
            if places:
                kept.rename(module)
        self.assertEqual(done.returncode, 69)
        self.assertIn(f"can't be loaded: {module}", done.stderr)


if __name__ == "__main__":
    if shutil.which("cmake") is None:
        raise SystemExit("cmake is not installed")
    unittest.main()
