"""Examples in the pages for users run on the host backend and print what the pages say.

Each part ("## …") of a page in docs/ is a test with a folder of its own, through which its blocks go one after the
other; so is each question ("### …") of "How do I …" in docs/operators.md. The README is one test, in the tree as a reader
has it:

  toml     a configuration; its first line, "# NAME", says the file that it is written to
  cuda     a kernel, compiled by stages_document_test; its first line, "// NAME", says the file that it is written to
  cpp      a program; its first line, "// NAME", says the file that it is written to, and the commands build it
  python   a program, run in that folder; what it prints is the text block behind it, or nothing
  text     only behind a python block
  console  commands ("$ …"), each with what it prints; "$ penstockd --config NAME &" starts the daemon that the blocks
           behind it talk to
  sh       only in the README: commands that need another machine or another user; TESTED_ELSEWHERE says by whom
  none     a picture

"..." stands for anything. In place of devices there are programs that write the same bytes (stand_ins). What the environment can say stands in daemon_process.py.
"""

import doctest
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest

from daemon_process import BIN, Daemon

TREE = pathlib.Path(__file__).resolve().parents[2]
README = TREE / "README.md"
SHIPPED = next((path for path in (TREE / "deploy/config/penstock.toml", TREE / "etc/penstock.toml") if path.exists()),
               TREE / "deploy/config/penstock.toml")  # in a bundle it stands elsewhere
PAGES = [TREE / "docs" / f"{name}.md" for name in ("pipelines", "channels", "recipes")]
OPERATORS = TREE / "docs/operators.md"
QUESTIONS = "\n## How do I …\n"  # its last part, and the only one whose blocks are whole configurations
LIBRARY = pathlib.Path(os.environ.get("PENSTOCK_BUILD", "build/release")).resolve() / "client" / "cpp"
URL = "tcp://127.0.0.1:7600"  # as the page has it
MARKS = {"toml": "#", "c": "//", "cpp": "//", "cuda": "//"}  # of a comment
START = re.compile(r"(?:\S*/)?penstockd --config (\S+) &")
MODEL_PART = "A model of your own"  # of the README; models_document_test has what it needs
STOP = "kill %1"  # what was started first in this shell

# Who runs the commands that the README has in a block of "sh", by how they begin.
TESTED_ELSEWHERE = {"./dev demo": "the CI, in a bare root", "./dev test": "the CI", "sudo apt install": "packages_test",
                    "docker build": "docker_test", "docker run": "docker_test", "docker compose": "compose_test"}

# Devices, by the program that reads them: each writes what the device's own would, and ends.
STAND_INS = {
    "arecord": """
        assert sys.argv[1:] == "-q -t raw -f S16_LE -r 48000 -c 1".split(), sys.argv
        samples = [round(16000 * math.sin(2 * math.pi * 440 * n / 48000)) for n in range(96000)]
        write(struct.pack(f"<{len(samples)}h", *samples))
    """,
    "rtl_sdr": """
        assert sys.argv[-1] == "-" and "-s" in sys.argv, sys.argv
        one = [round(127.5 + 100 * part(math.pi / 2 * n)) for n in range(1024) for part in (math.cos, math.sin)]
        write(bytes(one) * 400)                     # a carrier a quarter of the sample rate above the middle
    """,
    "iio_readdev": """
        assert sys.argv[-3:] == ["accel_x", "accel_y", "accel_z"], sys.argv
        noise = random.Random(1)
        for n in range(20 * 256):
            knock = 9000 if n == 11 * 256 + 184 else 0
            write(struct.pack("<3h", *(round(noise.gauss(mean, 100)) + more
                                       for mean, more in ((0, 0), (50, 0), (4000, knock)))))
    """,
}
STAND_IN = """#!{python}
import math, random, struct, sys
write = sys.stdout.buffer.write
{body}"""


def missing():
    """Why no page can be tested here; empty when they can."""
    for module in ("numpy", "zmq"):
        if importlib.util.find_spec(module) is None:
            return f"{module} is not installed"
    return ""


def missing_for(blocks):
    """Why this part of the page can't be tested here; empty when it can."""
    if not any(block.language == "cpp" for block in blocks):
        return ""
    if not (LIBRARY / "libpenstock.so").exists():
        return f"there is no libpenstock.so in {LIBRARY}"
    absent = [program for program in ("c++", "pkg-config") if shutil.which(program) is None]
    return f"not installed: {', '.join(absent)}" if absent else ""


class Block:
    """One fenced block of the page."""

    def __init__(self, language, line, text):
        self.language, self.line, self.text = language, line, text


def parts_of(page, heading="## "):
    """The parts of the page, each behind such a heading: (title, blocks)."""
    parts, fence = [("", [])], None
    for number, line in enumerate(page.splitlines(), 1):
        if fence is not None:
            if line == "```":
                parts[-1][1].append(fence)
                fence = None
            else:
                fence.text += line + "\n"
        elif line.startswith("```"):
            fence = Block(line[3:], number, "")
        elif line.startswith(heading):
            parts.append((line[len(heading):], []))
    if fence is not None:
        raise ValueError(f"the block of line {fence.line} has no end")
    return [(title, blocks) for title, blocks in parts if blocks]


class Walkthrough:
    """Goes through the blocks of one part of a page as a reader would."""

    def __init__(self, test, folder, page):
        self.test, self.folder, self.page = test, folder, page
        self.daemon = None
        programs = folder / "programs"
        programs.mkdir()
        # The page speaks of whatever device there is; what it shows is the host's.
        shim = programs / "penstockd"
        shim.write_text(f'#!/bin/sh\nexec "{BIN}/penstockd" --backend host --admin none "$@"\n')
        shim.chmod(0o755)
        for name, body in STAND_INS.items():
            (programs / name).write_text(STAND_IN.format(python=sys.executable, body=textwrap.dedent(body)))
            (programs / name).chmod(0o755)
        if page == README:
            self.be_the_tree(programs)
        elif page.stem == "recipes":
            shutil.copy(SHIPPED, folder)
        # As libpenstock-dev has it, but for the folders.
        (programs / "penstock.pc").write_text(
            f"Name: penstock\nDescription: of this tree\nVersion: 0\nCflags: -I{TREE}/client/cpp/include\n"
            f"Libs: -L{LIBRARY} -Wl,-rpath,{LIBRARY} -lpenstock\n")
        packages = [os.path.abspath(each) for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
        self.environment = {**os.environ, "PATH": f"{programs}:{BIN}:{os.environ['PATH']}",
                            "PYTHONPATH": os.pathsep.join(packages), "PKG_CONFIG_PATH": str(programs)}

    def be_the_tree(self, programs):
        """The folder looks as the tree does after a build."""
        (self.folder / "deploy").symlink_to(TREE / "deploy")
        (self.folder / "build" / "release").mkdir(parents=True)
        (programs / "penstock").symlink_to(BIN / "penstock")
        (self.folder / "build" / "release" / "bin").symlink_to(programs)

    def go(self, blocks):
        behind = [*blocks[1:], Block("", 0, "")]
        for block, following in zip(blocks, behind):
            if block.language in MARKS:
                self.write(block)
            elif block.language == "python":
                self.run_program(block, following.text if following.language == "text" else "")
                if following.language == "text":
                    following.language = "compared"
            elif block.language == "console":
                self.run_commands(block)
            elif block.language == "sh" and self.page == README:
                for command in block.text.splitlines():
                    self.test.assertTrue(command.startswith(tuple(TESTED_ELSEWHERE)),
                                         f"line {block.line}: nothing tests {command!r}")
            elif block.language != "compared" and (block.language or self.page != README):
                self.test.fail(f"line {block.line}: nothing tests a block of {block.language or 'no language'!r}")

    def write(self, block):
        name = re.match(rf"{MARKS[block.language]} (\S+\.(?:toml|c|cpp|cuh?))\n", block.text)
        self.test.assertIsNotNone(name, f"line {block.line}: what is written to a file begins with its name")
        (self.folder / name[1]).write_text(self.addressed(block.text))

    def run_program(self, block, expected):
        done = self.run([sys.executable, "-c", self.addressed(block.text)])
        self.compare(block.line, expected, done.stdout)
        self.test.assertEqual(done.returncode, 0, f"line {block.line}")

    def addressed(self, text):
        """The text, with the address of the daemon that is running."""
        return text.replace(URL, self.daemon.url) if self.daemon else text

    def run_commands(self, block):
        for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block.text, re.MULTILINE):
            start = START.fullmatch(command)
            if start:
                self.start(start[1])
                continue
            if command == STOP:
                self.stop()
                continue
            self.compare(block.line, expected, self.run(["sh", "-c", command]).stdout)

    def run(self, command):
        return subprocess.run(command, cwd=self.folder, env=self.environment, timeout=120, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def start(self, configuration):
        self.stop()
        files = {path.name: path.read_bytes() for path in self.folder.iterdir() if path.is_file()}
        files = {name: content for name, content in files.items() if name not in (configuration, SHIPPED.name)}
        self.daemon = Daemon("host", "callback", (self.folder / configuration).read_text(), files)
        self.environment["PENSTOCK_URL"] = self.daemon.url

    def stop(self):
        if self.daemon is not None:
            daemon, self.daemon = self.daemon, None
            code, log = daemon.stop()
            self.test.assertEqual(code, 0, log)

    def compare(self, line, expected, got):
        if not doctest.OutputChecker().check_output(expected, got, doctest.ELLIPSIS):
            self.test.fail(f"line {line} of {self.page.name} says\n{expected}\nand this came out:\n{got}")


class PipelinesDocumentTest(unittest.TestCase):
    """A test for each part of a page that has blocks, and one for the README."""


def test_of(page, blocks):
    def test(self):
        with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
            walkthrough = Walkthrough(self, pathlib.Path(folder), page)
            try:
                walkthrough.go(blocks)
            finally:
                walkthrough.stop()
    return test


def add_test(page, title, blocks):
    name = "test_" + re.sub(r"\W+", "_", f"{page.stem} {title}".lower()).strip("_")
    reason = missing() or missing_for(blocks)
    setattr(PipelinesDocumentTest, name, unittest.skipIf(reason, reason)(test_of(page, blocks)))


for each in PAGES:
    for part, its_blocks in parts_of(each.read_text()) if each.exists() else []:
        add_test(each, part, its_blocks)
if OPERATORS.exists():
    for part, its_blocks in parts_of(OPERATORS.read_text().partition(QUESTIONS)[2], "### "):
        add_test(OPERATORS, part, its_blocks)
if README.exists():
    add_test(README, "", [block for part, its_blocks in parts_of(README.read_text()) if part != MODEL_PART
                          for block in its_blocks])


if __name__ == "__main__":
    unittest.main()
