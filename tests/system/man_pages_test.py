"""The manual pages say what the programs say, and nothing else."""

import pathlib
import re
import shutil
import subprocess
import unittest

from daemon_process import BIN
from help_text import commands_of, options_of

TREE = pathlib.Path(__file__).resolve().parents[2]
PAGES = TREE / "deploy/man"


def page(name):
    return (PAGES / name).read_text()


def section(text, kind, start):
    """What stands between a heading and the next of its kind or above."""
    found = re.search(rf"^\.{kind} {re.escape(start)}(?: .*)?\n((?:(?!\.S[hs] ).*\n)*)", text, re.MULTILINE)
    if found is None:
        raise AssertionError(f"the page has no part \"{start}\"")
    return found.group(1)


def flags_in(text):
    """The options that have an entry of their own in a part of a page."""
    flags = set()
    for line in re.findall(r"^\.It (Fl .*)", text, re.MULTILINE):
        words = line.split()[1:]
        while words and not re.fullmatch(r"[A-Z][a-z]", words[0]):
            flags.add("-" + words.pop(0))
    return flags - {"-,"}


def keys_in(text):
    return {word.rstrip(",") for line in re.findall(r"^\.(?:It )?Ic (.*)", text, re.MULTILINE)
            for word in line.split() if re.fullmatch(r"[a-z_]+,?", word)}


def printed_configuration():
    """(table, key) of everything that the daemon prints of the configuration that is installed."""
    file = TREE / "deploy/config/penstock.toml"
    text = subprocess.run([BIN / "penstockd", "--config", file, "--print-config"], capture_output=True, text=True,
                          check=True).stdout
    table, keys = "", set()
    for line in text.splitlines():
        if line.startswith("["):
            table = line
        elif line:
            keys.add((table, line.split()[0]))
    return keys


class ManPagesTest(unittest.TestCase):

    def test_each_option_of_the_daemon_has_an_entry_and_no_other(self):
        self.assertEqual(flags_in(page("penstockd.8")), set().union(*options_of("penstockd")))

    def test_each_option_of_each_command_has_an_entry_and_no_other(self):
        text = page("penstock.1")
        common = flags_in(section(text, "Sh", "DESCRIPTION"))
        self.assertEqual(common, set().union(*options_of("penstock")))
        for command in commands_of("penstock"):
            with self.subTest(command):
                options = set().union(*options_of("penstock", command)) - common
                self.assertEqual(flags_in(section(text, "Ss", command)), options)

    def test_each_key_of_the_configuration_has_an_entry_in_its_table(self):
        text = page("penstock.toml.5")
        for table, key in sorted(printed_configuration()):
            with self.subTest(table=table, key=key):
                if not table:
                    part = section(text, "Sh", "DESCRIPTION")
                elif table == "[[pipeline.stage]]" and key not in ("name", "op", "from"):
                    part = section(text, "Sh", "OPERATORS")
                else:
                    part = section(text, "Ss", table)
                self.assertIn(key, keys_in(part))

    def test_each_parameter_of_an_operator_is_in_the_page(self):
        known = keys_in(section(page("penstock.toml.5"), "Sh", "OPERATORS"))
        tables = re.findall(r"^\| parameter \|.*\n\|[-|]*\n((?:\|.*\n)*)", (TREE / "docs/operators.md").read_text(),
                            re.MULTILINE)
        parameters = {name for table in tables for name in re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)}
        self.assertTrue(parameters)
        self.assertLessEqual(parameters, known)

    def test_each_exit_code_of_the_daemon_is_in_its_page(self):
        codes = re.findall(r"^  \w+ = (\d+),", (TREE / "daemon/exit_code.hpp").read_text(), re.MULTILINE)
        part = section(page("penstockd.8"), "Sh", "EXIT STATUS")
        self.assertEqual(codes, re.findall(r"^\.It (\d+)$", part, re.MULTILINE))

    def test_each_variable_of_penstock_is_in_a_page(self):
        sources = [file.read_text() for folder in ("daemon", "kernels", "client/cli")
                   for file in (TREE / folder).rglob("*.cpp")]
        read = {name for text in sources for name in re.findall(r'"(PENSTOCK_[A-Z_]+)"', text)}
        pages = "".join(file.read_text() for file in PAGES.iterdir())
        self.assertTrue(read)
        self.assertLessEqual(read, set(re.findall(r"^\.It Ev (PENSTOCK_\w+)", pages, re.MULTILINE)))

    def test_the_formatter_has_nothing_to_complain_of(self):
        for file in sorted(PAGES.iterdir()):
            with self.subTest(file.name):
                self.assertEqual(complaints(file), "")


def complaints(file):
    said = ""
    if shutil.which("mandoc"):
        said += subprocess.run(["mandoc", "-Tlint", "-Wwarning", file], capture_output=True, text=True).stdout
    if shutil.which("groff"):
        said += subprocess.run(["groff", "-mandoc", "-ww", "-z", "-Tutf8", file], capture_output=True, text=True).stderr
    elif not shutil.which("mandoc"):
        raise unittest.SkipTest("neither mandoc nor groff is installed")
    return said


if __name__ == "__main__":
    unittest.main()
