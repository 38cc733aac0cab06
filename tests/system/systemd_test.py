"""The packages under a real systemd: a Debian 12 root, booted in a container.

Each test begins with the unit freshly started. The client runs outside, over an ipc socket of the container.
"""

import contextlib
import importlib.util
import json
import os
import pathlib
import shutil
import signal
import subprocess
import threading
import time
import unittest
from concurrent import futures

import debian_root
from daemon_process import VERSION, HeldThread, pipeline

BOOT_TIMEOUT_S = 60


class BootedRoot:
    """A Debian root that runs its own systemd, in a container, from when it has booted until `stop`.

    Needs root and systemd-nspawn. The container has a network of its own, and ends with the process that booted it. It
    is not registered with machined, which need not run here: commands enter it by its namespaces.
    """

    def __init__(self, root):
        """`root`: a debian_root.DebianRoot with systemd-sysv and dbus."""
        self.root = root
        self.log = pathlib.Path(f"{root.path}.log")
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "systemd-nspawn", "--quiet", f"--directory={root.path}", "--boot",
                 "--register=no", "--keep-unit", "--private-network", "--console=pipe"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.leader = None
        try:
            self.leader = wait_for("the first process of the container", self._first_process, BOOT_TIMEOUT_S)
            self.until("the boot is over", self._booted, BOOT_TIMEOUT_S)
        except BaseException:
            self.stop()
            raise

    def run(self, *command, check=True):
        """Runs a command inside as root."""
        if self.process.poll() is not None:
            raise RuntimeError("the container has ended:\n" + self.log.read_text())
        done = subprocess.run(
            ["nsenter", f"--target={self.leader}", "--mount", "--pid", "--uts", "--ipc", "--net", *map(str, command)],
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "SYSTEMD_PAGER": ""},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
        if check and done.returncode != 0:
            raise RuntimeError(f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done

    def show(self, unit, *properties):
        """What `systemctl show` says of these properties; one value for one of them, else a list."""
        lines = self.run("systemctl", "show", unit, "--property", ",".join(properties)).stdout.splitlines()
        said = dict(line.split("=", 1) for line in lines)
        return said[properties[0]] if len(properties) == 1 else [said[each] for each in properties]

    def journal(self, *filters):
        """The journal's entries, oldest first, as what `journalctl -o json` has of each."""
        self.run("journalctl", "--sync")
        lines = self.run("journalctl", "--quiet", "--output=json", *filters).stdout.splitlines()
        return [json.loads(line) for line in lines]

    def until(self, message, condition, timeout_s=20):
        """Waits until `condition()` gives something true, and returns that."""
        return wait_for(message, condition, timeout_s, self.log)

    def pid_outside(self, pid):
        """This machine's number of a process that has this one inside."""
        ours = os.readlink(f"/proc/{self.leader}/ns/pid")
        for status in pathlib.Path("/proc").glob("[0-9]*/status"):
            try:
                numbers = next(line for line in status.read_text().splitlines() if line.startswith("NSpid:")).split()
                if numbers[-1] == str(pid) and os.readlink(status.parent / "ns/pid") == ours:
                    return int(numbers[1])
            except (OSError, StopIteration):
                continue
        raise RuntimeError(f"no process of the container has the number {pid}")

    def stop(self):
        """Ends the container with everything in it."""
        if self.leader is not None:
            end(self.leader)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(10)  # it tidies up
        self.process.kill()
        self.process.wait()
        self.log.unlink(missing_ok=True)

    def _first_process(self):
        if self.process.poll() is not None:
            raise RuntimeError("the container did not start:\n" + self.log.read_text())
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        for each in children:
            if pathlib.Path(f"/proc/{each}/comm").read_text().strip() == "systemd":
                return int(each)
        return None

    def _booted(self):
        return self.run("systemctl", "is-system-running", check=False).stdout.strip() in ("running", "degraded")


def no_container():
    """Why no container can be booted here, or None."""
    if os.geteuid() != 0:
        return "a container needs root's rights to boot"
    for tool in ("systemd-nspawn", "nsenter", "setpriv"):
        if shutil.which(tool) is None:
            return f"{tool} is not installed"
    return None


def wait_for(message, condition, timeout_s, log=None):
    """Looks again and again, for so long."""
    deadline = time.monotonic() + timeout_s
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {timeout_s} s: {message}" + ("\n" + log.read_text() if log else ""))
        time.sleep(0.02)


def end(process):
    """Kills a process, if it still runs."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


UNIT = "penstockd.service"
SOCKET = "run/penstock/penstock.sock"
FRAME, LONG_FRAME = 256, 65536
SLOW_FRAMES = 48  # seconds of work, on a fast machine too


def configuration(more="", **device):
    """What the daemon serves; `device`: keys of [device]."""
    return (VERSION
            + f'[daemon]\nlisten = ["tcp://127.0.0.1:7600", "ipc:///{SOCKET}"]\ndrain_timeout = "30s"\n[device]\n'
            + "".join(f"{key} = {value}\n" for key, value in device.items())
            + pipeline("scale", "f32", [FRAME], [("y", "affine", "a = 2\nb = 1\n")], ["y"]) + more)


def slow(frames):
    """A pipeline whose frames take some tenths of a second each; `frames` to a batch."""
    stage = ("sum", "correlate", f'mode = "same"\nmethod = "direct"\ntemplate = {[1] * LONG_FRAME}\n')
    batch = f'batch = {{ max_frames = {frames}, max_bytes = "32 MiB" }}\n'
    return pipeline("slow", "f32", [LONG_FRAME], [stage], ["sum"], batch)


MORE = pipeline("more", "f32", [FRAME], [("y", "affine", "a = 3\n")], ["y"])
BAD = configuration().replace('op = "affine"', 'op = "afine"')


def missing():
    """Why this can't run here, or None."""
    if any(importlib.util.find_spec(each) is None for each in ("numpy", "zmq")):
        return "numpy or pyzmq is not installed"
    return no_container() or debian_root.missing() or debian_root.missing_packages()


@unittest.skipIf(missing(), missing())
class ServiceTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = debian_root.fresh_root("dbus", "systemd-sysv")
        cls.addClassCleanup(cls.root.remove)
        # Once from outside, for what apt must download; then as on a machine that runs.
        package, = debian_root.package_files("penstock")
        cls.root.install(package)
        cls.root.run("dpkg", "--purge", "penstock")
        brought = cls.root.bring(package, cls.root.path / "var/cache")
        cls.machine = BootedRoot(cls.root)
        cls.addClassCleanup(cls.machine.stop)
        cls.machine.run("dpkg", "--install", brought)
        cls.installed = cls.machine.show(UNIT, "UnitFileState", "ActiveState", "SubState")

    def setUp(self):
        self.configure(configuration())
        self.drop_in("")
        self.machine.run("systemctl", "reset-failed")  # also what counts starts
        self.machine.run("systemctl", "stop", UNIT)
        self.begin = self.machine.run("journalctl", "--show-cursor", "--lines=0").stdout.split("-- cursor: ")[1].strip()
        self.restart()
        self.url = f"ipc:///proc/{self.machine.leader}/root/{SOCKET}"

    def configure(self, text):
        (self.root.path / "etc/penstock/penstock.toml").write_text(text)

    def drop_in(self, text):
        """Lines of [Service] beside the unit's."""
        folder = self.root.path / f"etc/systemd/system/{UNIT}.d"
        folder.mkdir(exist_ok=True)
        (folder / "test.conf").write_text("[Service]\n" + text)
        self.machine.run("systemctl", "daemon-reload")

    def restart(self, check=True):
        if self.machine.run("systemctl", "restart", UNIT, check=False).returncode != 0 and check:
            self.fail("the unit does not start:\n" + "\n".join(text for _, text in self.said()))

    def client(self, **options):
        from penstock import Client
        made = Client(self.url, retry_after=0.3, retry_limit=1.0, **options)
        self.addCleanup(made.close)
        return made

    def said(self, *filters):
        """The journal of the unit since the test began, as (level, text)."""
        return [(int(each["PRIORITY"]), each["MESSAGE"])
                for each in self.machine.journal(f"--unit={UNIT}", f"--after-cursor={self.begin}", *filters)]

    def until_said(self, text, timeout_s=20):
        self.machine.until(f"the journal says '{text}'", lambda: any(text in each for _, each in self.said()),
                           timeout_s)

    def main_process(self):
        return int(self.machine.show(UNIT, "MainPID"))

    def assert_state(self, **expected):
        found = dict(zip(expected, self.machine.show(UNIT, *expected))) if len(expected) > 1 else {
            name: self.machine.show(UNIT, name) for name in expected}
        self.assertEqual(found, expected)

    def check_scaled(self, number, result):
        self.assertEqual(set(result["y"].ravel().tolist()), {2.0 * number + 1})

    def send(self, client, number):
        import numpy as np
        return client.submit("scale", np.full((1, FRAME), number, np.float32))

    def send_slow(self, client, frames):
        import numpy as np
        return client.submit("slow", np.ones((frames, LONG_FRAME), np.float32))

    def kill(self, name):
        os.kill(self.machine.pid_outside(self.main_process()), name)

    # -- start ---------------------------------------------------------------------------------------------------------

    def test_is_started_only_when_it_is_ready(self):
        lines = [text for _, text in self.said()]
        ready = next(index for index, line in enumerate(lines) if line.startswith("ready: "))
        started = next(index for index, line in enumerate(lines) if line.startswith(f"Started {UNIT}"))
        self.assertLess(ready, started, lines)
        self.check_scaled(1, self.send(self.client(), 1).result())

    def test_runs_once_it_is_installed(self):
        self.assertEqual(self.installed, ["enabled", "active", "running"])

    def test_the_unit_has_no_fault(self):
        done = self.machine.run("systemd-analyze", "--man=no", "verify", UNIT, check=False)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_runs_in_its_sandbox(self):
        """DevicePolicy= is left out: not every container may set it. So are limits, where it may not raise them."""
        process = self.machine.pid_outside(self.main_process())
        proc = pathlib.Path("/proc") / str(process)
        status = dict(line.split(":\t", 1) for line in (proc / "status").read_text().splitlines() if ":\t" in line)
        self.assertNotIn("0", status["Uid"].split())
        self.assertEqual({status[each] for each in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")}, {"0" * 16})
        self.assertEqual((status["NoNewPrivs"], status["Seccomp"]), ("1", "2"))
        names = {line.split(":")[2]: line.split(":")[0] for line in
                 (self.root.path / "etc/group").read_text().splitlines()}
        self.assertEqual({names[each] for each in status["Groups"].split()}, {"penstock", "render", "video"})
        limits = (proc / "limits").read_text()
        if self.may_raise_limits():
            self.assertRegex(limits, r"Max locked memory +unlimited +unlimited")
            self.assertRegex(limits, r"Max open files +65536 +65536")
        self.assertRegex(limits, r"Max core file size +0 +0")
        mounts = {fields[4]: fields[5].split(",") for fields in
                  (line.split() for line in (proc / "mountinfo").read_text().splitlines())}
        self.assertIn("ro", mounts["/"])
        self.assertIn("ro", mounts["/proc/sys"])
        self.assertIn("rw", mounts["/run/penstock"])
        self.assertIn("rw", mounts["/var/cache/penstock"])

    def may_raise_limits(self):
        """Whether the container has CAP_SYS_RESOURCE; where this machine is a container itself it may lack that."""
        status = pathlib.Path(f"/proc/{self.machine.leader}/status").read_text()
        return int(status.split("CapEff:")[1].split()[0], 16) >> 24 & 1

    def test_says_its_rate_in_the_status(self):
        self.drop_in("WatchdogSec=2s\n")
        self.restart()
        client = self.client()

        def rate_is_shown():
            self.send(client, 1).result()
            line = self.machine.show(UNIT, "StatusText")
            self.assertRegex(line, r"^serving 1 pipeline: [\d ]+ results/s, \d client(s|), 1 shard$")
            return ": 0 results/s" not in line and ", 1 client," in line

        self.machine.until("the status has the rate", rate_is_shown)

    # -- failures ------------------------------------------------------------------------------------------------------

    def test_serves_within_two_seconds_after_a_kill_and_nothing_is_lost(self):
        client, done, stop = self.client(timeout=30), [], threading.Event()

        def feed():
            while not stop.is_set():
                done.append(self.send(client, len(done)))
                if len(done) > 32:
                    done[-32].exception()

        feeder = threading.Thread(target=feed)
        feeder.start()
        try:
            self.machine.until("there is traffic", lambda: len(done) > 500)
            killed = time.monotonic()
            self.kill(signal.SIGKILL)
            # The feeder has no more than 32 under way, so the hundredth request from now came to the new daemon.
            mark = len(done) + 100
            self.machine.until("it serves again", lambda: len(done) > mark and done[mark].done())
            after = time.monotonic() - killed
        finally:
            stop.set()
            feeder.join()
        for number, each in enumerate(done):
            self.check_scaled(number, each.result())
        self.assertLess(after, 2.0)
        self.assert_state(ActiveState="active", NRestarts="1")

    def test_a_held_shard_is_restarted_by_the_watchdog_and_nothing_is_lost(self):
        self.drop_in("WatchdogSec=2s\n")
        self.restart()
        client = self.client(timeout=60)
        self.send(client, 0).result()
        process = self.main_process()
        held = HeldThread(self.machine.pid_outside(process), "shard-0")
        waiting = self.send(client, 7)
        self.machine.until("the held thread has died", held.has_died, 15)
        self.check_scaled(7, waiting.result())
        self.assertNotEqual(self.main_process(), process)
        self.assert_state(ActiveState="active", NRestarts="1")
        said = self.said()
        self.assertTrue(any("Watchdog timeout" in text for _, text in said), said)
        self.assertTrue(any(level == 3 and "shard 0 does not answer" in text for level, text in said), said)

    def test_a_batch_may_take_longer_than_the_watchdog_waits(self):
        self.drop_in("WatchdogSec=1s\n")
        self.configure(configuration(slow(SLOW_FRAMES), streams=1, slots=2))
        self.restart()
        begun = time.monotonic()
        self.send_slow(self.client(timeout=60), SLOW_FRAMES).result()
        self.assertGreater(time.monotonic() - begun, 1)
        self.assert_state(ActiveState="active", NRestarts="0")

    def test_a_wrong_configuration_fails_with_78_and_is_not_restarted(self):
        self.configure(BAD)
        self.restart(check=False)
        self.assert_state(ActiveState="failed", ExecMainStatus="78", Result="exit-code", NRestarts="0")
        errors = [text for level, text in self.said() if level == 3]
        self.assertTrue(any("afine" in each for each in errors), self.said())

    def test_a_wrong_command_line_fails_with_64_and_is_not_restarted(self):
        self.drop_in('Environment=PENSTOCKD_OPTIONS=--backend=abacus\nEnvironmentFile=\n')
        self.restart(check=False)
        self.assert_state(ActiveState="failed", ExecMainStatus="64", NRestarts="0")

    # -- reload --------------------------------------------------------------------------------------------------------

    def test_a_reload_takes_a_good_file_and_stays_active(self):
        client = self.client()
        before, process = client.status()["configuration"], self.main_process()
        self.configure(configuration(MORE))
        self.machine.run("systemctl", "reload", UNIT)
        self.until_said("configuration reloaded: version ")
        after = client.status()["configuration"]
        self.assertEqual(after["version"], before["version"] + 1)
        self.assertNotEqual(after["hash"], before["hash"])
        self.assertIn("more", self.client().pipelines)
        self.check_scaled(3, self.send(client, 3).result())
        self.assertEqual(self.main_process(), process)
        self.machine.until("the reload is over", lambda: self.machine.show(UNIT, "ActiveState") == "active")

    def test_a_reload_of_a_bad_file_fails_and_changes_nothing(self):
        client = self.client()
        before, process = client.status()["configuration"], self.main_process()
        self.configure(BAD)
        reload = self.machine.run("systemctl", "reload", UNIT, check=False)
        self.assertNotEqual(reload.returncode, 0)
        self.until_said("reload refused: ")
        self.assertEqual(client.status()["configuration"], before)
        self.check_scaled(3, self.send(client, 3).result())
        self.assertEqual(self.main_process(), process)
        self.machine.until("the reload is over", lambda: self.machine.show(UNIT, "ActiveState") == "active")

    # -- stop ----------------------------------------------------------------------------------------------------------

    def test_a_stop_under_load_answers_everything_even_beyond_its_timeout(self):
        """The daemon asks systemd for the time: without EXTEND_TIMEOUT_USEC it would be killed after a second."""
        from penstock import Shutdown
        self.drop_in("TimeoutStopSec=1s\n")
        self.configure(configuration(slow(SLOW_FRAMES), streams=1, slots=2))
        self.restart()
        client = self.client(timeout=60)
        sent = [self.send_slow(client, SLOW_FRAMES)]
        self.machine.until("it is on the device", lambda: client.status()["requests"]["in_flight"] == 1)
        sent += [self.send(client, number) for number in range(100)]
        begun = time.monotonic()
        self.machine.run("systemctl", "stop", UNIT)
        self.assertGreater(time.monotonic() - begun, 1, "the batch was done before the timeout")
        self.assert_state(ActiveState="inactive", Result="success", ExecMainStatus="0")
        unanswered = [number for number, each in enumerate(sent) if not futures.wait([each], 1).done]
        self.assertEqual(unanswered, [], self.said())
        ends = [each.exception() for each in sent]
        self.assertTrue(all(each is None or isinstance(each, Shutdown) for each in ends), ends)
        self.assertIsNone(ends[0], "what was on the device has its result")

    # -- journal -------------------------------------------------------------------------------------------------------

    def test_the_journal_has_each_line_once_with_its_level_and_one_time(self):
        self.kill(signal.SIGTERM)
        self.until_said("stopped")
        lines = [(level, text) for level, text in self.said("_COMM=penstockd")]
        texts = [text for _, text in lines]
        self.assertEqual(len(texts), len(set(texts)), texts)
        self.assertEqual(sum(text.startswith("ready: ") for text in texts), 1)
        self.assertEqual({level for level, _ in lines}, {6})
        self.assertFalse([text for text in texts if "info" in text or text.startswith("20")], texts)
        self.assertIn("SIGTERM received", texts)


if __name__ == "__main__":
    unittest.main()
