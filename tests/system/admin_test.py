"""The admin endpoint of the real daemon: health, metrics, status and timeline while it serves and while it drains."""

import concurrent.futures
import http.client
import json
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import unittest

from daemon_process import BIN, VERSION, Daemon, pipeline, wait_until

TOP = pathlib.Path(__file__).resolve().parents[2]
ALERTS = TOP / "deploy/prometheus/alerts.yml"
PAGE = TOP / "docs/admin-http.md"
SLOW_TAPS = [1.0] * 2048
CONFIGURATION = (VERSION.replace("config_version = 1\n", 'config_version = 1\n[daemon]\ndrain_timeout = "60s"\n')
                 + pipeline("quick", "f32", [1024], [("y", "affine", "a = 2.0\n")], ["y"])
                 + pipeline("slow", "f32", [65536], [("y", "correlate", f'mode = "same"\nmethod = "direct"\n'
                                                      f"template = {SLOW_TAPS}\n")], ["y"],
                            "batch = { max_frames = 1 }\n"))


class Admin:
    """The admin endpoint of a daemon, where its log says that it listens."""

    def __init__(self, log):
        found = re.search(r"ready: .*admin on http://([0-9.]+):(\d+)", log.read_text())
        self.address = found.group(1), int(found.group(2))

    def ask(self, path, method="GET", **headers):
        """The status and the body."""
        connection = http.client.HTTPConnection(*self.address, timeout=30)
        try:
            connection.request(method, path, headers={key.replace("_", "-"): value for key, value in headers.items()})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def get(self, path):
        status, body = self.ask(path)
        assert status == 200, (path, status, body)
        return body

    def counts(self, name):
        """The values of a metric, by its labels."""
        return {tuple(sorted(re.findall(r'(\w+)="([^"]*)"', labels or ""))): float(value)
                for labels, value in re.findall(rf"^{name}(?:{{(.*)}})? (\S+)$", self.get("/metrics"), re.MULTILINE)}


class AdminTest(unittest.TestCase):
    def setUp(self):
        self.daemon = Daemon("host", "callback", CONFIGURATION, admin="127.0.0.1:0")
        self.addCleanup(self.end)
        self.admin = Admin(self.daemon.log)

    def end(self):
        if self.daemon.process.poll() is not None:
            self.daemon.folder.cleanup()
            return
        code, log = self.daemon.stop()
        self.assertEqual(code, 0, log)

    def load(self, seconds):
        """Begins to send to "quick" for so long."""
        sender = subprocess.Popen([BIN / "penstock", "--url", self.daemon.url, "bench", "-p", "quick", "--duration",
                                   f"{seconds}s", "--warmup", "10ms"], stdout=subprocess.DEVNULL)
        self.addCleanup(sender.wait, 60)
        return sender

    def test_is_alive_and_ready_while_it_serves(self):
        self.admin.get("/livez")
        ready = json.loads(self.admin.get("/readyz"))
        self.assertTrue(ready["ready"], ready)
        self.assertEqual(self.admin.ask("/nothing")[0], 404)
        self.assertEqual(self.admin.ask("/metrics", "POST", X_Penstock="1")[0], 405)
        self.assertEqual(self.admin.ask("/api/v1/reload", "POST")[0], 403)
        self.assertEqual(self.admin.ask("/metrics", Host="evil.example")[0], 421)

    def test_is_not_ready_while_it_drains_and_alive_until_its_end(self):
        import numpy
        import penstock
        with penstock.Client(self.daemon.url) as client:
            asked = [client.submit("slow", numpy.ones(65536, numpy.float32), timeout=None) for _ in range(60)]
            asked[0].result(60)
            self.daemon.process.send_signal(signal.SIGTERM)
            _, body = wait_until(lambda: (answer := self.admin.ask("/readyz"))[0] == 503 and answer, "not ready")
            failing = [each for each in json.loads(body)["checks"] if not each["passed"]]
            self.assertEqual([each["name"] for each in failing], ["not draining"], body)
            self.assertEqual(self.admin.ask("/livez")[0], 200)
            self.assertEqual(self.admin.counts("penstock_draining"), {(): 1})
            self.assertEqual(self.admin.ask("/api/v1/reload", "POST", X_Penstock="1")[0], 503)
            concurrent.futures.wait(asked, 60)
        self.assertEqual(self.daemon.process.wait(60), 0)
        with self.assertRaises(ConnectionRefusedError):
            self.admin.ask("/livez")

    def test_metrics_count_what_the_status_counts_and_please_promtool(self):
        sender = self.load(2)
        wait_until(lambda: self.admin.counts("penstock_requests_total")[("outcome", "result"), ("pipeline", "quick")],
                   "results")
        if shutil.which("promtool") is None:
            self.skipTest("promtool is missing (Debian: prometheus)")
        page = self.admin.get("/metrics")
        checked = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True, text=True)
        self.assertEqual((checked.returncode, checked.stdout, checked.stderr), (0, "", ""))
        self.assertEqual(sender.wait(60), 0)
        counters = self.daemon.counters()["status"]
        ended = {}
        wait_until(lambda: ended.update(self.admin.counts("penstock_requests_total"))
                   or sum(ended.values()) == counters["requests"]["accepted"], "every request has ended")
        self.assertEqual(ended[("outcome", "result"), ("pipeline", "quick")], counters["requests"]["results"])
        times = self.admin.counts("penstock_request_duration_seconds_count")
        self.assertEqual(times[("pipeline", "quick"), ("step", "total")], counters["requests"]["results"])

    def test_status_says_of_every_shard_what_its_clients_are_told(self):
        self.assertEqual(self.load(1).wait(60), 0)
        told = self.daemon.counters()["status"]
        status = json.loads(self.admin.get("/api/v1/status"))
        self.assertEqual((status["state"], status["missing_shards"]), ("ready", []))
        shard, = status["shards"]
        for key in ("instance", "requests", "payload_bytes", "slots"):
            self.assertEqual(shard[key], told[key], key)
        quick = next(each for each in shard["pipelines"] if each["name"] == "quick")
        self.assertEqual(sum(count for _, count in quick["timing_us"]["total"]["buckets"]), told["requests"]["results"])
        self.assertEqual(sum(count for _, count in quick["batch_sizes"]), quick["batches"])

    def test_timeline_shows_the_batches_and_where_they_came_from(self):
        self.assertEqual(self.load(1).wait(60), 0)
        events = json.loads(self.admin.get("/api/v1/trace?last=30s"))["traceEvents"]
        phases = [each["ph"] for each in events]
        self.assertGreater(phases.count("s"), 100)
        self.assertEqual(phases.count("s"), phases.count("f"))
        self.assertIn("copy in", {each["name"] for each in events})
        self.assertEqual(self.admin.ask("/api/v1/trace?last=soon")[0], 400)

    def test_answers_on_under_load_and_beside_clients_that_send_nothing(self):
        sender = self.load(2)
        silent = [socket.create_connection(self.admin.address) for _ in range(100)]
        self.addCleanup(lambda: [each.close() for each in silent])
        answered = 0
        while sender.poll() is None:
            self.admin.get("/readyz")
            answered += 1
        self.assertGreater(answered, 10)

    def test_an_address_in_use_ends_with_69_and_is_named(self):
        taken = "{}:{}".format(*self.admin.address)
        second = subprocess.run([BIN / "penstockd", "--config", self.daemon.path / "penstock.toml", "--listen",
                                 f"{self.daemon.url}-2", "--admin", taken], capture_output=True, text=True, timeout=60)
        self.assertEqual(second.returncode, 69)
        self.assertIn(f"the admin endpoint can't listen on http://{taken}: Address already in use", second.stderr)

    def test_documentation_names_every_metric_and_no_other(self):
        self.assertEqual(self.load(1).wait(60), 0)  # a metric without a value is not on the page
        families = set(re.findall(r"^# TYPE (\w+)", self.admin.get("/metrics"), re.MULTILINE))
        fed = Daemon("host", "callback", CONFIGURATION + '[[source]]\nname = "s"\ntype = "stdin"\npipeline = "quick"\n'
                     '[[sink]]\nname = "k"\ntype = "file"\npath = "x"\nfrom = "quick"\n',
                     admin="127.0.0.1:0")
        self.addCleanup(fed.stop)
        wait_until(lambda: Admin(fed.log).counts("penstock_source_up"), "a source")
        families |= set(re.findall(r"^# TYPE (\w+)", Admin(fed.log).get("/metrics"), re.MULTILINE))
        documented = set(re.findall(r"`(penstock_\w+)", PAGE.read_text()))
        self.assertEqual(families, documented)


class AlertsTest(unittest.TestCase):
    def test_alerts_are_rules_about_metrics_that_there_are(self):
        named = {re.sub("_(bucket|count|sum)$", "", each) for each in re.findall(r"\bpenstock_\w+", ALERTS.read_text())}
        documented = set(re.findall(r"`(penstock_\w+)", PAGE.read_text()))
        self.assertLessEqual(named, documented)
        if shutil.which("promtool") is None:
            self.skipTest("promtool is missing (Debian: prometheus)")
        checked = subprocess.run(["promtool", "check", "rules", ALERTS], capture_output=True, text=True)
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)


if __name__ == "__main__":
    unittest.main()
