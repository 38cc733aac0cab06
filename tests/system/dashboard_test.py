"""Every query of the Grafana dashboard against a real Prometheus that scrapes a daemon under load."""

import importlib.util
import json
import pathlib
import re
import shutil
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

from daemon_process import VERSION, Daemon, free_port, pipeline

try:
    import numpy as np
except ImportError:
    np = None

CONFIGURATION = pathlib.Path(__file__).resolve().parents[2] / "deploy/docker/prometheus.yml"


class Prometheus:
    """Scrapes one target every second, with the configuration of deploy/docker in all else. `stop` it."""

    def __init__(self, target):
        self.folder = tempfile.TemporaryDirectory(prefix="penstock-prometheus-")
        path = pathlib.Path(self.folder.name)
        self.url = f"http://127.0.0.1:{free_port()}"
        self.log = path / "log"
        (path / "prometheus.yml").write_text(adapted(CONFIGURATION.read_text(), target))
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                ["prometheus", f"--config.file={path}/prometheus.yml", f"--storage.tsdb.path={path}/data",
                 f"--web.listen-address={self.url.removeprefix('http://')}", "--log.level=warn"],
                stdout=log, stderr=log)
        self.wait_until("it is ready", lambda: self.get("/-/ready"))

    def get(self, path, **arguments):
        """The answer's text."""
        with urllib.request.urlopen(f"{self.url}{path}?{urllib.parse.urlencode(arguments)}", timeout=10) as answer:
            return answer.read().decode()

    def query(self, expression):
        """An instant query's series: a list of (labels, value), without those whose value is not a number."""
        try:
            answer = json.loads(self.get("/api/v1/query", query=expression))
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"{expression}: {error.read().decode()}") from error
        series = [(each["metric"], float(each["value"][1])) for each in answer["data"]["result"]]
        return [each for each in series if each[1] == each[1]]

    def label_values(self, label, selector):
        """The values that a label has among the series of a selector."""
        answer = json.loads(self.get(f"/api/v1/label/{label}/values", **{"match[]": selector}))
        return answer["data"]

    def wait_until(self, message, condition, seconds=60):
        """Returns as soon as `condition` holds; a connection that is refused counts as not yet."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                if condition():
                    return
            except OSError:
                pass
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"Prometheus: not within {seconds} s: {message}\n{self.log.read_text()}")
            time.sleep(0.1)

    def stop(self):
        self.process.terminate()
        self.process.wait(60)
        self.folder.cleanup()


def adapted(text, target):
    """The configuration with another target, and scrapes as often as a short test needs them."""
    text, targets = re.subn(r"targets: \[.*\]", f'targets: ["{target}"]', text)
    text, intervals = re.subn(r"scrape_interval: \w+", "scrape_interval: 1s", text)
    text, timeouts = re.subn(r"scrape_timeout: \w+", "scrape_timeout: 1s", text)
    if (targets, intervals, timeouts) != (1, 1, 1):
        raise RuntimeError(f"{CONFIGURATION} is not as this test knows it")
    return text


def no_prometheus():
    """Why no Prometheus can be run here; empty when one can."""
    return "" if shutil.which("prometheus") else "prometheus is not installed"


DASHBOARD = pathlib.Path(__file__).resolve().parents[2] / "deploy/docker/grafana/dashboards/penstock.json"
SCRAPES = 6  # a rate over RATE_INTERVAL needs two, and load between them
RATE_INTERVAL = "30s"

# Queries that have no data while all is well, and why.
QUIET = {
    ("Errors and refusals", "penstock_refused_total"): "it leaves out what is never refused, and nothing is",
    ("Reloads", "changes(penstock_configuration_version"): "nobody reloads",
}


def missing():
    """Why the dashboard can't be tested here; empty when it can."""
    for module in ("numpy", "zmq"):
        if importlib.util.find_spec(module) is None:
            return f"Python's {module} is not installed"
    return no_prometheus()


def queries(dashboard):
    """(panel, expression) of every target of every panel, and of every annotation."""
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]
    for annotation in dashboard["annotations"]["list"]:
        yield annotation["name"], annotation["expr"]


def may_be_quiet(panel, expression):
    return any(panel == name and part in expression for name, part in QUIET)


def filled_in(expression):
    """As Grafana asks it when everything is selected."""
    for variable, value in (("$__rate_interval", RATE_INTERVAL), ("$__range", "5m"), ("$__interval", "1s"),
                            ("$instance", ".+"), ("$pipeline", ".+")):
        expression = expression.replace(variable, value)
    if "$" in expression:
        raise RuntimeError(f"a variable that this test does not know: {expression}")
    return expression


def metric_names(expression):
    """What of an expression can only be a metric's name."""
    return set(re.findall(r"\bpenstock_[a-z0-9_]+", expression))


@unittest.skipIf(missing(), missing())
class DashboardTest(unittest.TestCase):
    """One daemon and one Prometheus for all, after enough scrapes under load."""

    @classmethod
    def setUpClass(cls):
        cls.dashboard = json.loads(DASHBOARD.read_text())
        cls.admin = f"127.0.0.1:{free_port()}"
        text = VERSION + pipeline("levels", "f32", [256], [("stats", "moments", "")], ["stats"])
        cls.daemon = Daemon("host", "callback", text, admin=cls.admin)
        cls.addClassCleanup(cls.daemon.stop)
        cls.prometheus = Prometheus(cls.admin)
        cls.addClassCleanup(cls.prometheus.stop)
        cls.over = threading.Event()
        cls.load = threading.Thread(target=cls.send)
        cls.load.start()
        cls.addClassCleanup(cls.load.join)
        cls.addClassCleanup(cls.over.set)
        cls.prometheus.wait_until(f"{SCRAPES} scrapes", lambda: cls.prometheus.query(
            f'sum_over_time(up{{job="penstock"}}[5m]) >= {SCRAPES}'))

    @classmethod
    def send(cls):
        """Sends as much as its credits allow, until the tests are over."""
        from penstock import Client
        frames = np.ones((16, 256), np.float32)
        with Client(cls.daemon.url) as client:
            while not cls.over.is_set():
                for future in [client.submit("levels", frames) for _ in range(32)]:
                    future.result()

    def test_every_metric_of_the_dashboard_is_one_that_the_daemon_has(self):
        with urllib.request.urlopen(f"http://{self.admin}/metrics", timeout=10) as answer:
            told = {line.split()[2] for line in answer.read().decode().splitlines() if line.startswith("# TYPE ")}
        told |= {name + suffix for name in told for suffix in ("_bucket", "_count", "_sum")}
        for panel, expression in queries(self.dashboard):
            with self.subTest(panel=panel, query=expression):
                self.assertLessEqual(metric_names(expression), told)

    def test_every_query_of_the_dashboard_returns_data(self):
        for panel, expression in queries(self.dashboard):
            with self.subTest(panel=panel, query=expression):
                found = self.prometheus.query(filled_in(expression))
                if not may_be_quiet(panel, expression):
                    self.assertTrue(found, "no series with a number")

    def test_every_variable_of_the_dashboard_has_values(self):
        for variable in self.dashboard["templating"]["list"]:
            selector, label = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"]).groups()
            with self.subTest(variable=variable["name"]):
                self.assertTrue(self.prometheus.label_values(label, filled_in(selector)))

    def test_load_is_seen_where_it_should_be(self):
        by_outcome = dict((labels["outcome"], value) for labels, value in self.prometheus.query(
            'sum by (outcome) (penstock_requests_total{pipeline="levels"})'))
        self.assertGreater(by_outcome["result"], 0)
        [(_, bytes_in)] = self.prometheus.query('sum(penstock_payload_bytes_total{direction="in"})')
        self.assertEqual(bytes_in % (16 * 256 * 4), 0)


if __name__ == "__main__":
    unittest.main()
