"""The image that the Dockerfile's target `host` makes: built by buildah, run by runc, fed with a recording.

Building needs root and debootstrap, which makes the base image in place of one from a registry; what ccache holds of
this tree is not compiled again. PENSTOCK_IMAGE_CACHE names the folder where apt's downloads are kept between builds
(default: build/image-cache).
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time
import unittest

import debian_root
from recordings import RECORDINGS, load_reference, missing, np

TREE = debian_root.TREE
DOCKERFILE = TREE / "deploy/docker/Dockerfile"
KEPT = pathlib.Path(os.environ.get("PENSTOCK_IMAGE_CACHE", TREE / "build/image-cache")).resolve()
BASE = "localhost/penstock-test-base:bookworm"


class ImageStore:
    """Images and containers of buildah in a folder of their own. `remove` it in the end."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="penstock-images-")
        self.path = pathlib.Path(self.folder.name)
        self.mounted = []

    def buildah(self, *words):
        """Runs buildah. Returns what it prints; a failure names what was said."""
        # Beneath TMPDIR buildah keeps what the Dockerfile's cache mounts hold.
        KEPT.mkdir(parents=True, exist_ok=True)
        store = ["--storage-driver", "vfs", "--root", self.path / "images", "--runroot", self.path / "run"]
        done = subprocess.run(["buildah", *map(str, store), *map(str, words)], capture_output=True, text=True,
                              env={**os.environ, "TMPDIR": str(KEPT)})
        if done.returncode != 0:
            said = done.stdout[-8000:] + done.stderr[-8000:]
            raise RuntimeError(f"buildah {words} ended with {done.returncode}:\n{said}")
        return done.stdout.strip()

    def import_root(self, root, name):
        """Makes an image of a folder."""
        container = self.buildah("from", "scratch")
        self.buildah("copy", "--quiet", container, root, "/")
        self.buildah("commit", "--quiet", "--rm", container, name)

    def build(self, target, name, **arguments):
        """Builds a target of the Dockerfile from this tree. buildah passes the environment's proxies on."""
        given = [*build_arguments(arguments), *shared_results()]
        # Docker's format: the other one has no place for a health check.
        self.buildah("build", "--isolation", "chroot", "--format", "docker", "--layers=false", "--pull=never", *given,
                     "--file", DOCKERFILE, "--target", target, "--tag", name, TREE)

    def configuration(self, name):
        """What the image says of how it is run."""
        return json.loads(self.buildah("inspect", "--type", "image", name))["Docker"]["config"]

    def mount(self, name):
        """A new container's root file system, as a folder."""
        container = self.buildah("from", "--pull=never", name)
        self.mounted.append(container)
        return pathlib.Path(self.buildah("mount", container))

    def remove(self):
        """Deletes all of it."""
        for container in self.mounted:
            self.buildah("umount", container)
            self.buildah("rm", container)
        self.folder.cleanup()


def no_image():
    """Why no image can be built here; empty when one can."""
    if reason := debian_root.missing():
        return reason
    return "" if shutil.which("buildah") else "buildah is not installed"


def build_arguments(given):
    return [word for key, value in given.items() for word in ("--build-arg", f"{key}={value}")]


def shared_results():
    """Words for buildah that let the compiler find what ./dev package left: the same paths, folder and arguments."""
    if not shutil.which("ccache"):
        return []
    asked = subprocess.run(["ccache", "--get-config", "cache_dir"], capture_output=True, text=True, check=True)
    folder = pathlib.Path(asked.stdout.strip())
    folder.mkdir(parents=True, exist_ok=True)
    options = " ".join(f"-D{key}={os.environ.get(key, 'OFF')}" for key in ("PENSTOCK_WERROR", "PENSTOCK_UNITY"))
    given = {"CCACHE_DIR": "/ccache", "SOURCE": TREE, "CMAKE_ARGS": options}
    return ["--volume", f"{folder}:/ccache", *build_arguments(given)]


def host_image(store, name):
    """Builds the target `host` on a Debian made by debootstrap. Returns what the image says of how it is run."""
    store.import_root(debian_root.kept_root(), BASE)
    store.build("host", name, BASE=BASE)
    return store.configuration(name)


# The list that buildah and podman use (its package has it). Docker's also keeps a container without CAP_SYS_NICE from
# saying where memory should lie.
SYSTEM_CALLS = pathlib.Path("/usr/share/containers/seccomp.json")
WITHHELD_BY_DOCKER = ("get_mempolicy", "mbind", "set_mempolicy", "set_mempolicy_home_node")


class Container:
    """A running container. `end` it.

    As with `docker run --read-only --cap-drop ALL --security-opt no-new-privileges`: the image's own user, environment
    and entry point, a read-only root, no capabilities, the engine's list of system calls, and namespaces of its own for
    processes, mounts, IPC, host name and network. A pair of virtual Ethernet devices stands for the engine's bridge.
    There are no limits by cgroup.
    """

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

    def signal(self, name):
        """Sends a signal to its first process, by name."""
        subprocess.run(self.runc("kill", self.name, name), check=True)

    def wait(self):
        """Waits for its end. Returns its exit code and its log."""
        return self.process.wait(60), self.log.read_text()

    def end(self):
        """Ends it, whatever its state, and deletes its folder."""
        if self.process.poll() is None:
            self.signal("KILL")
            self.process.wait(60)
        self.folder.cleanup()


def no_container():
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


IMAGE = "localhost/penstock-test:host"


@unittest.skipIf(no_image() or no_container(), no_image() or no_container())
class DockerTest(unittest.TestCase):
    """One image for all; each test that needs a container has its own."""

    @classmethod
    def setUpClass(cls):
        cls.store = ImageStore()
        cls.addClassCleanup(cls.store.remove)
        cls.image = host_image(cls.store, IMAGE)
        cls.root = cls.store.mount(IMAGE)

    def container(self, *arguments, **more):
        made = Container(self.root, self.image, *arguments, **more)
        self.addCleanup(made.end)
        return made

    def run_to_its_end(self, *arguments, **more):
        """Returns what it said, but for its log."""
        container = self.container(*arguments, **more)
        code, log = container.wait()
        self.assertEqual(code, 0, log)
        return container.output.read_text()

    def configuration_with_keys(self, folder):
        """Lets a folder be /etc/penstock of a daemon that asks for keys. Returns the public one."""
        os.chown(folder, 7600, 7600)
        public = {}
        for name in ("daemon", "health"):
            said = self.run_to_its_end("keygen", "--output", f"/etc/penstock/{name}.key", "--name", name,
                                       entry_point=["penstock"], folders={folder: "/etc/penstock"})
            public[name] = re.fullmatch(rf"(\S{{40}}) {name}\n", said).group(1)
        (folder / "authorized_keys").write_text(public["health"] + " health\n")
        text = (TREE / "deploy/docker/penstock.toml").read_text()
        (folder / "penstock.toml").write_text(text.replace(
            "insecure_plaintext_beyond_loopback = true",
            'secret_key_file = "daemon.key"\nauthorized_keys_file = "authorized_keys"'))
        return public["daemon"]

    def test_image_says_how_it_is_run(self):
        self.assertEqual(self.image["User"], "7600:7600")
        self.assertEqual(self.image["StopSignal"], "SIGTERM")
        self.assertEqual(set(self.image["ExposedPorts"]), {"7600/tcp", "7680/tcp"})
        self.assertEqual(self.image["Healthcheck"]["Test"][:2], ["CMD", "penstock"])
        labels = self.image["Labels"]
        self.assertEqual(labels["org.opencontainers.image.licenses"], "Apache-2.0")
        self.assertIn(labels["org.opencontainers.image.version"], self.run_to_its_end("--version"))

    def test_image_holds_no_compiler_and_no_source(self):
        packages = (self.root / "var/lib/dpkg/status").read_text()
        for each in ("g++", "cmake", "libzmq3-dev"):
            self.assertNotIn(f"Package: {each}\n", packages)
        for each in ("source", "build", "image", "ccache", str(TREE).lstrip("/")):
            self.assertEqual([*(self.root / each).glob("*")], [], each)

    def test_its_configuration_is_right(self):
        self.assertIn("good, 2 pipelines", self.run_to_its_end("--check-config"))

    @unittest.skipIf(missing(client=True), missing(client=True))
    def test_recording_through_the_container_equals_the_reference(self):
        from penstock import Client
        reference = load_reference()
        sidecar, raw = reference.load(str(RECORDINGS / "modes1.cu8.json"))
        expected = (np.abs(reference.convert(sidecar, raw)[0]) ** 2).ravel()
        samples = np.fromfile(RECORDINGS / "modes1.cu8", np.uint8).reshape(-1, 2)
        container = self.container()
        container.wait_until_healthy()
        with Client(f"tcp://{container.connect()}:7600") as client:
            futures = [client.submit("modes", samples[at:at + 4096]) for at in range(0, len(samples), 4096)]
            power = np.concatenate([np.asarray(each.result()["power"]).ravel() for each in futures])
        self.assertEqual(power.shape, expected.shape)
        np.testing.assert_allclose(power, expected, rtol=1e-5, atol=1e-6)

    def test_its_process_has_no_rights_and_its_root_can_not_be_written(self):
        container = self.container()
        container.wait_until_healthy()
        lines = pathlib.Path(f"/proc/{container.pid()}/status").read_text().splitlines()
        status = dict(line.split(":\t", 1) for line in lines)
        self.assertEqual(set(status["Uid"].split() + status["Gid"].split()), {"7600"})
        for each in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
            self.assertEqual(int(status[each], 16), 0, each)
        self.assertEqual((status["NoNewPrivs"], status["Seccomp"]), ("1", "2"))
        for each in ("/", "/etc/penstock", "/run/penstock", "/var/cache/penstock", "/tmp"):
            self.assertIn("Read-only file system", container.execute("touch", f"{each}/mark").stderr)

    def test_health_check_tells_a_daemon_that_answers_from_one_that_does_not(self):
        container = self.container()
        container.wait_until_healthy()
        container.signal("STOP")
        self.assertEqual(container.health(), "unhealthy")
        container.signal("CONT")
        self.assertEqual(container.health(), "healthy")

    def test_with_keys_the_health_check_has_one_and_nobody_gets_in_without(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            public = self.configuration_with_keys(folder)
            container = self.container(folders={folder: "/etc/penstock"}, environment={
                "PENSTOCK_SERVER_KEY": public, "PENSTOCK_KEY_FILE": "/etc/penstock/health.key"})
            container.wait_until_healthy()
            keyless = container.execute("env", "-u", "PENSTOCK_SERVER_KEY", "-u", "PENSTOCK_KEY_FILE", "penstock",
                                        "--timeout", "1s", "ping")
            self.assertEqual(keyless.returncode, 1, keyless.stdout)
            self.assertEqual(container.health(), "healthy")

    def test_stop_signal_ends_it_with_0(self):
        container = self.container()
        container.wait_until_healthy()
        container.signal(self.image["StopSignal"].removeprefix("SIG"))
        code, log = container.wait()
        self.assertEqual(code, 0, log)


if __name__ == "__main__":
    unittest.main()
