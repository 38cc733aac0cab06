"""Penstock's Debian packages on a bare Debian 12: installed, upgraded, purged.

`./dev package` makes the packages that are tested; debian_root says which variables name other folders.
"""

import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import debian_root

EDIT = "# of this machine\n"


def version_of(package):
    return subprocess.run(["dpkg-deb", "--field", package, "Version"], capture_output=True, text=True,
                          check=True).stdout.strip()


def with_higher_version(package, folder):
    """The same package again, of a later version."""
    contents = folder / package.stem
    subprocess.run(["dpkg-deb", "--raw-extract", package, contents], check=True)
    control = contents / "DEBIAN/control"
    # Our packages ask for each other's version, too.
    control.write_text(control.read_text().replace(version_of(package), version_of(package) + "+later"))
    for file in contents.glob("etc/penstock/penstock.toml"):
        file.write_text(file.read_text() + "# of the later version\n")
    made = folder / package.name.replace("_", "_later_", 1)
    subprocess.run(["dpkg-deb", "--root-owner-group", "-Znone", "--build", contents, made], check=True,
                   stdout=subprocess.DEVNULL)
    return made


class PackagesTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        why = debian_root.missing() or debian_root.missing_packages()
        if why:
            raise unittest.SkipTest(why)
        cls.packages = debian_root.package_files()
        cls.root = debian_root.fresh_root("libzmq5", "python3-numpy", "python3-zmq", "systemd-standalone-sysusers")
        cls.addClassCleanup(cls.root.remove)

    def traces(self):
        """Every file and folder that has the project's name."""
        found = self.root.run("find", "/", "-xdev", "-name", "*penstock*").stdout.split()
        return sorted(path for path in found if not path.startswith(("/proc", "/dev")))

    def installed(self):
        listed = self.root.run("dpkg-query", "--show", "--showformat", "${Package} ${Version} ${Status}\\n").stdout
        return {line.split()[0]: line.split()[1] for line in listed.splitlines()
                if "penstock" in line and line.endswith(" ok installed")}

    def test_they_are_installed_upgraded_and_purged_without_a_trace(self):
        root = self.root
        self.assertEqual(self.traces(), [])

        root.install(*self.packages)
        self.assertEqual(set(self.installed()), {file.name.split("_")[0] for file in self.packages})
        self.assertTrue((root.path / "etc/systemd/system/multi-user.target.wants/penstockd.service").is_symlink())
        self.assertIn("good", root.run("penstockd", "--check-config").stdout)
        self.assertIn("penstock:", (root.path / "etc/passwd").read_text())

        root.serve("penstock info")
        python = "import penstock; penstock.Client('ipc:///run/penstock/data').close(); print(penstock.__version__)"
        root.serve(f'python3 -c "{python}"')

        configuration = root.path / "etc/penstock/penstock.toml"
        configuration.write_text(configuration.read_text() + EDIT)
        with tempfile.TemporaryDirectory() as folder:
            later = [with_higher_version(file, pathlib.Path(folder)) for file in self.packages]
            root.install(*later, options=("-o", "Dpkg::Options::=--force-confold"))
        self.assertTrue(all(version.endswith("+later") for version in self.installed().values()), self.installed())
        self.assertTrue(configuration.read_text().endswith(EDIT))

        root.run("apt-get", "--yes", "remove", "penstock")
        self.assertTrue(configuration.read_text().endswith(EDIT))
        root.run("apt-get", "--yes", "purge", "*penstock*")
        self.assertEqual(self.installed(), {})
        self.assertEqual(self.traces(), [])

    def test_the_manual_pages_are_where_man_looks(self):
        for page in ("man1/penstock.1.gz", "man5/penstock.toml.5.gz", "man8/penstockd.8.gz"):
            self.assertIn(f"./usr/share/man/{page}", self.contents("penstock"))

    def test_the_configuration_is_kept_as_conffiles(self):
        package, = debian_root.package_files("penstock")
        listed = subprocess.run(["dpkg-deb", "--info", package, "conffiles"], capture_output=True, text=True,
                                check=True).stdout.split()
        self.assertEqual(listed, [name.lstrip(".") for name in sorted(self.contents("penstock"))
                                  if name.startswith("./etc/") and not name.endswith("/")])

    def contents(self, name):
        package, = debian_root.package_files(name)
        listed = subprocess.run(["dpkg-deb", "--contents", package], capture_output=True, text=True, check=True).stdout
        return [line.split()[5] for line in listed.splitlines()]

    def test_the_programs_are_stripped_and_hardened(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("penstock", "libpenstock1"):
                package, = debian_root.package_files(name)
                subprocess.run(["dpkg-deb", "--extract", package, folder], check=True)
            files = [*pathlib.Path(folder).glob("usr/bin/*"), *pathlib.Path(folder).rglob("libpenstock.so.1.*")]
            self.assertEqual(len(files), 3)
            for file in files:
                with self.subTest(file.name):
                    said = subprocess.run(["readelf", "--wide", "--file-header", "--dynamic", "--segments",
                                           "--sections", "--dyn-syms", file], capture_output=True, text=True,
                                          check=True).stdout
                    for wanted in (r"Type: +DYN", r"GNU_RELRO", r"FLAGS.*BIND_NOW", r"__stack_chk_fail"):
                        self.assertRegex(said, wanted)
                    for unwanted in (r"R(UN)?PATH", r"\.symtab", r"\.debug_"):
                        self.assertIsNone(re.search(unwanted, said), unwanted)

    def test_lintian_finds_nothing(self):
        if shutil.which("lintian") is None:
            self.skipTest("lintian is not installed")
        done = subprocess.run(["lintian", "--allow-root", "--fail-on", "error,warning", *self.packages],
                              capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (0, ""))


if __name__ == "__main__":
    unittest.main()
