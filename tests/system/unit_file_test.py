"""The unit as it lies in the tree, without a machine that runs it."""

import pathlib
import shutil
import subprocess
import unittest

UNIT = pathlib.Path(__file__).resolve().parents[2] / "deploy/systemd/penstockd.service"
WORST_EXPOSURE = 20  # tenths


@unittest.skipUnless(shutil.which("systemd-analyze"), "systemd-analyze is not installed")
class UnitFileTest(unittest.TestCase):
    def test_the_exposure_is_at_most_two(self):
        done = subprocess.run(
            ["systemd-analyze", "security", "--offline=true", "--no-pager", f"--threshold={WORST_EXPOSURE}", UNIT],
            capture_output=True, text=True)
        self.assertIn("Overall exposure level", done.stdout, done.stderr)
        self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    unittest.main()
