"""Every query of the Grafana dashboard, asked of a real Prometheus that scrapes the real daemon under load.

What the environment can say stands in daemon_process.py.
"""

import importlib.util
import json
import pathlib
import re
import threading
import unittest
import urllib.request

import prometheus_process
from daemon_process import Daemon
from pipeline_text import VERSION, pipeline

try:
    import numpy as np
except ImportError:
    np = None

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
    return prometheus_process.missing()


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
        cls.admin = f"127.0.0.1:{prometheus_process.free_port()}"
        text = VERSION + pipeline("levels", "f32", [256], [("stats", "moments", "")], ["stats"])
        cls.daemon = Daemon("host", "callback", text, admin=cls.admin)
        cls.addClassCleanup(cls.daemon.stop)
        cls.prometheus = prometheus_process.Prometheus(cls.admin)
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
