"""docs/operating.md leaves nothing out: each exit code, each ERROR and each complaint of the log stands in it."""

import pathlib
import re
import unittest

TREE = pathlib.Path(__file__).resolve().parents[2]
PAGE = (TREE / "docs/operating.md").read_text()
COMPLAINT = re.compile(r'spdlog::(?:warn|error|critical)\(\s*"((?:[^"\\]|\\.)*)"')
LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')


def part(title):
    """What stands between a heading and the next of its kind."""
    found = re.search(rf"^## {re.escape(title)}\n((?:(?!## ).*\n)*)", PAGE, re.MULTILINE)
    if found is None:
        raise AssertionError(f'the page has no part "{title}"')
    return found.group(1)


def rows(title):
    """The rows of a part's tables, as lists of cells."""
    lines = [line for line in part(title).splitlines() if line.startswith("|") and not line.startswith("|---")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def constant_pieces(text):
    """A format string without what is filled in, and without pieces that are mere punctuation."""
    return [piece.strip(" :;,") for piece in re.split(r"\{[^{}]*\}", text) if re.search(r"\w{3}", piece)]


class OperatingDocumentTest(unittest.TestCase):
    def assert_says(self, text, where):
        pieces = constant_pieces(text)
        self.assertTrue(pieces, text)
        for piece in pieces:
            self.assertIn(piece, where)

    def test_each_exit_code_has_a_row_and_no_other(self):
        codes = re.findall(r"^  \w+ = (\d+),", (TREE / "daemon/exit_code.hpp").read_text(), re.MULTILINE)
        told = [row[0] for row in rows("Each exit code") if row[0].isdigit()]
        self.assertEqual(told, codes)

    def test_each_error_status_has_a_row_with_its_code_and_no_other(self):
        statuses = re.findall(r"^  (\w+) = (0x[0-9A-F]{4}),", (TREE / "proto/status.hpp").read_text(), re.MULTILINE)
        errors = [(name.upper(), code) for name, code in statuses if name != "ok"]
        told = [(row[0].strip("`"), row[1]) for row in rows("Each ERROR") if row[0].startswith("`")]
        self.assertEqual(told, errors)

    def test_each_warning_and_error_of_the_log_has_a_row(self):
        where = part("Each warning and error in the log")
        sources = [file for folder in ("daemon", "kernels") for kind in ("*.cpp", "*.hpp", "*.cu")
                   for file in sorted((TREE / folder).rglob(kind))]
        calls = 0
        for file in sources:
            text = file.read_text()
            said = COMPLAINT.findall(text)
            self.assertEqual(len(said), len(re.findall(r"spdlog::(?:warn|error|critical)\(", text)),
                             f"{file.name}: a complaint does not begin with its text")
            calls += len(said)
            for each in said:
                with self.subTest(file=file.name, said=each):
                    self.assert_says(each, where)
        self.assertGreater(calls, 0)

    def test_each_reason_that_a_complaint_fills_in_has_its_words(self):
        where = part("Each warning and error in the log")
        for file, function in (("daemon/security/refusal_log.cpp", "const char* text_of"),
                               ("daemon/admin/watchdog.cpp", "std::string watchdog::complaint")):
            body = (TREE / file).read_text().split(function, 1)[1].split("\n}\n", 1)[0]
            texts = [text for text in LITERAL.findall(body) if text]
            self.assertTrue(texts, file)
            for text in texts:
                with self.subTest(file=file, text=text):
                    self.assert_says(text, where)

    def test_each_heading_that_the_page_points_at_is_there(self):
        headings = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
                    for title in re.findall(r"^#+ (.*)$", PAGE, re.MULTILINE)}
        pointed = set(re.findall(r"\]\(#([^)]+)\)", PAGE))
        self.assertTrue(pointed)
        self.assertLessEqual(pointed, headings)

    def test_each_file_that_the_page_points_at_is_there(self):
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", PAGE):
            with self.subTest(target):
                self.assertTrue((TREE / "docs" / target).exists())


if __name__ == "__main__":
    unittest.main()
