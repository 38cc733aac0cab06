"""A Prometheus of its own, on loopback, as a process, for the tests in Python."""

import json
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

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

    def wait_until(self, what, condition, seconds=60):
        """Returns as soon as `condition` holds; a connection that is refused counts as not yet."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                if condition():
                    return
            except OSError:
                pass
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"Prometheus: not within {seconds} s: {what}\n{self.log.read_text()}")
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


def free_port():
    """A port of the loopback address that nobody has at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def missing():
    """Why no Prometheus can be run here; empty when one can."""
    return "" if shutil.which("prometheus") else "prometheus is not installed"
