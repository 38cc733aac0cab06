"""The image that the Dockerfile's target `host` makes: built by buildah, run by runc, fed with a recording.

image_build.py says what building needs, oci_container.py what of Docker's way to run a container holds here, and
recordings.py where the recordings are.
"""

import os
import pathlib
import re
import tempfile
import unittest

import image_build
import oci_container
from recordings import RECORDINGS, load_reference, missing, np

IMAGE = "localhost/penstock-test:host"


@unittest.skipIf(image_build.missing() or oci_container.missing(), image_build.missing() or oci_container.missing())
class DockerTest(unittest.TestCase):
    """One image for all; each test that needs a container has its own."""

    @classmethod
    def setUpClass(cls):
        cls.store = image_build.ImageStore()
        cls.addClassCleanup(cls.store.remove)
        cls.image = image_build.host_image(cls.store, IMAGE)
        cls.root = cls.store.mount(IMAGE)

    def container(self, *arguments, **more):
        made = oci_container.Container(self.root, self.image, *arguments, **more)
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
        text = (image_build.TREE / "deploy/docker/penstock.toml").read_text()
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
        for each in ("source", "build", "image", "ccache", str(image_build.TREE).lstrip("/")):
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
