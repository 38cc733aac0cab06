"""`penstock doctor`, `ping` and `reload`, as commands: the doctor on this machine with the host backend."""

import http.server
import json
import os
import pathlib
import resource
import socket
import subprocess
import tempfile
import threading
import time
import unittest

from daemon_process import BIN, VERSION, Daemon, backends, pipeline

LIMIT = 30.0
CONFIGURATION = VERSION + pipeline("levels", "f32", [256], [("stats", "moments", "")], ["stats"]) + pipeline(
    "spectrum", "cu8", [1024], [("iq", "convert", ""), ("psd", "power_spectrum", "")], ["psd"])


class PingTest(unittest.TestCase):
    """What a health check does."""

    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon("host", "callback", CONFIGURATION)

    @classmethod
    def tearDownClass(cls):
        cls.daemon.stop()

    def test_an_answer_is_one_line_and_exit_code_0(self):
        done = self.daemon.cli("--timeout", "2s", "ping")
        self.assertRegex(done.stdout, r"\Apenstockd \S+ at ipc://\S+: [^\n]*\n\Z")
        self.assertEqual(self.daemon.cli("ping", "--quiet").stdout, "")

    def test_no_answer_is_one_line_and_exit_code_1_in_time(self):
        begin = time.monotonic()
        done = subprocess.run([BIN / "penstock", "--url", f"ipc://{self.daemon.path}/nobody", "--timeout", "500ms", "ping"],
                              capture_output=True, text=True, timeout=LIMIT)
        self.assertLess(time.monotonic() - begin, 5)
        self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (1, "", 1), done.stderr)


class DoctorTest(unittest.TestCase):
    """The real command on this machine, host backend."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="penstock-doctor-")
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name)

    def examine(self, text, prepare=None, listen=None):
        listen = listen or f"ipc://{self.path}/data"
        head = f'[daemon]\nlisten = "{listen}"\n[admin]\nlisten = "unix:{self.path}/admin"\n'
        (self.path / "penstock.toml").write_text(text.replace(VERSION, VERSION + head))
        done = subprocess.run([BIN / "penstock", "--url", listen, "--timeout", "500ms", "doctor", "--json", "--config",
                               self.path / "penstock.toml", "--admin", f"unix:{self.path}/admin"],
                              capture_output=True, text=True, timeout=LIMIT, preexec_fn=prepare)
        said = json.loads(done.stdout)
        self.assertEqual(said["exit_code"], done.returncode)
        return done.returncode, {(each["check"], each["severity"]): each for each in said["findings"]}

    def limited(self, limit, most):
        return lambda: resource.setrlimit(limit, (most, resource.getrlimit(limit)[1]))

    HOST = VERSION + '[device]\nbackend = "host"\n' + CONFIGURATION.replace(VERSION, "")

    def test_a_good_machine_has_no_error(self):
        code, findings = self.examine(self.HOST)
        self.assertIn(code, (0, 1), findings)
        for check in ("configuration", "keys", "device", "device memory", "pinned memory", "locked memory", "open files",
                      "endpoint", "daemon"):
            self.assertIn((check, "good"), findings)

    def test_little_locked_memory_is_a_warning_unless_nothing_is_pinned(self):
        few = self.limited(resource.RLIMIT_MEMLOCK, 65536)
        code, findings = self.examine(self.HOST.replace('"host"', '"auto"'), few)
        if "cuda" in backends():
            self.assertEqual(code, 1)
            self.assertIn("64.0 KiB", findings["locked memory", "warning"]["found"])
        else:
            self.assertIn(("locked memory", "good"), findings)
        self.assertIn(("locked memory", "good"), self.examine(self.HOST, few)[1])

    def test_too_few_open_files_is_a_warning(self):
        # The hard limit: the daemon raises the soft one.
        few = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))
        _, findings = self.examine(self.HOST, few)
        self.assertIn("200", findings["open files", "warning"]["found"])

    def test_a_port_that_something_else_holds_is_an_error(self):
        with socket.create_server(("127.0.0.1", 0)) as other:
            endpoint = f"tcp://127.0.0.1:{other.getsockname()[1]}"
            code, findings = self.examine(self.HOST, listen=endpoint)
        self.assertEqual(code, 2)
        self.assertIn(endpoint, findings["endpoint", "error"]["found"])

    def test_a_wrong_configuration_is_an_error_that_names_the_line(self):
        code, findings = self.examine(self.HOST + "\n[devices]\nslots = 3\n")
        self.assertEqual(code, 2)
        self.assertRegex(findings["configuration", "error"]["found"], r"penstock\.toml:\d+")

    def test_more_pinned_memory_than_there_is_is_an_error(self):
        large = pipeline("levels", "f32", [1048576], [("stats", "affine", "")], ["stats"])
        large = large.replace("[[pipeline.stage]]", 'batch = { max_frames = 4096, max_bytes = "64 GiB" }\n[[pipeline.stage]]', 1)
        text = VERSION + ('[device]\nbackend = "host"\nslots = 4096\n'
                          '[clients]\ncredit_bytes = "1 TiB"\n') + large
        code, findings = self.examine(text)
        self.assertEqual(code, 2)
        self.assertIn("not tried", findings["pinned memory", "error"]["found"])

    def test_a_running_daemon_is_found_and_a_missing_one_only_missed_where_it_should_run(self):
        daemon = Daemon("host", "callback", CONFIGURATION)
        words = [BIN / "penstock", "--timeout", "2s", "doctor", "--running", "--json", "--config",
                 daemon.path / "penstock.toml", "--url", daemon.url, "--admin", daemon.admin]
        said = json.loads(subprocess.run(words, capture_output=True, text=True, timeout=LIMIT).stdout)
        daemon.end()
        gone = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT)
        daemon.folder.cleanup()
        states = {each["check"]: each["severity"] for each in said["findings"]}
        self.assertEqual((states["daemon"], states["admin HTTP"]), ("good", "good"))
        self.assertEqual(gone.returncode, 2)

    def test_affinity_counts_for_the_daemon_and_for_the_doctor(self):
        one = ("taskset", "-c", str(min(os.sched_getaffinity(0))))
        daemon = Daemon("host", "callback", CONFIGURATION, wrapper=one)
        facts = daemon.counters()["status"]["device"]
        said = subprocess.run([*one, BIN / "penstockd", "--doctor", "--format", "json", "--config",
                               daemon.path / "penstock.toml", "--backend", "host"], capture_output=True, text=True,
                              timeout=LIMIT)
        daemon.stop()
        self.assertEqual(facts["detail"], "1 worker thread")
        findings = {each["check"]: each["found"] for each in json.loads(said.stdout)["findings"]}
        self.assertEqual(findings["processors"], "1 processor may be used")
        self.assertIn("1 worker thread", findings["device"])

    def test_url_names_the_daemon_whose_admin_is_asked(self):
        first = Daemon("host", "callback", CONFIGURATION)
        second = Daemon("host", "callback", CONFIGURATION)
        self.addCleanup(first.stop)
        self.addCleanup(second.stop)
        text = (second.path / "penstock.toml").read_text().replace("[1024]", "[512]")
        for each in (first, second):
            (each.path / "penstock.toml").write_text(text)
        self.assertIn("configuration 2", second.cli("reload").stdout)
        self.assertEqual(first.counters()["status"]["configuration"]["version"], 1)
        self.assertIn("spectrum", second.cli("top", "--once", "--interval", "10ms").stdout)
        done = second.cli("doctor", "--json", "--config", second.path / "penstock.toml", check=False)
        findings = {each["check"]: each["found"] for each in json.loads(done.stdout)["findings"]}
        self.assertEqual(findings["admin HTTP"], f"{second.admin} answers")

    def test_url_of_a_daemon_without_admin_is_refused(self):
        daemon = Daemon("host", "callback", CONFIGURATION, admin="none")
        self.addCleanup(daemon.stop)
        for words in (("reload",), ("top", "--once")):
            done = daemon.cli(*words, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn("has no admin HTTP", done.stderr)

    def test_the_text_fits_80_columns(self):
        (self.path / "penstock.toml").write_text("nonsense")
        done = subprocess.run([BIN / "penstockd", "--doctor", "--config", self.path / "penstock.toml"],
                              capture_output=True, text=True, timeout=LIMIT)
        self.assertEqual(done.returncode, 2)
        self.assertIn("ERROR    configuration", done.stdout)
        self.assertLessEqual(max(len(line) for line in done.stdout.splitlines() if str(self.path) not in line), 80)


class Refusing(http.server.BaseHTTPRequestHandler):
    """An admin endpoint whose answer to a reload is given beforehand."""

    def do_POST(self):
        good = self.path == "/api/v1/reload" and self.headers["X-Penstock"] == "1"
        status, body = self.server.answer if good else (403, "")
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


class ReloadTest(unittest.TestCase):
    def reload(self, status, body):
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
            server.answer = status, body
            threading.Thread(target=server.serve_forever, daemon=True).start()
            done = subprocess.run([BIN / "penstock", "reload", "--admin", f"127.0.0.1:{server.server_port}"],
                                  capture_output=True, text=True, timeout=LIMIT)
            server.shutdown()
        return done

    def test_a_reload_prints_the_new_version_and_hash(self):
        done = self.reload(200, json.dumps({"version": 4, "hash": "c0ffee", "changed": True}))
        self.assertEqual((done.returncode, done.stdout), (0, "configuration 4, hash c0ffee\n"))

    def test_a_refused_reload_prints_the_reason_and_what_is_served(self):
        done = self.reload(422, json.dumps({"version": 3, "hash": "beef", "changed": False, "error": "p.toml:3: no"}))
        self.assertEqual(done.returncode, 1)
        self.assertIn("not reloaded: p.toml:3: no", done.stderr)
        self.assertIn("configuration 3, hash beef", done.stderr)

    def test_a_reload_that_a_shard_has_not_taken_is_told_from_a_refused_one(self):
        done = self.reload(422, json.dumps({"version": 4, "hash": "beef", "changed": True, "error": "shard 1 is slow"}))
        self.assertEqual(done.returncode, 1)
        self.assertIn("not reloaded everywhere: shard 1 is slow\nThe daemon goes on with configuration 4, hash beef.\n",
                      done.stderr)

    def test_an_answer_that_is_no_reload_is_a_failure(self):
        for status, body in ((200, ""), (200, "[]"), (500, "trouble\n"), (503, json.dumps({"error": "draining"}))):
            self.assertEqual(self.reload(status, body).returncode, 1, body)


if __name__ == "__main__":
    unittest.main()
