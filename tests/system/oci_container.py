"""A container of an image, run by runc as an engine such as Docker has it run, for the tests in Python.

As with `docker run --read-only --cap-drop ALL --security-opt no-new-privileges`: the image's own user, environment and
entry point, a root that nothing can be written to, no capabilities, the engine's list of system calls, and namespaces
of its own for processes, mounts, IPC, host name and network. A pair of virtual Ethernet devices stands for the engine's
bridge, so the daemon is reached from beyond the container's loopback address. There are no limits by cgroup.
"""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

# The list that buildah and podman use (its package has it). Docker's also keeps a container without CAP_SYS_NICE from
# saying where memory should lie.
SYSTEM_CALLS = pathlib.Path("/usr/share/containers/seccomp.json")
WITHHELD_BY_DOCKER = ("get_mempolicy", "mbind", "set_mempolicy", "set_mempolicy_home_node")


class Container:
    """A running container. `end` it."""

    def __init__(self, root, image, *arguments, entry_point=None, folders=None, environment=None):
        """`image` is what the image says of how it is run; `arguments` follow its entry point, or this one. `folders`
        of this machine appear at the places that they are mapped to; `environment` adds to the image's."""
        self.image = image
        self.folder = tempfile.TemporaryDirectory(prefix="penstock-container-")
        self.path = pathlib.Path(self.folder.name)
        self.name = self.path.name
        self.output, self.log = self.path / "output", self.path / "log"  # what it says, on stdout and on stderr
        what = specification(root, image)
        what["process"]["args"] = [*(entry_point or image["Entrypoint"]), *arguments]
        what["process"]["env"] += [f"{name}={value}" for name, value in (environment or {}).items()]
        what["mounts"] += [{"destination": place, "source": str(folder), "type": "bind", "options": ["bind"]}
                           for folder, place in (folders or {}).items()]
        (self.path / "config.json").write_text(json.dumps(what))
        with open(self.output, "w") as output, open(self.log, "w") as log:
            self.process = subprocess.Popen(
                self.runc("run", "--bundle", self.path, "--pid-file", self.path / "pid", self.name),
                stdin=subprocess.DEVNULL, stdout=output, stderr=log)

    def runc(self, *words):
        return ["runc", "--root", str(self.path / "runc"), *map(str, words)]

    def connect(self):
        """Gives it an Ethernet device. Returns the address at which this machine reaches it."""
        pid = self.pid()
        ours, theirs, device = f"198.18.{pid % 250}.1", f"198.18.{pid % 250}.2", f"pen{pid}"
        inside = ["nsenter", "--net", "--target", str(pid)]
        for command in (["ip", "link", "add", device, "type", "veth", "peer", "name", "eth0", "netns", str(pid)],
                        ["ip", "address", "add", f"{ours}/30", "dev", device], ["ip", "link", "set", device, "up"],
                        [*inside, "ip", "address", "add", f"{theirs}/30", "dev", "eth0"],
                        [*inside, "ip", "link", "set", "eth0", "up"]):
            subprocess.run(command, check=True)
        return theirs

    def pid(self):
        """Of its first process, as this machine counts."""
        deadline = time.monotonic() + 30
        while not (self.path / "pid").exists() or not (self.path / "pid").read_text():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("the container did not start:\n" + self.log.read_text())
            time.sleep(0.01)
        return int((self.path / "pid").read_text())

    def execute(self, *command, timeout=60):
        """Runs a command inside, as its user. Returns what subprocess.run returns."""
        return subprocess.run(self.runc("exec", self.name, *command), stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=timeout)

    def health(self):
        """One run of the image's health check: "healthy", "unhealthy" or, when it was too slow, "timeout"."""
        how, *command = self.image["Healthcheck"]["Test"]
        if how != "CMD":
            raise RuntimeError(f"the health check needs a shell: {how} {command}")
        try:
            done = self.execute(*command, timeout=self.image["Healthcheck"]["Timeout"] / 1e9)
        except subprocess.TimeoutExpired:
            return "timeout"
        return "healthy" if done.returncode == 0 else "unhealthy"

    def wait_until_healthy(self):
        """As an engine does: again and again for as long as the image says that a start may take."""
        deadline = time.monotonic() + self.image["Healthcheck"]["StartPeriod"] / 1e9
        while self.health() != "healthy":
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("the container does not become healthy:\n" + self.log.read_text())
            time.sleep(0.1)

    def signal(self, which):
        """Sends a signal to its first process, by name."""
        subprocess.run(self.runc("kill", self.name, which), check=True)

    def wait(self):
        """Waits for its end. Returns its exit code and its log."""
        return self.process.wait(60), self.log.read_text()

    def end(self):
        """Ends it, whatever its state, and deletes its folder."""
        if self.process.poll() is None:
            self.signal("KILL")
            self.process.wait(60)
        self.folder.cleanup()


def missing():
    """Why no container can be run here; empty when one can."""
    if os.geteuid() != 0:
        return "a container needs root's rights to start"
    for tool in ("runc", "ip", "nsenter"):
        if shutil.which(tool) is None:
            return f"{tool} is not installed"
    if not SYSTEM_CALLS.exists():
        return f"there is no {SYSTEM_CALLS}"
    pair = ["ip", "link", "add", "name", "a0", "type", "veth", "peer", "name", "b0"]
    tried = subprocess.run(["unshare", "--net", *pair], capture_output=True, text=True)
    return "" if tried.returncode == 0 else "no virtual Ethernet devices here: " + tried.stderr.strip()


def specification(root, image):
    """What runc is told, in the terms of the OCI runtime specification."""
    user, group = map(int, image["User"].split(":"))
    return {
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": user, "gid": group}, "env": [*image["Env"]], "cwd": "/", "noNewPrivileges": True,
            "capabilities": {each: [] for each in ("bounding", "effective", "inheritable", "permitted", "ambient")},
        },
        "root": {"path": str(root), "readonly": True},
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs",
             "options": ["nosuid", "strictatime", "mode=755", "size=65536k"]},
            {"destination": "/dev/shm", "type": "tmpfs", "source": "shm",
             "options": ["nosuid", "noexec", "nodev", "mode=1777", "size=65536k"]},
            {"destination": "/sys", "type": "sysfs", "source": "sysfs",
             "options": ["nosuid", "noexec", "nodev", "ro"]},
        ],
        "linux": {
            "namespaces": [{"type": each} for each in ("pid", "network", "ipc", "uts", "mount")],
            "resources": {"devices": [{"allow": False, "access": "rwm"}]},
            "seccomp": system_calls(),
            "maskedPaths": ["/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/timer_list", "/sys/firmware"],
            "readonlyPaths": ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"],
        },
    }


def system_calls():
    """The list for a container without capabilities, as runc takes it."""
    listed = json.loads(SYSTEM_CALLS.read_text())
    machine = next(each for each in listed["archMap"] if each["architecture"] == "SCMP_ARCH_X86_64")
    kept = []
    for rule in listed["syscalls"]:
        includes = rule.get("includes") or {}
        names = [each for each in rule["names"] if each not in WITHHELD_BY_DOCKER]
        if includes.get("caps") or "amd64" not in includes.get("arches", ["amd64"]) or not names:
            continue
        kept.append({"names": names, "action": rule["action"],
                     **{key: rule[key] for key in ("args", "errnoRet") if rule.get(key) is not None}})
    kept.append({"names": list(WITHHELD_BY_DOCKER), "action": "SCMP_ACT_ERRNO", "errnoRet": 1})
    return {"defaultAction": listed["defaultAction"], "defaultErrnoRet": listed["defaultErrnoRet"],
            "architectures": [machine["architecture"], *machine["subArchitectures"]], "syscalls": kept}
