"""A minimal Debian 12 root in a folder, for the tests that install Penstock's packages on a machine of their own.

Needs root and debootstrap. A root is made once by debootstrap and kept; each test works in a copy of it. Commands run
by chroot in namespaces of their own, so nothing stays mounted and no process outlives its command.

PENSTOCK_DEBIAN_ROOTS names the folder of the kept roots (default: build/debian-roots), PENSTOCK_PACKAGES that of the
packages that ./dev package made (default: build/packages).
"""

import contextlib
import fcntl
import os
import pathlib
import shutil
import subprocess
import tempfile

SUITE = "bookworm"
TREE = pathlib.Path(__file__).resolve().parents[2]
ROOTS = pathlib.Path(os.environ.get("PENSTOCK_DEBIAN_ROOTS", TREE / "build/debian-roots")).resolve()
PACKAGES = pathlib.Path(os.environ.get("PENSTOCK_PACKAGES", TREE / "build/packages")).resolve()

# Mounts what a command expects of a machine, for this command alone; before "--" more of this machine: a path and ro or rw.
ENTER = """
set -e
mount --make-rprivate /
mount -t proc proc "$0/proc"
mount --rbind /dev "$0/dev"
mount -t tmpfs tmpfs "$0/run"
while [ "$1" != -- ]; do
  mkdir -p "$0$1"
  mount --bind "$1" "$0$1"
  mount -o "remount,bind,$2" "$0$1"
  shift 2
done
shift
exec chroot "$0" "$@"
"""

# A daemon as the service starts it, but for the service manager: its own user, its own configuration.
SERVE = """
set -e
install -d -o penstock -g penstock /run/penstock
setpriv --reuid penstock --regid penstock --init-groups \\
  penstockd --listen ipc:///run/penstock/data --admin none 2>/run/log &
export PENSTOCK_URL=ipc:///run/penstock/data
if ! penstock --timeout 60s ping >&2 || ! {client}; then
  cat /run/log >&2
  exit 1
fi
kill -TERM $!
wait $!
"""


class DebianRoot:
    """A root that a test may change as it likes."""

    def __init__(self, path):
        self.path = pathlib.Path(path)

    def run(self, *command, check=True, environment=None, stdin=None, timeout=600):
        """Runs a command inside as root. Returns what subprocess.run returns; a failure names what was said."""
        done = subprocess.run(self.entered(*command), env=variables(environment), input=stdin or "", capture_output=True,
                              text=True, timeout=timeout)
        if check and done.returncode != 0:
            raise RuntimeError(f"{command} ended with {done.returncode} in {self.path}:\n{done.stdout}{done.stderr}")
        return done

    def serve(self, client):
        """Runs a line of shell beside the installed daemon, which it finds without being told. Returns what it printed."""
        return self.run("sh", "-c", SERVE.format(client=client)).stdout

    def entered(self, *command, mounts=()):
        """The words that run a command inside as root; `mounts`: (folder of this machine, "ro" or "rw")."""
        words = [word for mount in mounts for word in mount]
        return list(map(str, ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", ENTER, self.path,
                              *words, "--", *command]))

    def install(self, *packages, options=()):
        """Installs with apt: names of Debian's packages, and paths of .deb files of this machine."""
        shutil.copyfile("/etc/resolv.conf", self.path / "etc/resolv.conf")
        with tempfile.TemporaryDirectory(dir=self.path / "var/tmp") as folder:
            os.chmod(folder, 0o755)
            wanted = [self.bring(each, folder) if str(each).endswith(".deb") else each for each in packages]
            with downloads(self.path):
                return self.run("apt-get", "install", "--yes", "--quiet", "--no-install-recommends", *options, *wanted)

    def bring(self, package, folder):
        """Copies a file into a folder of the root. Returns its path there."""
        there = shutil.copy(package, folder)
        return "/" + str(pathlib.Path(there).relative_to(self.path))

    def remove(self):
        """Deletes the whole root."""
        shutil.rmtree(self.path)


def missing():
    """Why no root can be made here, or None."""
    if os.geteuid() != 0:
        return "a Debian root needs root's rights to make"
    for tool in ("debootstrap", "unshare", "chroot"):
        if shutil.which(tool) is None:
            return f"{tool} is not installed"
    return None


def missing_packages():
    """Why Penstock's packages cannot be installed here, or None."""
    if not list(PACKAGES.glob("penstock_*.deb")):
        return f"there is no penstock_*.deb in {PACKAGES} (./dev package makes it)"
    return None


def package_files(*names):
    """The newest .deb of each of these packages; of every package in PACKAGES without names."""
    names = names or {each.name.split("_")[0] for each in PACKAGES.glob("*.deb")}
    return [max(PACKAGES.glob(f"{name}_*.deb"), key=lambda file: file.stat().st_mtime) for name in sorted(names)]


def fresh_root(*packages):
    """A copy of the root that has these packages of Debian besides the minimum. `remove` it in the end."""
    kept = kept_root(*packages)
    path = pathlib.Path(tempfile.mkdtemp(prefix="root-", dir=ROOTS))
    subprocess.run(["cp", "--archive", "--reflink=auto", f"{kept}/.", path], check=True)
    return DebianRoot(path)


def kept_root(*packages):
    """The root that copies are taken from, made where it is not there yet. Not to be changed."""
    kept = ROOTS / "-".join([SUITE, *sorted(packages)])
    ROOTS.mkdir(parents=True, exist_ok=True)
    with open(ROOTS / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            unfinished = pathlib.Path(tempfile.mkdtemp(prefix="new-", dir=ROOTS))
            try:
                make_root(unfinished, packages)
                unfinished.rename(kept)
            except BaseException:
                shutil.rmtree(unfinished)
                raise
    return kept


def make_root(path, packages):
    """A root by debootstrap, with the same sources of packages as this machine has."""
    path.chmod(0o755)
    sources = debian_sources()
    log = path.with_suffix(".log")
    with open(log, "w") as output:
        made = subprocess.run(["debootstrap", "--variant=minbase", SUITE, path, sources[0][0]],
                              stdout=output, stderr=output)
    if made.returncode != 0:
        raise RuntimeError(f"debootstrap can't make a root from {sources[0][0]}, which is no fault of this tree if that "
                           "can't be reached:\n" + log.read_text()[-4000:])
    log.unlink()
    (path / "etc/apt/apt.conf.d/proxy").write_text(apt_proxies())
    (path / "etc/apt/sources.list").write_text("".join(f"deb {uri} {suite} main\n" for uri, suite in sources))
    root = DebianRoot(path)
    shutil.copyfile("/etc/resolv.conf", path / "etc/resolv.conf")
    root.run("apt-get", "--quiet", "update")
    if packages:
        root.install(*packages)


def debian_sources():
    """(address, suite) of this machine's sources that belong to the suite, the suite itself first."""
    listed = subprocess.run(["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)",
                             "Created-By: Packages"], capture_output=True, text=True).stdout
    found = {tuple(line.split()[:2]) for line in listed.splitlines() if line.endswith(" main")}
    found = sorted((each for each in found if each[1].split("-")[0] == SUITE), key=lambda each: each[1])
    if not found or found[0][1] != SUITE:
        return [("http://deb.debian.org/debian", SUITE)]
    return found


def apt_proxies():
    """The lines of apt's own configuration that say by which way to the network."""
    dumped = subprocess.run(["apt-config", "dump"], capture_output=True, text=True).stdout.splitlines(keepends=True)
    return "".join(line for line in dumped if "proxy" in line.partition(" ")[0].lower())


def variables(more=None):
    """The environment of a command inside."""
    return {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8",
            "DEBIAN_FRONTEND": "noninteractive", **proxies(), **(more or {})}


def proxies():
    """The variables of this process's environment that say by which way to the network."""
    return {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}


@contextlib.contextmanager
def downloads(root):
    """Shares the packages that apt downloads between all the roots."""
    kept, archives = ROOTS / "archives", root / "var/cache/apt/archives"
    kept.mkdir(exist_ok=True)
    copy_new(kept, archives)
    yield
    copy_new(archives, kept)
    for each in archives.glob("*.deb"):
        each.unlink()


def copy_new(source, target):
    """Links each .deb that only `source` has into `target`."""
    for each in source.glob("*.deb"):
        with contextlib.suppress(FileExistsError):
            os.link(each, target / each.name)
