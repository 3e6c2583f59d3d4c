"""The files of `deploy/` are valid for the programs that read them: Compose, Kubernetes, systemd."""

import copy
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator, Draft202012Validator

from tests.conftest import REQUIRED, ROOT

SCHEMAS = Path(__file__).parent / "schemas"
KINDS = {"Deployment": "io.k8s.api.apps.v1.Deployment", "Service": "io.k8s.api.core.v1.Service"}


def compose_faults(text: str) -> list[str]:
    validator = Draft7Validator(json.loads((SCHEMAS / "compose-spec.json").read_text("utf-8")))
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(yaml.safe_load(text))]


def kubernetes_faults(document: dict[str, Any]) -> list[str]:
    definitions = json.loads((SCHEMAS / "kubernetes-1.37.json").read_text("utf-8"))["$defs"]
    schema = {"$defs": definitions, "$ref": f"#/$defs/{KINDS[document['kind']]}"}
    return [
        f"{error.json_path}: {error.message}" for error in Draft202012Validator(schema).iter_errors(document)
    ]


@pytest.mark.parametrize("path", sorted((ROOT / "deploy").glob("compose*.yaml")), ids=lambda path: path.name)
def test_services_are_valid_for_compose(path: Path) -> None:
    text = path.read_text("utf-8")
    assert compose_faults(text) == []
    assert compose_faults(text.replace("environment:", "environments:")) != [] or "environment:" not in text


def test_a_key_that_compose_does_not_have_is_found() -> None:
    assert compose_faults("services: {rumi: {image: rumi, memlimit: 4g}}")
    assert compose_faults("services: {rumi: {image: rumi, cap_drop: ALL}}")


def test_pods_are_valid_for_kubernetes() -> None:
    documents = list(yaml.safe_load_all((ROOT / "deploy/kubernetes.yaml").read_text("utf-8")))
    assert [document["kind"] for document in documents] == ["Deployment", "Service"]
    assert [kubernetes_faults(document) for document in documents] == [[], []]
    for path, value in (("replicas", "three"), ("replica", 3)):
        wrong = copy.deepcopy(documents[0])
        wrong["spec"][path] = value
        assert kubernetes_faults(wrong)


def units() -> dict[str, str]:
    """The units of `deploy/` and of the page for operators, by their names."""
    page = (ROOT / "docs/operations.md").read_text("utf-8")
    (shown,) = re.findall(r"^```ini\n(#[^\n]*\n\[Unit\]\n.*?)^```", page, re.MULTILINE | re.DOTALL)
    return {"rumi@.service": (ROOT / "deploy/rumi@.service").read_text("utf-8"), "rumi.service": shown}


@pytest.mark.parametrize("name", sorted(units()))
def test_units_are_valid_for_systemd(name: str, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        assert "systemd" not in REQUIRED, "systemd-analyze is not installed"
        pytest.skip("there is no systemd-analyze; on Debian: apt-get install systemd")

    def said(text: str) -> str:
        # The program is installed on the server, not here.
        (tmp_path / name).write_text(text.replace("/opt/rumi/.venv/bin/rumi", "/bin/true"))
        command = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(tmp_path / name)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        return done.stderr + done.stdout

    unit = units()[name]
    assert unit
    assert said(unit) == ""
    assert "Unknown key" in said(unit.replace("KillMode=", "KillMod="))
