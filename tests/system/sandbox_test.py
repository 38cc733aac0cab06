"""The daemon under the directives of its unit file, applied by hand (see sandbox.py), with 4 GiB of pinned memory.

    sandbox_test.py [-v] [--without DIRECTIVE]...

prints a table of what was done with each directive and what was seen of it. `--without` leaves directives out. When the
daemon does not start, it says without which directives it does.
"""

import json
import os
import pathlib
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

import numpy

import sandbox
import sandbox_filter
import sandbox_probe
from daemon_process import BIN, VERSION, backends, free_port, pipeline

try:
    from penstock import Client
except ImportError:
    Client = None  # without pyzmq the command line alone asks


HERE = pathlib.Path(__file__).resolve().parent
# In a bundle it lies beside this file.
UNIT = next((path for path in (HERE / "penstockd.service", HERE.parents[1] / "deploy/systemd/penstockd.service")
             if path.exists()), None)
# Where nothing is hidden from the sandbox, and folders that it makes for the unit.
ABOVE = "/run"
FOLDERS = (pathlib.Path("/run/penstock"), pathlib.Path("/var/cache/penstock"), pathlib.Path("/var/lib/penstock"))
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
            self.hear(0.02)  # a manager that does not read holds up who tells it more than ten things
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


WITHOUT = []
PINNED_BYTES = 4 << 30
SLOTS = 16
WIDE = 4096
TAPS = [0.25, 0.5, 0.25, -0.125]
TEMPLATE = [round(float(each), 3) for each in numpy.cos(numpy.arange(300) ** 2 / 900.0)]
# What to try without, when it does not start. Each try is one group.
GROUPS = {"memory": ["MemoryDenyWriteExecute"], "calls": ["SystemCallFilter", "SystemCallArchitectures"],
          "families": ["RestrictAddressFamilies"], "namespaces": ["RestrictNamespaces"],
          "devices": ["DevicePolicy"], "process": ["ProtectProc", "ProtectKernelTunables", "ProtectControlGroups"],
          "files": ["ProtectSystem", "ProtectHome", "PrivateTmp"],
          "identity": ["User", "CapabilityBoundingSet", "AmbientCapabilities"],
          "limits": ["LimitMEMLOCK", "LimitNOFILE", "LimitCORE", "UMask"],
          "the rest": ["RestrictRealtime", "RestrictSUIDSGID", "LockPersonality", "KeyringMode", "ProtectHostname",
                       "ProtectClock", "ProtectKernelLogs", "ProtectKernelModules"]}
TRY_LIMIT = 15.0


def configuration(backend, url, admin, factor=2.0, length=1024, more=""):
    """The ring's slots have 128 MiB for the input of `wide` and 128 MiB for its output."""
    return (VERSION + f'[daemon]\nlisten = "{url}"\n[device]\nbackend = "{backend}"\nslots = {SLOTS}\n'
            f'[admin]\nlisten = "{admin}"\n' +
            pipeline("wide", "f32", [WIDE], [("y", "affine", f"a = {factor}\n")], ["y"],
                     'batch = { max_frames = 8192, max_bytes = "128 MiB" }\n') +
            pipeline("spectrum", "cf32", [length], [("psd", "power_spectrum", 'window = "hann"\n')], ["psd"]) +
            pipeline("prime", "cf32", [1009], [("psd", "power_spectrum", 'window = "rectangular"\n')], ["psd"]) +
            pipeline("matched", "f32", [WIDE],
                     [("y", "correlate", f'method = "fft"\ntemplate = {TEMPLATE}\n')], ["y"]) +
            pipeline("levels", "f32", [WIDE], [("y", "moments", "")], ["y"]) +
            pipeline("smooth", "f32", ["max 256"], [("y", "fir", f"taps = {TAPS}\n")], ["y"]) + more)


def complex_frames(random, count, length):
    both = random.standard_normal((count, length, 2)).astype(numpy.float32)
    return both.view(numpy.complex64)[..., 0]


def spectrum(frames, window=1.0):
    return numpy.abs(numpy.fft.fft(frames.astype(complex) * window)) ** 2


def hann(length):
    return 0.5 - 0.5 * numpy.cos(2 * numpy.pi * numpy.arange(length) / length)


def moments(frames):
    x = frames.astype(float)
    return numpy.stack([x.mean(-1), x.std(-1), x.min(-1), x.max(-1), numpy.sqrt((x * x).mean(-1))], -1)


def cases(random, factor, length):
    """(pipeline, frames, output, what numpy makes of them)."""
    wide = random.standard_normal((1024, WIDE)).astype(numpy.float32)
    iq, prime = complex_frames(random, 32, length), complex_frames(random, 32, 1009)
    return [("wide", wide, "y", wide * numpy.float32(factor)),
            ("spectrum", iq, "psd", spectrum(iq, hann(length))),
            ("prime", prime, "psd", spectrum(prime)),
            ("matched", wide[:16], "y", numpy.array([numpy.correlate(row.astype(float), TEMPLATE, "full")
                                                     for row in wide[:16]])),
            ("levels", wide[:64], "y", moments(wide[:64]))]


def assert_near(got, expected, message):
    numpy.testing.assert_allclose(got, expected, rtol=0, atol=2e-5 * numpy.abs(expected).max(), err_msg=message)


class FilterTest(unittest.TestCase):
    def test_the_launcher_knows_every_directive_of_the_unit(self):
        unit = sandbox.service_section(UNIT)
        self.assertEqual(sandbox.unknown(unit), [])
        self.assertEqual(sandbox.unknown({**unit, "PrivateNetwork": ["yes"]}), ["PrivateNetwork"])
        self.assertEqual(sandbox.unknown({**unit, "ProtectSystem": ["full"]}), ["ProtectSystem"])

    @unittest.skipUnless(shutil.which("systemd-analyze"), "systemd-analyze is not installed")
    def test_the_groups_of_calls_are_those_of_systemd(self):
        if sandbox_filter.systemd_version() != sandbox_filter.SYSTEMD:
            self.skipTest(f"systemd is not {sandbox_filter.SYSTEMD}, of which the groups are")
        numbers, groups = sandbox_filter.kernel_numbers(), sandbox_filter.systemd_groups()
        self.assertEqual(sandbox_filter.NUMBERS, numbers)
        for name, members in sandbox_filter.GROUPS.items():
            self.assertEqual(members, [each for each in groups[name] if each.startswith("@") or each in numbers], name)

    @unittest.skipUnless(os.geteuid() == 0, "only root may do what the filters have to forbid")
    def test_each_directive_forbids_by_its_filter_alone_what_root_may(self):
        unit = sandbox.service_section(UNIT)
        probe = pathlib.Path(sandbox_probe.__file__)
        for directive in sandbox_probe.filters():
            with self.subTest(directive=directive):
                lone = {name: lines for name, lines in unit.items() if name in (directive, "SystemCallErrorNumber")}

                def enter(unit=lone):
                    sandbox.unshare(sandbox.NEW_HOST_NAME)
                    sandbox_filter.load(sandbox_filter.program_of(unit)[0])
                done = subprocess.run([python(), "-B", "-s", "-E", probe, "--filters", directive], preexec_fn=enter,
                                      capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)
                wrong = [row for row in json.loads(done.stdout)[directive] if not row[2]]
                self.assertEqual(wrong, [])


@unittest.skipUnless(os.geteuid() == 0, "the sandbox is made by root")
class SandboxTest(unittest.TestCase):
    def test_the_daemon_serves_with_4_gib_of_pinned_memory(self):
        for backend in backends():
            with self.subTest(backend=backend):
                self.serve(backend)

    def test_users_code_is_compiled_inside(self):
        """Its process is the daemon's own program, with the compiler's library in it."""
        box = Sandbox(WITHOUT)
        self.addCleanup(box.close)
        (box.path / "gain.cu").write_text('extern "C" __global__ void gain(const float* in, float* out) '
                                          '{ out[threadIdx.x] = 2 * in[threadIdx.x]; }\n')
        file = box.path / "penstock.toml"
        file.write_text(VERSION + '[code]\nallow = ["gain.cu"]\n' +
                        pipeline("gain", "f32", [32], [("gain", "kernel", 'file = "gain.cu"\ngrid = ["frames"]\n'
                                                        'block = [32]\nargs = ["in", "out"]\n')], ["gain"]))
        for each in (file, box.path / "gain.cu"):
            os.chmod(each, 0o644)
        done = box.run("programs/bin/penstockd", "--config", file, "--check-config", "--arch", "sm_90")
        if "could not be loaded" in done.stderr:
            self.skipTest("NVRTC is not installed")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"kernel gain for sm_90: \d+ registers")
        self.assertNotIn("cache of machine code is not used", done.stdout)
        self.assertEqual(len(list((box.base / "CacheDirectory/code").glob("*.code"))), 1)

    def serve(self, backend):
        box = Sandbox(WITHOUT)
        self.addCleanup(box.close)
        with self.subTest("what the directives forbid"):  # whatever comes of it, the daemon's turn follows
            self.look_around(box, backend)
        daemon = SandboxedDaemon(box, lambda url, admin: configuration(backend, url, admin))
        with self.subTest("the doctor"):
            self.consult(box, daemon)
        before = available_bytes()
        ready = daemon.start()
        self.addCleanup(daemon.stop)
        if not ready:
            log = daemon.log.read_text()
            daemon.stop()
            self.fail(f"the daemon is not ready:\n{log}\n{self.search(backend)}")
        self.assertTrue(daemon.wait_for_word("READY=1", 10))
        self.look_at_process(daemon, backend, before)
        self.exchange(daemon, 2.0, 1024)
        more = pipeline("extra", "cf32", [1500], [("psd", "power_spectrum", 'window = "rectangular"\n')], ["psd"])
        daemon.write(configuration(backend, daemon.url, daemon.admin, 3.0, 2000, more))
        daemon.reload()
        self.assertTrue(daemon.wait_for("configuration reloaded: version 2", 60), daemon.log.read_text())
        self.exchange(daemon, 3.0, 2000)
        with urllib.request.urlopen(f"http://{daemon.admin}/metrics", timeout=30) as answer:
            self.assertRegex(answer.read().decode(), r"(?m)^penstock_\w+")
        self.assertEqual(daemon.stop(), 0, daemon.log.read_text())
        for kind in ("shm", "sem", "msg"):
            left = [line.split() for line in pathlib.Path(f"/proc/sysvipc/{kind}").read_text().splitlines()[1:]]
            self.assertEqual([line for line in left if str(sandbox.USER) in line], [])

    def look_around(self, box, backend):
        """The probe's turn, and the table."""
        done = box.run(python(), "-B", "-s", "-E", "tests/sandbox_probe.py")
        self.assertEqual(done.returncode, 0, done.stderr)
        seen, said = json.loads(done.stdout), box.report()
        print(f"\nbackend {backend}\n" + table(sandbox.service_section(UNIT), said, seen), flush=True)
        wrong = [(directive, row) for directive, rows in seen.items() for row in rows
                 if not row[2] and said[directive][0] == "applied" and not WITHOUT]  # some count on others
        self.assertEqual(wrong, [])
        unseen = {name for name, (state, _) in said.items() if state == "applied"} - set(seen) - {"ProcSubset"}
        self.assertEqual(unseen, set(), "applied, and nobody looked")

    def consult(self, box, daemon):
        """The doctor's word on the memory, from inside."""
        done = box.run("programs/bin/penstock", "doctor", "--config", daemon.file, "--daemon",
                       "programs/bin/penstockd", "--admin", daemon.admin, "--json")
        self.assertIn(done.returncode, (0, 1), done.stdout + done.stderr)
        findings = {each["check"]: each for each in json.loads(done.stdout)["findings"]}
        odd = [f"{name}: {each['found']}" for name, each in findings.items() if each["severity"] != "good"]
        print(f"doctor: exit {done.returncode}; pinned memory: {findings['pinned memory']['found']}; not well: {odd}",
              flush=True)
        self.assertRegex(findings["pinned memory"]["found"], r"^4\.0\d* GiB allocated and given back")
        plan = subprocess.run([BIN / "penstockd", "--config", daemon.file, "--print-plan", "wide"], check=True,
                              capture_output=True, text=True).stdout
        slot = sum(int(each.replace(",", "")) for each in re.search(
            r"pinned +([\d,]+) bytes .*? in, ([\d,]+) bytes", plan).groups())
        self.assertGreaterEqual(SLOTS * slot, PINNED_BYTES)

    def look_at_process(self, daemon, backend, before):
        status = daemon.status("Uid", "NoNewPrivs", "Seccomp", "CapEff", "VmSize", "VmLck", "VmPin", "VmRSS")
        drop = before - available_bytes()
        print(f"ready; {status}; the machine has {drop / 2**30:.2f} GiB less available", flush=True)
        if not WITHOUT:
            self.assertEqual(status["Uid"].split(), [str(sandbox.USER)] * 4)
            self.assertEqual((status["NoNewPrivs"], status["Seccomp"], int(status["CapEff"], 16)), ("1", "2", 0))
        if backend == "host":
            self.assertGreaterEqual(int(status["VmRSS"].split()[0]) * 1024, PINNED_BYTES)
        else:  # the driver's pages are nobody's resident ones, so the machine has to tell; it does other things, too
            self.assertGreaterEqual(drop, 0.9 * PINNED_BYTES)

    def exchange(self, daemon, factor, length):
        random = numpy.random.default_rng(length)
        for name, frames, output, expected in cases(random, factor, length):
            got = self.sent_by_command(daemon, name, frames[:16], output)
            assert_near(got, expected[:16], f"{name} by penstock send")
        if Client is None:
            print("the Python client was left out: there is no pyzmq", flush=True)
            return
        with Client(daemon.url, connect_timeout=60.0, timeout=60.0) as client:
            for name, frames, output, expected in cases(random, factor, length):
                assert_near(client.submit(name, frames).result()[output], expected, f"{name} by the Python client")
            x = random.standard_normal(1024).astype(numpy.float32)
            with client.session("smooth") as session:
                waiting = [session.submit(x[at:at + 256]) for at in range(0, len(x), 256)]
                got = numpy.concatenate([each.result()["y"].ravel() for each in waiting])
            assert_near(got, numpy.convolve(x, TAPS)[:len(x)], "smooth in a session")

    def sent_by_command(self, daemon, name, frames, output):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "frames"
            path.write_bytes(frames.tobytes())
            daemon.cli("send", "--raw", "--pipeline", name, "--out", folder, path)
            return numpy.load(pathlib.Path(folder) / f"{output}.npy")

    def search(self, backend):
        """Which group of directives keeps it from starting."""
        found = []
        for name, directives in GROUPS.items():
            box = Sandbox([*WITHOUT, *directives])
            daemon = SandboxedDaemon(box, lambda url, admin: configuration(backend, url, admin))
            ready = daemon.start(TRY_LIMIT)
            if not ready:
                daemon.process.kill()
            daemon.stop()
            box.close()
            words = f"without {name} ({', '.join(directives)}): {'it starts' if ready else 'it does not start'}"
            print(words, flush=True)
            found += [words] if ready else []
        return "\n".join(found) or "no single group of directives left out lets it start"


def available_bytes():
    return int(re.search(r"MemAvailable:\s+(\d+)", pathlib.Path("/proc/meminfo").read_text())[1]) * 1024


def table(unit, said, seen):
    """Markdown, a row for each directive that is not the manager's alone."""
    rows = ["| directive | how | seen |", "|---|---|---|"]
    for directive in unit:
        if directive not in sandbox.MANAGER and directive not in sandbox.BELONGING:
            state, how = said.get(directive, ("not applied", "unknown"))
            what = "; ".join(f"{tried}: {result}" for tried, result, _ in seen.get(directive, []))
            rows.append(f"| `{directive}={' '.join(unit[directive])}` | {state}: {how} | {what} |")
    return "\n".join(rows)


if __name__ == "__main__":
    while "--without" in sys.argv:
        at = sys.argv.index("--without")
        WITHOUT.append(sys.argv[at + 1])
        del sys.argv[at:at + 2]
    unittest.main()
