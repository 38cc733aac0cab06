"""docs/pipelines.md is right: its examples are run on the host backend, and what it says comes out does come out.

Each part of the page ("## …") is a test with a folder of its own, through which its blocks go one after the other:

  toml     a configuration; its first line, "# NAME", says the file that it is written to
  cpp      a program; its first line, "// NAME", says the file that it is written to, and the commands build it
  python   a program, run in that folder; what it prints is the text block behind it, or nothing
  text     only behind a python block
  console  commands ("$ …"), each with what it prints; "$ penstockd --config NAME &" starts the daemon that the blocks
           behind it talk to

"..." stands for anything. What the environment can say stands in daemon_process.py.
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
import unittest

from daemon_process import BIN, Daemon

TREE = pathlib.Path(__file__).resolve().parents[2]
PAGE = TREE / "docs" / "pipelines.md"
LIBRARY = pathlib.Path(os.environ.get("PENSTOCK_BUILD", "build/release")).resolve() / "client" / "cpp"
URL = "tcp://127.0.0.1:7600"  # as the page has it
MARKS = {"toml": "#", "cpp": "//"}  # of a comment
START = re.compile(r"penstockd --config (\S+) &")


def missing():
    """Why the page can't be tested here; empty when it can."""
    if not PAGE.exists():
        return f"there is no {PAGE}"
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


def parts_of(page):
    """The parts of the page: (title, blocks)."""
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
        elif line.startswith("## "):
            parts.append((line[3:], []))
    if fence is not None:
        raise ValueError(f"the block of line {fence.line} has no end")
    return [(title, blocks) for title, blocks in parts if blocks]


class Walkthrough:
    """Goes through the blocks of one part as a reader would."""

    def __init__(self, test, folder):
        self.test, self.folder = test, folder
        self.daemon = None
        programs = folder / "programs"
        programs.mkdir()
        # The page speaks of whatever device there is; what it shows is the host's.
        shim = programs / "penstockd"
        shim.write_text(f'#!/bin/sh\nexec "{BIN}/penstockd" --backend host --admin none "$@"\n')
        shim.chmod(0o755)
        # As libpenstock-dev has it, but for the folders.
        (programs / "penstock.pc").write_text(
            f"Name: penstock\nDescription: of this tree\nVersion: 0\nCflags: -I{TREE}/client/cpp/include\n"
            f"Libs: -L{LIBRARY} -Wl,-rpath,{LIBRARY} -lpenstock\n")
        packages = [os.path.abspath(each) for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
        self.environment = {**os.environ, "PATH": f"{programs}:{BIN}:{os.environ['PATH']}",
                            "PYTHONPATH": os.pathsep.join(packages), "PKG_CONFIG_PATH": str(programs)}

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
            elif block.language != "compared":
                self.test.fail(f"line {block.line}: nothing tests a block of {block.language or 'no language'!r}")

    def write(self, block):
        name = re.match(rf"{MARKS[block.language]} (\S+\.{block.language})\n", block.text)
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
            self.compare(block.line, expected, self.run(["sh", "-c", command]).stdout)

    def run(self, command):
        return subprocess.run(command, cwd=self.folder, env=self.environment, timeout=120, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def start(self, configuration):
        self.stop()
        files = {path.name: path.read_bytes() for path in self.folder.iterdir() if path.is_file()}
        self.daemon = Daemon("host", "callback", files.pop(configuration).decode(), files)
        self.environment["PENSTOCK_URL"] = self.daemon.url

    def stop(self):
        if self.daemon is not None:
            daemon, self.daemon = self.daemon, None
            code, log = daemon.stop()
            self.test.assertEqual(code, 0, log)

    def compare(self, line, expected, got):
        if not doctest.OutputChecker().check_output(expected, got, doctest.ELLIPSIS):
            self.test.fail(f"line {line} of {PAGE.name} says\n{expected}\nand this came out:\n{got}")


class PipelinesDocumentTest(unittest.TestCase):
    """A test for each part of the page that has blocks."""


def test_of(blocks):
    def test(self):
        with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
            walkthrough = Walkthrough(self, pathlib.Path(folder))
            try:
                walkthrough.go(blocks)
            finally:
                walkthrough.stop()
    return test


if missing():
    PipelinesDocumentTest.test_page = unittest.skip(missing())(lambda self: None)
else:
    for title, blocks in parts_of(PAGE.read_text()):
        name = "test_" + re.sub(r"\W+", "_", title.lower()).strip("_")
        reason = missing_for(blocks)
        setattr(PipelinesDocumentTest, name, unittest.skipIf(reason, reason)(test_of(blocks)))


if __name__ == "__main__":
    unittest.main()
