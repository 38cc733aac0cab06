"""A penstockd under the directives of its unit file, for the tests in Python. See sandbox.py."""

import json
import os
import pathlib
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from daemon_process import BIN
from guarded_daemon import free_port

HERE = pathlib.Path(__file__).resolve().parent
# In a bundle it lies beside this file.
UNIT = next((path for path in (HERE / "penstockd.service", HERE.parents[1] / "deploy/systemd/penstockd.service")
             if path.exists()), None)
# Where nothing is hidden from the sandbox, and folders that it makes for the unit.
ABOVE = "/run"
FOLDERS = (pathlib.Path("/run/penstock"), pathlib.Path("/var/cache/penstock"))
READY_LIMIT = 120.0


def python():
    """An interpreter that is not in a home."""
    return "/usr/bin/python3" if os.access("/usr/bin/python3", os.X_OK) else os.path.realpath(sys.executable)


class Sandbox:
    """Runs commands inside, each in a sandbox of its own, over one folder. `close` it."""

    def __init__(self, without=()):
        self.without = list(without)
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="penstock-sandbox-", dir=ABOVE))
        os.chmod(self.path, 0o755)
        self.made = [folder for folder in FOLDERS if not folder.exists()]
        self.runs = 0

    def command(self, *words):
        """The command line that runs these words inside; "programs/bin/penstockd" lies under the run's folder."""
        self.runs += 1
        self.base = self.path / str(self.runs)
        self.base.mkdir()
        os.chmod(self.base, 0o755)
        left_out = [word for each in self.without for word in ("--without", each)]
        inside = [str(self.base / word) if str(word).startswith(("programs/", "tests/")) else str(word)
                  for word in words]
        return [sys.executable, "-B", HERE / "sandbox.py", "--unit", UNIT, "--base", self.base, "--report",
                self.base / "report", *left_out, "--", *inside]

    def environment(self):
        return {**os.environ, "PENSTOCK_BIN": str(BIN)}

    def run(self, *words, timeout=READY_LIMIT):
        return subprocess.run(self.command(*words), env=self.environment(), capture_output=True, text=True,
                              timeout=timeout)

    def report(self):
        """Of the last command: directive → (state, how)."""
        return json.loads((self.base / "report").read_text())

    def close(self):
        shutil.rmtree(self.path)
        for folder in self.made:
            if folder.exists():
                folder.rmdir()


class SandboxedDaemon:
    """The daemon of a configuration, which `text(listen, admin)` gives, inside of a sandbox, on TCP."""

    def __init__(self, sandbox, text):
        self.sandbox, self.text = sandbox, text
        self.url, self.admin = f"tcp://127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
        self.file, self.log = sandbox.path / "penstock.toml", sandbox.path / "log"
        self.write(text(self.url, self.admin))
        self.process = None
        # In place of systemd's: an address that no folder has to show.
        self.manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self.manager.bind(f"\0{sandbox.path.name}-{self.admin}")

    def write(self, text):
        self.file.write_text(text)
        os.chmod(self.file, 0o644)

    def start(self, limit=READY_LIMIT):
        """Whether it became ready."""
        self.heard = []
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                self.sandbox.command("programs/bin/penstockd", "--config", self.file),
                env={**self.sandbox.environment(), "NOTIFY_SOCKET": "@" + self.manager.getsockname()[1:].decode()},
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        return self.wait_for(" info ready: ", limit)

    def wait_for(self, words, limit):
        """Whether the log has them before the daemon ends or the time is over."""
        until = time.monotonic() + limit
        while words not in self.log.read_text():
            if self.process.poll() is not None or time.monotonic() > until:
                return False
            self.hear(0.02)  # sd_notify blocks once some ten messages wait
        return True

    def hear(self, limit):
        """What it tells its service manager within that time."""
        if select.select([self.manager], [], [], limit)[0]:
            self.heard += self.manager.recv(4096).decode().split("\n")

    def wait_for_word(self, word, limit):
        """Whether it says this to its service manager in time."""
        until = time.monotonic() + limit
        while word not in self.heard:
            if (left := until - time.monotonic()) <= 0:
                return False
            self.hear(left)
        del self.heard[:self.heard.index(word) + 1]
        return True

    def status(self, *fields):
        """Lines of its /proc/PID/status, by field."""
        lines = pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return {name: value.strip() for name, _, value in (line.partition(":") for line in lines) if name in fields}

    def cli(self, *words):
        done = subprocess.run([BIN / "penstock", "--url", self.url, "--timeout", "60s", *map(str, words)],
                              capture_output=True, text=True)
        assert done.returncode == 0, f"penstock {words}: {done.stdout}{done.stderr}"
        return done.stdout

    def reload(self):
        self.process.send_signal(signal.SIGHUP)

    def stop(self):
        """Its exit code. Ends it for good."""
        self.manager.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.end(60)

    def end(self, limit):
        try:
            return self.process.wait(limit)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return None
