"""Manual pages and tables of the documents list exactly the options, settings, operators and codes of the programs."""

import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from daemon_process import BIN, VERSION, commands_of, options_of, pipeline

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


def settings_manual():
    """The part of penstock.toml(5) about settings, as the daemon prints it."""
    return subprocess.run([BIN / "penstockd", "--print-settings", "--format", "man"], capture_output=True, text=True,
                          check=True).stdout


def complaints(file):
    said = ""
    if shutil.which("mandoc"):
        said += subprocess.run(["mandoc", "-Tlint", "-Wwarning", file], capture_output=True, text=True).stdout
    if shutil.which("groff"):
        said += subprocess.run(["groff", "-mandoc", "-ww", "-z", "-Tutf8", file], capture_output=True, text=True).stderr
    elif not shutil.which("mandoc"):
        raise unittest.SkipTest("neither mandoc nor groff is installed")
    return said


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

    def test_the_settings_are_those_of_the_daemon(self):
        text = page("penstock.toml.5")
        self.assertIn(settings_manual(), text, "copy in what penstockd --print-settings --format man prints")
        self.assertIn("config_version", keys_in(section(text, "Sh", "DESCRIPTION")))

    def test_each_exit_code_of_the_daemon_is_in_its_page(self):
        codes = re.findall(r"^  \w+ = (\d+),", (TREE / "base/exit_code.hpp").read_text(), re.MULTILINE)
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


OPERATORS = (TREE / "docs/operators.md").read_text()
MANUAL = (TREE / "deploy/man/penstock.toml.5").read_text()
UNKNOWN = "unlike_any_name_that_there_is"


def known(operator, more=""):
    """What the daemon says that it knows, of operators or of an operator's keys."""
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(VERSION + pipeline("p", "f32", [8], [("s", operator, more)], ["s"]))
        file.flush()
        said = subprocess.run([BIN / "penstockd", "--config", file.name, "--check-config"], capture_output=True,
                              text=True).stderr
    found = re.search(rf"there is no operator '{UNKNOWN}'; known: (.*)|has no such parameter; known: (.*)", said)
    if found is None:
        raise AssertionError(said)
    return (found.group(1) or found.group(2)).split(", ")


def keys_of(operator):
    return set(known(operator, f"{UNKNOWN} = 1\n")) - {"name", "op", "from", "tunable"}


def section_of(operator):
    found = re.search(rf"^## {operator}\n((?:(?!## ).*\n)*)", OPERATORS, re.MULTILINE)
    return found.group(1) if found else ""


def entries():
    """The manual's entries: the operators of each, and its text."""
    part = re.search(r"^\.Sh OPERATORS\n((?:(?!\.Sh ).*\n)*)", MANUAL, re.MULTILINE).group(1)
    for heads, text in re.findall(r"^\.It Cm (.*)\n((?:(?!\.It |\.El).*\n)*)", part, re.MULTILINE):
        yield heads.split(" , "), text


class OperatorsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.operators = known(UNKNOWN)

    def test_the_page_has_a_row_and_a_section_for_each_operator_and_no_other(self):
        self.assertEqual(re.findall(r"^\| \[`(\w+)`\]\(#\w+\) \|", OPERATORS, re.MULTILINE), self.operators)
        self.assertEqual(re.findall(r"^## (\w+)$", OPERATORS, re.MULTILINE), self.operators)

    def test_each_section_has_a_row_for_each_parameter_and_no_other(self):
        for operator in self.operators:
            with self.subTest(operator):
                table = re.search(r"^\| parameter \|.*\n\|[-|]*\n((?:\|.*\n)*)", section_of(operator), re.MULTILINE)
                rows = re.findall(r"^\| (.*?) \|", table.group(1), re.MULTILINE) if table else []
                told = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
                self.assertEqual(told, keys_of(operator))

    def test_the_manual_has_an_entry_for_each_operator_and_no_other(self):
        self.assertEqual(sorted(name for heads, _ in entries() for name in heads), self.operators)

    def test_each_entry_of_the_manual_names_each_parameter_and_no_other(self):
        for heads, text in entries():
            with self.subTest(heads):
                told = {word for line in re.findall(r"^\.Ic (.*)", text, re.MULTILINE)
                        for word in re.findall(r"\w+", line)}
                self.assertEqual(told, set().union(*map(keys_of, heads)))


def rows(title):
    """The rows of the tables in a part of docs/operating.md, as lists of cells."""
    page = (TREE / "docs/operating.md").read_text()
    part = re.search(rf"^## {re.escape(title)}\n((?:(?!## ).*\n)*)", page, re.MULTILINE).group(1)
    lines = [line for line in part.splitlines() if line.startswith("|") and not line.startswith("|---")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


class OperatingTest(unittest.TestCase):
    def test_each_exit_code_has_a_row_and_no_other(self):
        codes = re.findall(r"^  \w+ = (\d+),", (TREE / "base/exit_code.hpp").read_text(), re.MULTILINE)
        told = [row[0] for row in rows("Each exit code") if row[0].isdigit()]
        self.assertEqual(told, codes)

    def test_each_error_status_has_a_row_with_its_code_and_no_other(self):
        statuses = re.findall(r"^  (\w+) = (0x[0-9A-F]{4}),", (TREE / "proto/status.hpp").read_text(), re.MULTILINE)
        errors = [(name.upper(), code) for name, code in statuses if name != "ok"]
        told = [(row[0].strip("`"), row[1]) for row in rows("Each ERROR") if row[0].startswith("`")]
        self.assertEqual(told, errors)

    def test_what_a_reload_can_change_is_what_the_settings_say(self):
        page = (TREE / "docs/operating.md").read_text()
        told = re.search(r"^\| a reload can change \|.*\n((?:\|.*\n)*)", page, re.MULTILINE).group(1)
        for table, entries_of_table in re.findall(r"^\.Ss \[(\w+)\]\n((?:(?!\.Ss).*\n)*)", settings_manual(), re.MULTILINE):
            for key, entry in re.findall(r"^\.It Ic (\w+)\n((?:(?!\.It|\.El).*\n)*)", entries_of_table, re.MULTILINE):
                with self.subTest(table=table, key=key):
                    changes = "a reload changes it" in entry
                    self.assertEqual(f"`{table}.{key}`" in told or f"`[{table}]`" in told, changes)


if __name__ == "__main__":
    unittest.main()
