"""A Debian root that runs: its own systemd, in a container, for the tests of the unit.

Needs root and systemd-nspawn. The container has a network of its own, so that nothing of it collides with this machine,
and ends with the process that booted it. It is not registered with machined, which need not run here: commands enter
it by its namespaces.
"""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

BOOT_TIMEOUT_S = 60


class BootedRoot:
    """A container from when it has booted until `stop`."""

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

    def journal(self, *which):
        """The journal's entries, oldest first, as what `journalctl -o json` has of each."""
        self.run("journalctl", "--sync")
        lines = self.run("journalctl", "--quiet", "--output=json", *which).stdout.splitlines()
        return [json.loads(line) for line in lines]

    def until(self, what, condition, timeout_s=20):
        """Waits until `condition()` gives something true, and returns that."""
        return wait_for(what, condition, timeout_s, self.log)

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


def missing():
    """Why no container can be booted here, or None."""
    if os.geteuid() != 0:
        return "a container needs root's rights to boot"
    for tool in ("systemd-nspawn", "nsenter", "setpriv"):
        if shutil.which(tool) is None:
            return f"{tool} is not installed"
    return None


def wait_for(what, condition, timeout_s, log=None):
    """Looks again and again, for so long."""
    deadline = time.monotonic() + timeout_s
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {timeout_s} s: {what}" + ("\n" + log.read_text() if log else ""))
        time.sleep(0.02)


def end(process):
    """Kills a process, if it still runs."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
