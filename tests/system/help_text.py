"""What the programs say of themselves with --help, for the tests of pages and completions that repeat it."""

import re
import subprocess

from daemon_process import BIN


def help_of(*words):
    return subprocess.run([BIN / words[0], *words[1:], "--help"], capture_output=True, text=True, check=True).stdout


def options_of(*words):
    """The options of a program, or of its command: sets of names, such as {"-n", "--count"}."""
    text = re.search(r"^Options:\n((?:  .*\n)*)", help_of(*words), re.MULTILINE).group(1)
    return [set(line.split()[0].split(",")) for line in text.splitlines() if line.startswith("  -")]


def commands_of(program):
    text = re.search(r"^Subcommands:\n((?:  .*\n)*)", help_of(program), re.MULTILINE).group(1)
    return [line.split()[0] for line in text.splitlines() if re.match(r"  \S", line)]
