"""./dev counts jobs correctly, and `./dev new-operator` makes an operator that compiles, passes its test and is listed
everywhere. PENSTOCK_BUILD names a finished build to link with."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

TREE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("PENSTOCK_BUILD", "build/release")).resolve()
NAME = "rectify"
# In front of the build's libraries: its catalogue has one operator less.
SOURCES = (f"kernels/{NAME}_host.cpp", "kernels/catalogue.cpp", f"tests/kernels/{NAME}_test.cpp",
           "tests/kernels/catalogue_test.cpp", "tests/support/operation_runner.cpp", "tests/support/session_runner.cpp")
LISTS = ("kernels/CMakeLists.txt", "kernels/operators.hpp", "docs/operators.md", "deploy/man/penstock.toml.5",
         "tests/kernels/operator_sample.hpp")

JOB_COUNT = """
set -Eeuo pipefail
trap 'echo stopped >&2' ERR
source deploy/dev/setup.sh
source deploy/dev/build.sh
jobs=$(job_count)
printf '%s of %s\\n' "$jobs" "$(nproc)"
"""
# /proc is hidden from the command alone.
HIDE = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs tmpfs /proc && exec "$@"', "sh"]


def run(*command):
    environment = {key: value for key, value in os.environ.items() if key != "PENSTOCK_JOBS"}
    return subprocess.run(command, cwd=TREE, env=environment, capture_output=True, text=True)


class DevTest(unittest.TestCase):
    def test_without_proc_there_is_a_job_for_each_core(self):
        if run(*HIDE, "true").returncode != 0:
            self.skipTest("only root can hide /proc")
        done = run(*HIDE, "bash", "-c", JOB_COUNT)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        jobs, cores = done.stdout.strip().split(" of ")
        self.assertEqual(jobs, cores)

    def test_there_is_a_job_and_no_more_than_one_a_core(self):
        done = run("bash", "-c", JOB_COUNT)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        jobs, cores = map(int, done.stdout.split(" of "))
        self.assertTrue(1 <= jobs <= cores, done.stdout)


def output_of(*command, cwd):
    done = subprocess.run(list(map(str, command)), cwd=cwd, capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def libraries():
    """What the build links the operators' tests with."""
    rules = (BUILD / "build.ninja").read_text() if (BUILD / "build.ninja").exists() else ""
    found = re.search(r"^build tests/kernels_test: .*\n(?:  .*\n)*?  LINK_LIBRARIES = (.*)$", rules, re.MULTILINE)
    if found is None:
        raise unittest.SkipTest(f"{BUILD} is no build by Ninja with tests (PENSTOCK_BUILD names one)")
    return [word for word in found.group(1).split() if not word.startswith("-Wl,-rpath")]


class NewOperatorTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.libraries = libraries()
        cls.copy = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="penstock-")))
        for folder in ("base", "daemon", "deploy", "docs", "kernels", "proto", "tests"):
            shutil.copytree(TREE / folder, cls.copy / folder, ignore=shutil.ignore_patterns("*.json", "__pycache__"))
        cls.before = {file: (cls.copy / file).read_text() for file in LISTS}
        output_of(sys.executable, "deploy/dev/new_operator.py", NAME, cwd=cls.copy)

    def test_it_compiles_and_passes_its_test_and_those_of_the_catalogue(self):
        program = self.copy / "program"
        output_of("c++", "-std=c++20", "-O1", "-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Werror",
                  f"-I{self.copy}", f"-I{self.copy}/kernels/include", f"-I{BUILD}/generated", *(self.copy / source for source in SOURCES),
                  *self.libraries, "-o", program, cwd=BUILD)
        for source in (f"{NAME}_test", "catalogue_test"):
            self.assertIn("[  PASSED  ]", output_of(program, f"--source=kernels/{source}", cwd=self.copy))

    def test_it_stands_in_each_list_and_nothing_else_is_changed(self):
        for file, before in self.before.items():
            with self.subTest(file):
                after = (self.copy / file).read_text()
                self.assertIn(NAME, after)
                squeezed = [re.sub(r"\s*\\$", "", line) for line in after.splitlines()]
                lost = [line for line in before.splitlines() if re.sub(r"\s*\\$", "", line) not in squeezed]
                self.assertEqual(lost, [])

    def test_a_name_that_is_taken_or_no_name_is_refused(self):
        for name in (NAME, "affine", "Affine", "two words", "../up"):
            with self.subTest(name):
                done = subprocess.run([sys.executable, "deploy/dev/new_operator.py", name], cwd=self.copy,
                                      capture_output=True, text=True)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn("dev: ", done.stderr)


if __name__ == "__main__":
    unittest.main()
