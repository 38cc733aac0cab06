"""The completions for bash, zsh and fish offer the options that the programs have."""

import os
import pathlib
import re
import shutil
import subprocess
import unittest

from daemon_process import BIN, VERSION, Daemon, commands_of, options_of, pipeline

TREE = pathlib.Path(__file__).resolve().parents[2]
FOLDER = TREE / "deploy/completions"

# Puts words on a line as if somebody had typed them, and prints what the tab key would offer for the last.
TYPE = """
source "$1"
program=$2
shift 2
COMP_WORDS=("$program" "$@") COMP_CWORD=$# COMP_LINE="$program $*"
"_${program##*/}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


def offered(program, *words, folder=None):
    """What bash offers for the last of the words."""
    done = subprocess.run(["bash", "-c", TYPE, "bash", FOLDER / f"{program}.bash", program, *words],
                          capture_output=True, text=True, check=True, cwd=folder,
                          env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"})
    return set(done.stdout.split())


def long_options(*words):
    return {name for option in options_of(*words) for name in option if name.startswith("--")}


def configuration(*names):
    return VERSION + "".join(pipeline(name, "f32", [8], [("stats", "moments", "")], ["stats"]) for name in names)


class BashTest(unittest.TestCase):

    def test_each_option_of_the_daemon_is_offered(self):
        self.assertEqual(offered("penstockd", "--"), long_options("penstockd"))

    def test_each_command_is_offered(self):
        self.assertEqual({word for word in offered("penstock", "") if not word.startswith("-")},
                         set(commands_of("penstock")))

    def test_each_option_of_each_command_is_offered_and_no_other(self):
        common = long_options("penstock") - {"--version"}
        for command in commands_of("penstock"):
            with self.subTest(command):
                self.assertEqual(offered("penstock", command, "--"), common | long_options("penstock", command))

    def test_options_before_a_command_do_not_hide_it(self):
        self.assertIn("--count", offered("penstock", "--url", "ipc:///somewhere", "--timeout", "1s", "ping", "--c"))

    def test_pipelines_are_those_of_the_daemon_on_the_line(self):
        daemon = Daemon("host", "callback", configuration("radio", "radar", "voice"))
        self.addCleanup(daemon.stop)
        self.assertEqual(offered("penstock", "--url", daemon.url, "send", "-p", "ra"), {"radio", "radar"})
        self.assertEqual(offered("penstock", "bench", "--url", daemon.url, "--pipeline", ""),
                         {"radio", "radar", "voice"})
        self.assertEqual(offered("penstockd", "--config", daemon.path / "penstock.toml", "--print-plan", "v"),
                         {"voice"})

    def test_a_daemon_that_is_not_there_offers_nothing(self):
        self.assertEqual(offered("penstock", "--url", "ipc:///nonexistent/data", "send", "-p", ""), set())

    def test_choices_of_an_option_are_offered(self):
        self.assertEqual(offered("penstockd", "--backend", ""), {"auto", "cuda", "host"})
        self.assertEqual(offered("penstock", "send", "--format", "r"), {"raw"})

    def test_files_are_offered_for_a_recording(self):
        self.assertIn("completions_test.py", offered("penstock", "send", "comp", folder=TREE / "tests/system"))


class OtherShellsTest(unittest.TestCase):

    def test_zsh_knows_each_option(self):
        self.check_options("_penstock", "_penstockd", r"--[a-z][a-z-]*")

    def test_fish_knows_each_option(self):
        self.check_options("penstock.fish", "penstockd.fish", r"(?<= -l )[a-z-]+")

    def check_options(self, client, daemon, pattern):
        def named(file):
            return {"--" + name.lstrip("-") for name in re.findall(pattern, (FOLDER / file).read_text())}

        wanted = set().union(long_options("penstock"), *(long_options("penstock", each)
                                                         for each in commands_of("penstock")))
        self.assertLessEqual(wanted, named(client))
        self.assertLessEqual(long_options("penstockd"), named(daemon))
        for command in commands_of("penstock"):
            self.assertRegex((FOLDER / client).read_text(), rf"\b{command}\b")

    def test_zsh_and_fish_can_read_their_files(self):
        for shell, pattern in (("zsh", "_*"), ("fish", "*.fish")):
            with self.subTest(shell):
                if shutil.which(shell) is None:
                    self.skipTest(f"{shell} is not installed")
                for file in FOLDER.glob(pattern):
                    done = subprocess.run([shell, "-n", file], capture_output=True, text=True)
                    self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()
