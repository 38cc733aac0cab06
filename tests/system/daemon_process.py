"""The real penstockd as a process, and helpers that the tests in Python share.

PENSTOCK_BIN names the folder of the programs; PENSTOCK_TEST_BACKENDS the backends to test (a comma list).
"""

import ctypes
import functools
import http.client
import io
import itertools
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import tempfile
import time

BIN = pathlib.Path(os.environ.get("PENSTOCK_BIN", "build/release/bin")).resolve()
COMPLETIONS = ("callback", "poll")
VERSION = "config_version = 1\n"


def pipeline(name, dtype, shape, stages, outputs, extra=""):
    """A [[pipeline]] in TOML; a stage is (name, op, extra lines)."""
    text = f'[[pipeline]]\nname = "{name}"\ninput = {{ dtype = "{dtype}", shape = {json.dumps(shape)} }}\n'
    text += f'outputs = {json.dumps(outputs)}\n{extra}'
    for stage, op, extra in stages:
        text += f'[[pipeline.stage]]\nname = "{stage}"\nop = "{op}"\n{extra}'
    return text


def npy(array):
    """What numpy.save writes."""
    import numpy  # not all tests have it
    file = io.BytesIO()
    numpy.save(file, array)
    return file.getvalue()


def wait_until(holds, message, seconds=30.0):
    """Waits until `holds()`, and returns what it gave. Raises AssertionError with `message` after `seconds`."""
    end = time.monotonic() + seconds
    while True:
        found = holds()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds:g} s: {message}")
        time.sleep(0.02)


def free_port():
    """A TCP port of the loopback address that nobody has at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path):
        super().__init__("localhost", timeout=60)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


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

    def ask(self, path, method="GET", **headers):
        """The status and the text of the admin endpoint's answer (on its Unix socket)."""
        http = UnixConnection(self.admin.removeprefix("unix:"))
        try:
            http.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
            answer = http.getresponse()
            return answer.status, answer.read().decode()
        finally:
            http.close()

    def ask_for_reload(self):
        """The status of the answer, and what it says."""
        status, text = self.ask("/api/v1/reload", "POST", X_Penstock="1")
        return status, json.loads(text)

    def failing_checks(self):
        """The reasons of /readyz by check; {} when the daemon is ready."""
        status, text = self.ask("/readyz")
        found = {each["name"]: each["reason"] for each in json.loads(text)["checks"] if not each["passed"]}
        if (status == 200) != (not found):
            raise AssertionError(f"/readyz says {status}: {text}")
        return found

    def end(self, number=signal.SIGTERM):
        """Ends the process and leaves the folder, for another `start`. Returns its exit code."""
        self.process.send_signal(number)
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

    def each(self, test, check):
        """Calls `check` with each of them; its account must balance afterwards."""
        for combination in itertools.product(backends(), COMPLETIONS):
            with test.subTest(backend=combination[0], completion=combination[1]):
                if combination not in self.running:
                    self.running[combination] = Daemon(*combination, self.text, self.files)
                check(self.running[combination])
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
        configuration.write_text(VERSION + pipeline("p", "f32", [1], [("s", "affine", "")], ["s"]))
        done = subprocess.run([BIN / "penstockd", "--config", configuration, "--backend", backend, "--print-plan", "p"],
                              capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stderr.strip()


WALL = 0x40000000  # __WALL: wait for threads too
PTRACE_SEIZE, PTRACE_INTERRUPT = 0x4206, 0x4207
PTRACE_DETACH = 17


class HeldThread:
    """A thread that is held where it stands, and only that one, while the others of its process go on."""

    def __init__(self, process, name):
        """`process`: as this machine numbers it; `name`: the thread's."""
        tasks = pathlib.Path(f"/proc/{process}/task")
        self.thread = next(int(task.name) for task in tasks.iterdir() if (task / "comm").read_text().strip() == name)
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        self.libc.ptrace.restype = ctypes.c_long
        self._ptrace(PTRACE_SEIZE)
        self._ptrace(PTRACE_INTERRUPT)
        os.waitpid(self.thread, WALL)

    def has_died(self):
        """Whether the thread is gone; who holds it must ask, for its process ends only then."""
        waited, status = os.waitpid(self.thread, WALL | os.WNOHANG)
        return waited == self.thread and (os.WIFEXITED(status) or os.WIFSIGNALED(status))

    def let_go(self):
        self._ptrace(PTRACE_DETACH)

    def _ptrace(self, request):
        if self.libc.ptrace(request, self.thread, None, None) != 0:
            raise OSError(ctypes.get_errno(), f"ptrace({request:#x}) of thread {self.thread}")


def help_of(*words):
    """What a program, or its command, says of itself."""
    return subprocess.run([BIN / words[0], *words[1:], "--help"], capture_output=True, text=True, check=True).stdout


def options_of(*words):
    """The options of a program, or of its command: sets of names, such as {"-n", "--count"}."""
    text = re.search(r"^Options:\n((?:  .*\n)*)", help_of(*words), re.MULTILINE).group(1)
    return [set(line.split()[0].split(",")) for line in text.splitlines() if line.startswith("  -")]


def commands_of(program):
    """The commands of a program."""
    text = re.search(r"^Subcommands:\n((?:  .*\n)*)", help_of(program), re.MULTILINE).group(1)
    return [line.split()[0] for line in text.splitlines() if re.match(r"  \S", line)]
