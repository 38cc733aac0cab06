"""Each operator of the catalogue stands in docs/operators.md and in the manual page with its parameters, and no other.

What the catalogue holds is asked of the daemon, whose complaint of a wrong name lists those that there are.
"""

import pathlib
import re
import subprocess
import tempfile
import unittest

import pipeline_text
from daemon_process import BIN

TREE = pathlib.Path(__file__).resolve().parents[2]
PAGE = (TREE / "docs/operators.md").read_text()
MANUAL = (TREE / "deploy/man/penstock.toml.5").read_text()
UNKNOWN = "unlike_any_name_that_there_is"


def known(operator, more=""):
    """What the daemon says that it knows, of operators or of an operator's keys."""
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(pipeline_text.VERSION + pipeline_text.pipeline("p", "f32", [8], [("s", operator, more)], ["s"]))
        file.flush()
        said = subprocess.run([BIN / "penstockd", "--config", file.name, "--check-config"], capture_output=True,
                              text=True).stderr
    found = re.search(rf"there is no operator '{UNKNOWN}'; known: (.*)|has no such parameter; known: (.*)", said)
    if found is None:
        raise AssertionError(said)
    return (found.group(1) or found.group(2)).split(", ")


def keys_of(operator):
    return set(known(operator, f"{UNKNOWN} = 1\n")) - {"name", "op", "from"}


def section(operator):
    found = re.search(rf"^## {operator}\n((?:(?!## ).*\n)*)", PAGE, re.MULTILINE)
    return found.group(1) if found else ""


def entries():
    """The manual's entries: the operators of each, and its text."""
    part = re.search(r"^\.Sh OPERATORS\n((?:(?!\.Sh ).*\n)*)", MANUAL, re.MULTILINE).group(1)
    for heads, text in re.findall(r"^\.It Cm (.*)\n((?:(?!\.It |\.El).*\n)*)", part, re.MULTILINE):
        yield heads.split(" , "), text


class OperatorsDocumentTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.operators = known(UNKNOWN)

    def test_the_page_has_a_row_and_a_section_for_each_operator_and_no_other(self):
        self.assertEqual(re.findall(r"^\| \[`(\w+)`\]\(#\w+\) \|", PAGE, re.MULTILINE), self.operators)
        self.assertEqual(re.findall(r"^## (\w+)$", PAGE, re.MULTILINE), self.operators)

    def test_each_section_has_a_row_for_each_parameter_and_no_other(self):
        for operator in self.operators:
            with self.subTest(operator):
                table = re.search(r"^\| parameter \|.*\n\|[-|]*\n((?:\|.*\n)*)", section(operator), re.MULTILINE)
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


if __name__ == "__main__":
    unittest.main()
