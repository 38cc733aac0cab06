"""The real penstockd as a process, for the tests in Python.

PENSTOCK_BIN names the folder of the programs; PENSTOCK_TEST_BACKENDS the backends to test (a comma list).
"""

import functools
import itertools
import json
import os
import pathlib
import signal
import subprocess
import tempfile

BIN = pathlib.Path(os.environ.get("PENSTOCK_BIN", "build/release/bin")).resolve()
COMPLETIONS = ("callback", "poll")


class Daemon:
    """A penstockd on an ipc socket in a folder of its own, which holds its configuration and its log."""

    def __init__(self, backend, completion, text, files=None, admin=None, more_urls=(), wrapper=(), environment=None):
        """`files`: what else lies in the folder, bytes by name; `admin`: where its admin endpoint listens, unless on
        a Unix socket in the folder; `more_urls`: where it listens besides; `wrapper`: a command that runs it;
        `environment`: what is added to its own."""
        self.wrapper, self.environment = wrapper, environment or {}
        self.backend, self.completion, self.more_urls = backend, completion, more_urls
        self.folder = tempfile.TemporaryDirectory(prefix="penstock-")
        self.path = pathlib.Path(self.folder.name)
        self.url = f"ipc://{self.path}/data"
        self.admin = admin or f"unix:{self.path}/admin"
        self.log = self.path / "log"
        (self.path / "penstock.toml").write_text(text)
        for name, content in (files or {}).items():
            (self.path / name).write_bytes(content)
        self.process = None
        self.start()

    def start(self):
        with open(self.log, "a") as log:
            self.process = subprocess.Popen(
                [*self.wrapper, BIN / "penstockd", "--config", self.path / "penstock.toml", "--listen", self.url,
                 "--admin", self.admin, "--backend", self.backend, "--completion", self.completion,
                 *(word for url in self.more_urls for word in ("--listen", url))], stdout=log, stderr=log,
                cwd=self.path, env={**os.environ, **self.environment})
        ready = self.cli("--timeout", "60s", "ping", check=False)
        if ready.returncode != 0:
            self.process.kill()
            self.process.wait()
            raise RuntimeError("the daemon is not ready:\n" + self.log.read_text() + ready.stderr)

    def cli(self, *words, check=True):
        done = subprocess.run([BIN / "penstock", "--url", self.url, *map(str, words)], capture_output=True, text=True)
        if check and done.returncode != 0:
            raise RuntimeError(f"penstock {words} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done

    def counters(self):
        return json.loads(self.cli("info", "--json").stdout)

    def end(self, how=signal.SIGTERM):
        """Ends the process and leaves the folder, for another `start`. Returns its exit code."""
        self.process.send_signal(how)
        return self.process.wait(60)

    def stop(self):
        """Ends it for good. Returns its exit code and its log."""
        code = self.end()
        text = self.log.read_text()
        self.folder.cleanup()
        return code, text


class Daemons:
    """A daemon of one configuration for each backend and completion mode, from when a test first asks for it."""

    def __init__(self, text, files=None):
        self.text, self.files = text, files
        self.running = {}

    def each(self, test, what):
        """Calls `what` with each of them; its account must balance afterwards."""
        for combination in itertools.product(backends(), COMPLETIONS):
            with test.subTest(backend=combination[0], completion=combination[1]):
                if combination not in self.running:
                    self.running[combination] = Daemon(*combination, self.text, self.files)
                what(self.running[combination])
                status = self.running[combination].counters()["status"]
                test.assertTrue(status["balanced"], status)
                test.assertEqual(status["requests"]["in_flight"], 0)

    def stop(self):
        """Stops them; each must end with 0."""
        for combination, daemon in self.running.items():
            code, log = daemon.stop()
            if code != 0:
                raise AssertionError(f"the daemon {combination} ended with {code}:\n{log}")


@functools.lru_cache(maxsize=None)
def backends():
    """Those of PENSTOCK_TEST_BACKENDS; without it the host, and CUDA where the daemon can open it."""
    given = os.environ.get("PENSTOCK_TEST_BACKENDS")
    if given:
        return tuple(given.split(","))
    refusal = refusal_of("cuda")
    print("backends: host" + (f"; not cuda: {refusal}" if refusal else ", cuda"), flush=True)
    return ("host",) if refusal else ("host", "cuda")


def refusal_of(backend):
    """Why the daemon can't open a device of this backend; empty when it can."""
    with tempfile.TemporaryDirectory() as folder:
        configuration = pathlib.Path(folder) / "penstock.toml"
        configuration.write_text('config_version = 1\n[[pipeline]]\nname = "p"\n'
                                 'input = { dtype = "f32", shape = [1] }\n'
                                 '[[pipeline.stage]]\nname = "s"\nop = "affine"\n')
        done = subprocess.run([BIN / "penstockd", "--config", configuration, "--backend", backend, "--print-plan", "p"],
                              capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stderr.strip()
