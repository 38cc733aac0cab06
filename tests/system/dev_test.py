"""What ./dev makes of a machine that lacks something."""

import os
import pathlib
import subprocess
import unittest

TREE = pathlib.Path(__file__).resolve().parents[2]

JOB_COUNT = """
set -Eeuo pipefail
trap 'echo stopped >&2' ERR
source deploy/dev/setup.sh
source deploy/dev/build.sh
jobs=$(job_count)
printf '%s of %s\\n' "$jobs" "$(nproc)"
"""
# /proc is hidden from the command alone.
HIDE = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs tmpfs /proc && exec "$@"', "sh"]


def run(*command):
    environment = {key: value for key, value in os.environ.items() if key != "PENSTOCK_JOBS"}
    return subprocess.run(command, cwd=TREE, env=environment, capture_output=True, text=True)


class DevTest(unittest.TestCase):
    def test_without_proc_there_is_a_job_for_each_core(self):
        if run(*HIDE, "true").returncode != 0:
            self.skipTest("only root can hide /proc")
        done = run(*HIDE, "bash", "-c", JOB_COUNT)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        jobs, cores = done.stdout.strip().split(" of ")
        self.assertEqual(jobs, cores)

    def test_there_is_a_job_and_no_more_than_one_a_core(self):
        done = run("bash", "-c", JOB_COUNT)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        jobs, cores = map(int, done.stdout.split(" of "))
        self.assertTrue(1 <= jobs <= cores, done.stdout)


if __name__ == "__main__":
    unittest.main()
