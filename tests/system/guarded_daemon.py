"""A penstockd with CURVE keys, and clients with the right key, a wrong one, or none."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import tempfile

from daemon_process import BIN, free_port

PIPELINE = """
[[pipeline]]
name = "double"
input = { dtype = "f32", shape = [16] }
[[pipeline.stage]]
name = "out"
op = "affine"
a = 2.0
"""


def keygen(path, *more):
    """Makes a key; gives its line for a list."""
    return subprocess.run([BIN / "penstock", "keygen", "--output", path, "--name", pathlib.Path(path).stem, *more],
                          capture_output=True, text=True, check=True).stdout.strip()


def folder_of_keys(test):
    """A folder with a daemon's key and a list of one client's, for as long as that test runs."""
    folder = tempfile.TemporaryDirectory(prefix="penstock-")
    test.addCleanup(folder.cleanup)
    path = pathlib.Path(folder.name)
    keygen(path / "server.key")
    (path / "authorized_keys").write_text(keygen(path / "client.key") + "\n")
    os.chmod(path / "authorized_keys", 0o644)
    return path


def check(text, *more, folder):
    """`penstockd --check-config` of this text."""
    path = pathlib.Path(folder) / "checked.toml"
    path.write_text(text)
    return subprocess.run([BIN / "penstockd", "--config", path, "--check-config", *more], capture_output=True, text=True,
                          timeout=60)


def configuration(security, **tables):
    text = "config_version = 1\n[admin]\nlisten = []\n"
    for name, lines in tables.items():
        text += f"[{name}]\n{lines}\n"
    return text + f"[security]\n{security}\n" + PIPELINE


KEYS = 'secret_key_file = "server.key"\nauthorized_keys_file = "authorized_keys"\n'


class GuardedDaemon(contextlib.ExitStack):
    """Has a folder with server.key, listed.key, unlisted.key and other.key (another daemon's), and runs in it."""

    def __init__(self, security=KEYS, url=None, start=True, preexec=None, **tables):
        super().__init__()
        self.path = pathlib.Path(self.enter_context(tempfile.TemporaryDirectory(prefix="penstock-")))
        self.url = url(self.path) if url else f"tcp://127.0.0.1:{free_port()}"
        self.lines = {name: keygen(self.path / f"{name}.key") for name in ("server", "listed", "unlisted", "other")}
        (self.path / "authorized_keys").write_text("# who may come\n" + self.lines["listed"] + "\n")
        os.chmod(self.path / "authorized_keys", 0o644)
        self.security, self.tables, self.preexec = security, tables, preexec
        self.process = None
        if start:
            self.start()

    def public(self, name):
        return self.lines[name].split()[0]

    def start(self, wait=True):
        (self.path / "penstock.toml").write_text(configuration(self.security, **self.tables))
        self.log = self.path / "log"
        with open(self.log, "a") as log:
            self.process = subprocess.Popen(
                [BIN / "penstockd", "--config", self.path / "penstock.toml", "--listen", self.url, "--backend", "host"],
                stdout=log, stderr=log, cwd=self.path, preexec_fn=self.preexec)
        self.callback(self.stop)
        if wait:
            ready = self.ping()
            assert ready.returncode == 0, ready.stderr + self.log.read_text()

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def cli(self, *words, key="listed", server="server", timeout="20s"):
        environment = {**os.environ, "PENSTOCK_URL": self.url}
        if key and "secret_key_file" in self.security:
            environment["PENSTOCK_KEY_FILE"] = str(self.path / f"{key}.key")
            environment["PENSTOCK_SERVER_KEY"] = self.public(server)
        return subprocess.run([BIN / "penstock", "--timeout", timeout, *words], env=environment, capture_output=True,
                              text=True, timeout=60)

    def ping(self, **options):
        return self.cli("ping", **options)

    def client(self, key="listed", server="server", **more):
        from penstock import Client
        if key:
            more.update(server_key=self.public(server), key_file=str(self.path / f"{key}.key"))
        return Client(self.url, **more)

    def handshakes(self):
        done = self.cli("info", "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["status"]["handshakes"]
