"""penstock bench measures pipelines that keep state too: it opens the sessions that these need."""

import json
import subprocess
import unittest

from daemon_process import BIN, Daemon
from pipeline_text import VERSION, pipeline

MOST_SESSIONS = 4
CONFIGURATION = (VERSION + f"[sessions]\nmax_sessions = {MOST_SESSIONS}\nmax_per_client = {MOST_SESSIONS}\n"
                 + pipeline("smooth", "f32", [64], [("y", "fir", "taps = [0.5, 0.5]\n")], ["y"])
                 + pipeline("double", "f32", [64], [("y", "affine", "a = 2.0\n")], ["y"]))


class BenchSessionsTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon("host", "callback", CONFIGURATION)

    @classmethod
    def tearDownClass(cls):
        cls.daemon.stop()

    def bench(self, *words):
        return subprocess.run([BIN / "penstock", "--url", self.daemon.url, "bench", "--duration", "200ms", "--warmup",
                               "10ms", "--json", self.daemon.path / "figures", *words], capture_output=True, text=True,
                              timeout=60)

    def figures(self, *words):
        done = self.bench(*words)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        found = json.loads((self.daemon.path / "figures").read_text())
        self.assertGreater(found["requests"], 0)
        self.assertEqual(found["errors"], {})
        return found, done.stdout

    def test_a_pipeline_with_state_has_a_session_of_each_client(self):
        for way in ((), ("--rate", "500")):
            with self.subTest(way=way):
                found, said = self.figures("--pipeline", "smooth", "--clients", "2", *way)
                self.assertEqual(found["sessions"], 1)
                self.assertIn('"smooth", 2 clients with 1 session each, 1 frame', said)
        self.assertIn('"smooth", 1 client with 1 session, 1 frame', self.figures("--pipeline", "smooth")[1])

    def test_a_pipeline_without_state_has_none_unless_asked(self):
        found, said = self.figures("--pipeline", "double")
        self.assertEqual(found["sessions"], 0)
        self.assertIn('"double", 1 client, 1 frame', said)
        self.assertEqual(self.figures("--pipeline", "double", "--sessions", "3")[0]["sessions"], 3)

    def test_sessions_are_of_each_client(self):
        self.figures("--pipeline", "smooth", "--clients", "2", "--sessions", str(MOST_SESSIONS // 2))
        done = self.bench("--pipeline", "smooth", "--clients", "2", "--sessions", str(MOST_SESSIONS // 2 + 1))
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("TOO_MANY_SESSIONS", done.stderr)


if __name__ == "__main__":
    unittest.main()
