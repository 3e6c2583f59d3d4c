"""What `deploy/` says of the code, the documents and its own other files."""

import json
import re
import shlex
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest
import yaml

from docs.making import profile
from docs.making.shown import misread
from rumi.platform.config.cascade import load_settings
from rumi.platform.config.schema import StoreSection

ROOT = Path(__file__).resolve().parent.parent
DOCKERFILE = re.sub(r"\\\n", "", (ROOT / "deploy/Dockerfile").read_text("utf-8"))
SERVICE = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text("utf-8"))["services"]["rumi"]


def lines(instruction: str) -> list[str]:
    return re.findall(rf"^{instruction} (.*)$", DOCKERFILE, re.MULTILINE)


def environment() -> dict[str, str]:
    return dict(word.split("=", 1) for line in lines("ENV") for word in shlex.split(line))


def in_context(path: str) -> bool:
    """Return True if `.dockerignore` lets a path through: the last pattern that matches it decides."""
    sent = True
    for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines():
        pattern = line.removeprefix("!").removeprefix("**/")
        candidates = Path(path).parts if "**/" in line else [path, *map(str, Path(path).parents)]
        if not line.startswith("#") and any(fnmatch(candidate, pattern) for candidate in candidates):
            sent = line.startswith("!")
    return sent


def test_what_is_copied_is_there_and_all_that_the_package_needs() -> None:
    copied = {word for line in lines("COPY") if "--from" not in line for word in line.split()[:-1]}
    assert all((ROOT / path).exists() and in_context(path) for path in copied)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    packages = set(project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])
    assert copied == packages | {
        *(project["project"]["readme"], "pyproject.toml", "requirements.lock"),
        project["tool"]["hatch"]["build"]["hooks"]["custom"]["path"],
    }


@pytest.mark.parametrize("path", [".env", "rumi/.env", ".git/config", ".venv/bin/rumi", "tests/conftest.py"])
def test_keys_and_what_is_not_needed_stay_out(path: str) -> None:
    assert not in_context(path)
    assert in_context("rumi/cli/serve.py")


def test_its_command_health_check_and_settings_are_rumis(tmp_path: Path) -> None:
    (command,), (entry,) = map(json.loads, lines("CMD")), map(json.loads, lines("ENTRYPOINT"))
    assert entry == ["rumi"]
    assert misread(command) == ""
    (check,) = lines("HEALTHCHECK")
    assert misread(check.partition("CMD rumi ")[2].partition(" > ")[0].split()) == ""
    assert load_settings(tmp_path, environment(), {}).settings.sandbox.backend == "bubblewrap"


def test_the_service_agrees_with_the_image_and_with_systemd() -> None:
    (command,) = map(json.loads, lines("CMD"))
    port = command[-1].rpartition(":")[2]
    assert lines("EXPOSE") == [port]
    assert SERVICE["ports"] == [f"127.0.0.1:{port}:{port}"]  # the page answers only to its own port
    home = environment()["RUMI_HOME"]
    assert lines("VOLUME") == [home]
    assert SERVICE["volumes"] == [f"home:{home}"]
    assert (ROOT / "deploy" / SERVICE["build"]["context"] / SERVICE["build"]["dockerfile"]).exists()
    unit = (ROOT / "docs/operations.md").read_text("utf-8")
    assert SERVICE["stop_grace_period"] == f"{int(re.findall('TimeoutStopSec=(.*)', unit)[0]) // 60}m"


def test_its_system_calls_are_those_of_commands_and_few_more() -> None:
    assert f"seccomp={profile.TARGET.name}" in SERVICE["security_opt"]
    assert profile.TARGET.read_text("utf-8") == profile.rendered(), "make docs"


CLUSTER = yaml.safe_load((ROOT / "deploy/compose.cluster.yaml").read_text("utf-8"))
KUBERNETES = list(yaml.safe_load_all((ROOT / "deploy/kubernetes.yaml").read_text("utf-8")))


def test_workers_of_compose_are_alike_and_their_settings_are_rumis(tmp_path: Path) -> None:
    database, *workers = CLUSTER["services"].values()
    assert len(workers) == 3
    assert all(worker == workers[0] for worker in workers)
    assert misread(workers[0]["command"]) == ""
    assert workers[0]["security_opt"] == SERVICE["security_opt"]
    store = load_settings(tmp_path, workers[0]["environment"], {}).settings.store
    assert store.url.startswith(f"postgresql://{database['environment']['POSTGRES_USER']}@postgres:")
    assert store.url.partition("?")[0].endswith(f"/{database['environment']['POSTGRES_DB']}")
    assert _seconds(workers[0]["stop_grace_period"]) > store.drain_s


def test_pods_have_no_state_and_their_settings_are_rumis(tmp_path: Path) -> None:
    deployment, service = KUBERNETES
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert all("emptyDir" in volume for volume in pod["volumes"])
    assert misread(container["args"]) == ""
    given = {variable["name"]: variable["value"] for variable in container["env"]}
    settings = load_settings(tmp_path, given, {}).settings
    assert pod["terminationGracePeriodSeconds"] > settings.store.drain_s
    (port,) = container["ports"]
    assert settings.telegram.listen == f"0.0.0.0:{port['containerPort']}"
    probes = {container[name]["httpGet"]["path"] for name in ("livenessProbe", "readinessProbe")}
    assert probes == {"/healthz", "/readyz"}
    assert service["spec"]["ports"][0]["targetPort"] == port["name"]
    assert pod["securityContext"]["runAsUser"] == 10001


def test_the_unit_of_workers_gives_each_a_home_and_time_to_hand_over() -> None:
    unit = (ROOT / "deploy/rumi@.service").read_text("utf-8")
    (command,) = re.findall(r"^ExecStart=\S+/rumi (.*)$", unit, re.MULTILINE)
    assert misread(shlex.split(command)) == ""
    assert "RUMI_HOME=/var/lib/rumi/%i" in unit
    (stop_s,) = re.findall(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)
    drain_s = StoreSection().drain_s
    assert int(stop_s) > drain_s


def _seconds(text: str) -> int:
    return int(text.removesuffix("m")) * 60


@pytest.mark.parametrize(
    ("newer", "advice"), [("exit 127", "sudo apt install python3.11"), ("exit 0", "PYTHON=python3.12")]
)
def test_an_old_python_is_told_of_a_newer_one_only_if_it_runs(
    tmp_path: Path, newer: str, advice: str
) -> None:
    for name, line in {"python3.13": "exit 127", "python3.12": newer, "python3.11": "exit 127"}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{line}\n", "utf-8")
        (tmp_path / name).chmod(0o755)
    old = "import sys, runpy; sys.version_info = (3, 9); sys.argv = sys.argv[1:]; "
    old += "runpy.run_path(sys.argv[0], run_name='__main__')"
    command = [sys.executable, "-c", old, str(ROOT / "deploy/environment.py"), str(tmp_path / "venv")]
    done = subprocess.run(command, capture_output=True, text=True, env={"PATH": str(tmp_path)})
    assert done.returncode == 1
    assert advice in done.stderr
    assert "python3.13" not in done.stderr
