"""compose.yaml, the files that it mounts, and the systemd units fit each other and the documentation."""

import importlib.util
import json
import pathlib
import re
import shutil
import subprocess
import tomllib
import unittest

DEPLOY = pathlib.Path(__file__).resolve().parents[2] / "deploy"
DOCKER, SYSTEMD = DEPLOY / "docker", DEPLOY / "systemd"


def seconds(text):
    """A duration of whole seconds."""
    return int(re.fullmatch(r"(\d+)s", text).group(1))


@unittest.skipIf(importlib.util.find_spec("yaml") is None, "Python's yaml is not installed")
class ComposeTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        import yaml
        cls.read = staticmethod(lambda name: yaml.safe_load((DOCKER / name).read_text()))
        cls.services = cls.read("compose.yaml")["services"]
        cls.daemons = {name: cls.services[name] for name in ("penstock", "penstock-host")}
        cls.configuration = tomllib.loads((DOCKER / "penstock.toml").read_text())

    def test_no_container_has_rights_or_a_root_that_it_can_write(self):
        for name, service in self.services.items():
            with self.subTest(service=name):
                self.assertTrue(service["read_only"])
                self.assertEqual(service["cap_drop"], ["ALL"])
                self.assertEqual(service["security_opt"], ["no-new-privileges:true"])
                self.assertNotIn("privileged", service)
                self.assertNotIn("cap_add", service)

    def test_every_port_is_published_on_loopback_alone(self):
        for name, service in self.services.items():
            for port in service["ports"]:
                with self.subTest(service=name):
                    self.assertRegex(port, r"^127\.0\.0\.1:(\d+):\1$")

    def test_each_profile_has_one_daemon_and_what_watches_it(self):
        for profile, daemon in (("gpu", "penstock"), ("host", "penstock-host")):
            started = {name for name, service in self.services.items() if profile in service["profiles"]}
            self.assertEqual(started, {daemon, "prometheus", "grafana"})

    def test_only_the_daemon_with_a_gpu_reserves_one(self):
        [device] = self.daemons["penstock"]["deploy"]["resources"]["reservations"]["devices"]
        self.assertEqual(device, {"driver": "nvidia", "count": "all", "capabilities": ["gpu"]})
        self.assertNotIn("deploy", self.daemons["penstock-host"])

    def test_daemons_may_pin_memory_and_have_time_to_drain(self):
        drain = seconds(self.configuration["daemon"].get("drain_timeout", "10s"))
        for name, service in self.daemons.items():
            with self.subTest(service=name):
                self.assertEqual(service["ulimits"]["memlock"], -1)
                self.assertGreater(seconds(service["stop_grace_period"]), drain)

    def test_each_target_and_file_that_it_names_is_there(self):
        dockerfile = (DOCKER / "Dockerfile").read_text()
        for service in self.daemons.values():
            self.assertRegex(dockerfile, rf"(?m)^FROM \S+ AS {service['build']['target']}$")
            self.assertEqual((DOCKER / service["build"]["context"] / service["build"]["dockerfile"]).resolve(),
                             DOCKER / "Dockerfile")
        for service in self.services.values():
            for mount in service["volumes"]:
                if mount.startswith("./"):
                    self.assertTrue((DOCKER / mount.split(":")[0]).exists(), mount)
                    self.assertTrue(mount.endswith(":ro"), mount)

    def test_prometheus_asks_the_daemon_by_a_name_that_it_has_and_takes(self):
        [job] = self.read("prometheus.yml")["scrape_configs"]
        [target] = job["static_configs"][0]["targets"]
        name, port = target.split(":")
        self.assertIn(name, self.configuration["admin"]["names"])
        self.assertEqual(self.configuration["admin"]["listen"], f"0.0.0.0:{port}")
        self.assertIn(name, self.daemons)
        self.assertIn(name, self.daemons["penstock-host"]["networks"]["penstock"]["aliases"])

    def test_grafana_is_given_the_source_and_the_dashboard(self):
        [source] = self.read("grafana/provisioning/datasources/prometheus.yaml")["datasources"]
        name, port = source["url"].removeprefix("http://").split(":")
        self.assertIn(f"127.0.0.1:{port}:{port}", self.services[name]["ports"])
        [provider] = self.read("grafana/provisioning/dashboards/penstock.yaml")["providers"]
        mounts = dict(mount.split(":")[:2][::-1] for mount in self.services["grafana"]["volumes"])
        dashboards = DOCKER / mounts[provider["options"]["path"]]
        for file in dashboards.glob("*.json"):
            used = set(re.findall(r'"uid": "([^"]+)"', json.dumps(json.loads(file.read_text())["panels"])))
            self.assertEqual(used, {source["uid"]}, file.name)
        home = self.services["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
        self.assertTrue((dashboards / pathlib.Path(home).name).exists(), home)


UNIT = SYSTEMD / "penstockd.service"
WORST_EXPOSURE = 20  # tenths


@unittest.skipUnless(shutil.which("systemd-analyze"), "systemd-analyze is not installed")
class UnitFileTest(unittest.TestCase):
    def test_the_exposure_is_at_most_two(self):
        done = subprocess.run(
            ["systemd-analyze", "security", "--offline=true", "--no-pager", f"--threshold={WORST_EXPOSURE}", UNIT],
            capture_output=True, text=True)
        self.assertIn("Overall exposure level", done.stdout, done.stderr)
        self.assertEqual(done.returncode, 0, done.stdout)


class TemplateTest(unittest.TestCase):
    """penstockd@.service, for a second daemon beside the first."""

    NAMED = {"Description=Penstock, live data on a GPU": " (%i)", "EnvironmentFile=-/etc/default/penstock": "-%i",
             "Environment=CUDA_CACHE_PATH=%C/penstock": "/%i", "RuntimeDirectory=penstock": "-%i",
             "CacheDirectory=penstock": "/%i", "StateDirectory=penstock": "/%i"}

    @staticmethod
    def settings(unit):
        return [line for line in unit.read_text().splitlines() if not line.startswith("#")]

    def test_it_is_the_service_but_for_the_name_of_the_instance(self):
        expected = [(line + self.NAMED.get(line, "")).replace("/penstock.toml", "/%i.toml")
                    for line in self.settings(UNIT)]
        self.assertEqual(self.settings(SYSTEMD / "penstockd@.service"), expected)


if __name__ == "__main__":
    unittest.main()
