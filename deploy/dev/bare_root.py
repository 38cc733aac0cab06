"""Runs a command in a bare Debian 12 on a copy of this checkout: bare_root.py RESULTS COMMAND...

The root is debootstrap's minimum with git and ca-certificates, and goes when the command has ended; COMMAND installs
what else it needs. Of this machine it sees ccache's folder and, read only, the recordings and the reference. RESULTS
is a folder of the copy that is kept in build/bare. Needs root's rights and debootstrap. Exits with what COMMAND ended
with, or with 69 where no root can be made.
"""
import os
import pathlib
import shutil
import subprocess
import sys

TREE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TREE / "tests/system"))
import debian_root  # noqa: E402

NO_ROOT = 69
PASSED_ON = ("CI", "NO_COLOR", "PENSTOCK_WERROR", "PENSTOCK_UNITY", "PENSTOCK_JOBS", "PENSTOCK_RECORDINGS",
             "PENSTOCK_REFERENCE", "PENSTOCK_ATTACK_SECONDS")


def copy_checkout(to):
    """What git knows or would know of this checkout, as it is now."""
    listed = subprocess.run(["git", "-c", f"safe.directory={TREE}", "ls-files", "-z", "--cached", "--others",
                             "--exclude-standard"], cwd=TREE, check=True, capture_output=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        if (TREE / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(TREE / name, to / name, follow_symlinks=False)


def compiler_cache():
    """The folder of ccache on this machine, or None."""
    if shutil.which("ccache") is None:
        return None
    folder = pathlib.Path(subprocess.run(["ccache", "--get-config", "cache_dir"], capture_output=True, text=True,
                                         check=True).stdout.strip())
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def run(root, results, command):
    """The command's exit status."""
    # At the path that it has here: what the compiler has in its cache fits.
    copy = root.path / TREE.relative_to("/")
    copy_checkout(copy)
    environment = {name: os.environ[name] for name in PASSED_ON if os.environ.get(name)}
    mounts = [(environment[name], "ro") for name in ("PENSTOCK_RECORDINGS", "PENSTOCK_REFERENCE")
              if name in environment]
    if folder := compiler_cache():
        environment["CCACHE_DIR"] = str(folder)
        mounts.append((folder, "rw"))
    shutil.copyfile("/etc/resolv.conf", root.path / "etc/resolv.conf")
    with debian_root.downloads(root.path):
        words = root.entered("sh", "-c", 'cd "$0" && exec "$@"', TREE, *command, mounts=mounts)
        status = subprocess.run(words, env=debian_root.variables(environment), stdin=subprocess.DEVNULL).returncode
    kept = TREE / "build/bare" / pathlib.Path(results).name
    shutil.rmtree(kept, ignore_errors=True)
    if (copy / results).exists():
        shutil.copytree(copy / results, kept)
    return status


def main(results, *command):
    if reason := debian_root.missing():
        print(f"dev: no bare Debian can be made here: {reason}", file=sys.stderr)
        return NO_ROOT
    try:
        root = debian_root.fresh_root("ca-certificates", "git")
    except RuntimeError as error:
        print(f"dev: no bare Debian can be made here: {error}", file=sys.stderr)
        return NO_ROOT
    try:
        return run(root, results, command)
    finally:
        root.remove()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
