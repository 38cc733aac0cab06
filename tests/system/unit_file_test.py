"""The unit as it lies in the tree, without a machine that runs it."""

import pathlib
import shutil
import subprocess
import unittest

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "deploy/systemd"
UNIT = FOLDER / "penstockd.service"
WORST_EXPOSURE = 20  # tenths


@unittest.skipUnless(shutil.which("systemd-analyze"), "systemd-analyze is not installed")
class UnitFileTest(unittest.TestCase):
    def test_the_exposure_is_at_most_two(self):
        done = subprocess.run(
            ["systemd-analyze", "security", "--offline=true", "--no-pager", f"--threshold={WORST_EXPOSURE}", UNIT],
            capture_output=True, text=True)
        self.assertIn("Overall exposure level", done.stdout, done.stderr)
        self.assertEqual(done.returncode, 0, done.stdout)


class TemplateTest(unittest.TestCase):
    """penstockd@.service, for a second daemon beside the first."""

    NAMED = {"Description=Penstock, live data on a GPU": " (%i)", "EnvironmentFile=-/etc/default/penstock": "-%i",
             "Environment=CUDA_CACHE_PATH=%C/penstock": "/%i", "RuntimeDirectory=penstock": "-%i",
             "CacheDirectory=penstock": "/%i"}

    @staticmethod
    def settings(unit):
        return [line for line in unit.read_text().splitlines() if not line.startswith("#")]

    def test_it_is_the_service_but_for_the_name_of_the_instance(self):
        expected = [(line + self.NAMED.get(line, "")).replace("/penstock.toml", "/%i.toml")
                    for line in self.settings(UNIT)]
        self.assertEqual(self.settings(FOLDER / "penstockd@.service"), expected)


if __name__ == "__main__":
    unittest.main()
