"""Images built by buildah from the Dockerfile, in a folder of their own, for the tests in Python.

Needs root and debootstrap, which makes the base image in place of one from a registry. What ccache holds of this tree
is not compiled again. PENSTOCK_IMAGE_CACHE names the folder where apt's downloads are kept between builds (default:
build/image-cache).
"""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile

import debian_root

TREE = debian_root.TREE
DOCKERFILE = TREE / "deploy/docker/Dockerfile"
KEPT = pathlib.Path(os.environ.get("PENSTOCK_IMAGE_CACHE", TREE / "build/image-cache")).resolve()
BASE = "localhost/penstock-test-base:bookworm"


class ImageStore:
    """Images and containers of buildah. `remove` it in the end."""

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


def missing():
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
