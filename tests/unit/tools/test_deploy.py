"""docker-compose.yml, Dockerfile and units as files: valid, closed, and their numbers are those of
the program."""

from __future__ import annotations

import fnmatch
import importlib.metadata
import importlib.resources
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from scraper.infra.setting_sources import variable
from scraper.process.shutdown import LATE_S
from scraper.settings import Settings
from tests.support.deploy import compose, dockerfile
from tests.support.deploy.promtool import promtool

ROOT = Path(__file__).parents[3]
SERVICES = compose.read()["services"]
BUILT = {name: spec for name, spec in SERVICES.items() if "build" in spec}
WORKERS = [name for name, spec in SERVICES.items() if "worker" in spec.get("command", [])]
SIGNS = [name for name, spec in BUILT.items() if "CMD-SHELL" in spec["healthcheck"].get("test", [])]
UNITS = ROOT / "deploy" / "systemd"


def test_the_compose_file_is_valid() -> None:
    folder = importlib.resources.files("check_jsonschema") / "builtin_schemas" / "vendor"
    schema = json.loads((folder / "compose-spec.json").read_text())
    raw = yaml.safe_load(compose.FILE.read_text())
    jsonschema.validate(raw, schema)
    raw["services"]["beat"]["comand"] = []
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(raw, schema)


def test_all_services_are_there() -> None:
    expected = {
        "redis",
        "postgres",
        "migrate",
        "coordinator",
        "beat",
        "flower",
        "rabbitmq",
        "metrics",
        "prometheus",
        "grafana",
    }
    assert set(SERVICES) == expected | {"worker-residential", "worker-datacenter", "worker-browser"}
    assert "-B" not in SERVICES["coordinator"]["command"], "beat is a service of its own"


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_is_closed(name: str) -> None:
    spec = SERVICES[name]
    assert "no-new-privileges:true" in spec["security_opt"] and "privileged" not in spec
    # whose images begin as root, and write where they please
    if name not in ("postgres", "rabbitmq"):
        assert spec["read_only"] is True and spec["cap_drop"] == ["ALL"]
    for port in spec.get("ports", []):
        assert port.startswith("127.0.0.1:"), "reached from this machine alone"
    if "build" not in spec:
        assert re.search(r":v?\d+\.\d+", spec["image"]), "a pinned image"
    assert spec["restart"] == ("no" if name == "migrate" else "unless-stopped")
    assert name == "migrate" or spec["healthcheck"]["test"]


def test_no_variable_holds_a_secret(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, ROOT / "deploy" / "make_secrets.py", tmp_path],
        check=True,
        capture_output=True,
    )
    defined = compose.read()["secrets"]
    assert {Path(each["file"]).name for each in defined.values()} <= {
        path.name for path in tmp_path.iterdir()
    }
    known = {variable(name, field) for name, field in Settings.model_fields.items()}
    for name, spec in SERVICES.items():
        used = {
            each if isinstance(each, str) else each["source"] for each in spec.get("secrets", [])
        }
        assert used <= set(defined)
        for key, value in (spec.get("environment") or {}).items():
            if re.search("PASS|SECRET|URL|TOKEN", key):
                assert key.endswith("_FILE"), f"{key} of {name}"
                assert not value or Path(value).name in used, (
                    f"{key} of {name} names a file that it is not given"
                )
            assert name not in BUILT or key.removesuffix("_FILE") in known, (
                f"{key} of {name} is no setting"
            )


def minimum_s() -> float:
    return float(Settings.model_fields["stop_s"].default) + LATE_S


@pytest.mark.parametrize("name", WORKERS)
def test_a_worker_has_the_time_it_needs_to_stop(name: str) -> None:
    """What it may take, a margin, and no more than a lease: by then its pages are others' anyway."""
    grace_s = compose.seconds(SERVICES[name]["stop_grace_period"])
    assert minimum_s() + 5 <= grace_s <= Settings.model_fields["lease_s"].default


def test_systemd_gives_the_same_time() -> None:
    found = re.search(
        r"^TimeoutStopSec=(\d+)$", (UNITS / "scraper-.service.d" / "common.conf").read_text(), re.M
    )
    assert found and float(found[1]) == compose.seconds(
        SERVICES["worker-datacenter"]["stop_grace_period"]
    )


def test_each_process_has_a_unit() -> None:
    """With docker-compose's command, but for the place it is bound to."""
    for name, spec in BUILT.items():
        if name == "migrate":
            continue
        path = UNITS / (
            f"scraper-{name}.service"
            if not name.startswith("worker-")
            else "scraper-worker@.service"
        )
        text = path.read_text().replace("%%", "%").replace("/usr/local/scraper/.venv/bin/", "")
        words = [word for word in spec["command"] if not word.startswith(("--", "0.0.0.0", "9750"))]
        if name.startswith("worker-"):
            words = words[: words.index("-Q")]
        assert f"ExecStart={' '.join(words)}" in text or f"exec {' '.join(words)}" in text, (
            path.name
        )


def test_the_image_copies_what_there_is() -> None:
    """And what Docker is given: .dockerignore leaves out all that it does not name."""
    given = [
        line[1:]
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    ]
    stages = dockerfile.stages()
    for stage in stages.values():
        for name in stage.copied:
            assert (ROOT / name).exists(), f"{name} of {stage.name}"
            assert any(fnmatch.fnmatch(name, each) for each in given), (
                f"{name} is not in .dockerignore"
            )
    assert list(stages)[-1] == "app", "what `docker build .` makes"


def test_the_image_knows_its_version(tmp_path: Path) -> None:
    """The line that writes it, run: `scraper --version` and the exporter ask, and the checkout is
    not installed there."""
    (line,) = [line for line in dockerfile.stages()["app"].runs if "dist-info" in line]
    (tmp_path / "scraper").mkdir()
    (tmp_path / "pyproject.toml").write_text(
        (ROOT / "pyproject.toml").read_text().replace("0.2.0", "4.5.6", 1)
    )
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    subprocess.run(["sh", "-c", line], cwd=tmp_path, env={**os.environ, "PATH": path}, check=True)
    (found,) = importlib.metadata.distributions(name="celery-scraper", path=[str(tmp_path)])
    assert found.version == "4.5.6"


def test_the_image_has_what_the_program_imports() -> None:
    """What nothing asks for in its metadata, and the tests' own environment has anyway."""
    locked = {
        line.partition("==")[0]
        for line in (ROOT / "requirements" / "runtime.txt").read_text().splitlines()
    }
    assert "packaging" in locked, "kombu's Redis transport"


def shell_problem(line: str) -> str:
    """What a shell says that only parses the line; empty where it understands it."""
    words = ["sh", "-n", "-c", line]
    return subprocess.run(words, capture_output=True, text=True, check=False).stderr


def test_what_the_image_runs_can_be_read_by_a_shell() -> None:
    lines = [line for stage in dockerfile.stages().values() for line in stage.runs]
    assert len(lines) > 5
    assert [problem for line in lines if (problem := shell_problem(line))] == []
    assert shell_problem("if true; then echo") != ""


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, spec in BUILT.items()
        if "CMD-SHELL" in (spec["healthcheck"].get("test") or [])
    ],
)
def test_a_service_is_looked_at_as_its_image_says(name: str) -> None:
    """And the stage it is built from is one, runs as an ordinary user, and starts what a worker's
    service starts."""
    stage = dockerfile.stages()[BUILT[name]["build"]["target"]]
    assert stage.user == "10001:10001" and stage.health is not None
    assert stage.health.replace('"', "") == BUILT[name]["healthcheck"]["test"][-1]
    assert stage.env["SCRAPER_HEARTBEAT"] == BUILT[name]["environment"]["SCRAPER_HEARTBEAT"]


def test_browser_workers_have_a_browser() -> None:
    spec, stage = SERVICES["worker-browser"], dockerfile.stages()["browser"]
    assert (
        spec["build"]["target"] == "browser"
        and spec["image"] != SERVICES["worker-datacenter"]["image"]
    )
    assert stage.env["SCRAPER_CHROMIUM"] == "/usr/bin/chromium" and any(
        "chromium" in line for line in stage.runs
    )
    profile = next(
        each for each in spec["security_opt"] if each.startswith("seccomp=")
    ).removeprefix("seccomp=")
    assert json.loads((ROOT / profile).read_text())["syscalls"]


def test_prometheus_looks_where_they_are() -> None:
    promtool("check", "config", "compose.yml", cwd=ROOT / "deploy" / "prometheus")
    config = yaml.safe_load((ROOT / "deploy" / "prometheus" / "compose.yml").read_text())
    fleet, workers = config["scrape_configs"]
    name, port = fleet["static_configs"][0]["targets"][0].split(":")
    assert (
        port in SERVICES[name]["command"]
        and str(Settings.model_fields["exporter_port"].default) == port
    )
    (found,) = workers["dns_sd_configs"]
    watched = {name for name, service in SERVICES.items() if "watch" in service["networks"]}
    assert set(found["names"]) == {name for name in watched if name.startswith("worker-")}
    assert all(
        SERVICES[each]["environment"]["SCRAPER_METRICS_PORT"] == found["port"]
        for each in found["names"]
    )


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_a_service_has_little_to_break_out_with(name: str) -> None:
    service = SERVICES[name]
    assert service["cap_drop"] == ["ALL"] and "no-new-privileges:true" in service["security_opt"]
    assert set(service.get("cap_add", ())) <= {
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "SETGID",
        "SETUID",
    }
    assert 0 < service["pids_limit"] <= 2048
    assert "size=" in service.get("tmpfs", "size=") and "privileged" not in service
    own = "build" in service
    assert own or re.search(r":v?\d+\.\d+", service["image"]), "pinned to a minor version"


def test_browsers_and_flower_reach_no_exporter() -> None:
    reach = {name: set(service["networks"]) for name, service in SERVICES.items()}
    for name in ("worker-browser", "flower"):
        assert not reach[name] & (reach["prometheus"] | reach["grafana"])
    assert reach["metrics"] & reach["prometheus"] and reach["metrics"] & reach["postgres"]


def test_grafana_finds_its_dashboard() -> None:
    spec = SERVICES["grafana"]
    mounted = dict(volume.split(":")[1::-1] for volume in spec["volumes"])
    folder = ROOT / "deploy" / "grafana"
    (source,) = yaml.safe_load((folder / "provisioning/datasources/prometheus.yml").read_text())[
        "datasources"
    ]
    assert source["url"] == "http://prometheus:9090" and SERVICES["prometheus"]["ports"] == [
        "127.0.0.1:9090:9090"
    ]
    (provider,) = yaml.safe_load((folder / "provisioning/dashboards/scraper.yml").read_text())[
        "providers"
    ]
    home: Any = spec["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert str(Path(home).parent) == provider["options"]["path"]
    assert json.loads((ROOT / mounted[home]).read_text())["title"] == "scraper"
    assert (ROOT / mounted["/etc/grafana/provisioning"]).is_dir()
