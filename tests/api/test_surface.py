"""What a plugin can see of Rumi stays as it was: each name and each signature of an earlier version.

`RUMI_SURFACE=write pytest tests/api/test_surface.py` stores the interface of a new version.
"""

import dataclasses
import inspect
import json
import os
from dataclasses import MISSING
from pathlib import Path

import pytest

from rumi import api
from rumi.api import testing
from rumi.platform.config.plugins import API, is_compatible

HERE = Path(__file__).parent


def described(thing: object) -> object:
    """A class's fields, methods and signatures, or a function's signature."""
    if inspect.isclass(thing):
        members: dict[str, object] = {}
        if dataclasses.is_dataclass(thing):
            members["fields"] = [
                [
                    field.name,
                    MISSING is field.default and MISSING is field.default_factory,
                ]
                for field in dataclasses.fields(thing)
            ]
        for name, member in inspect.getmembers(thing):
            if not name.startswith("_") and callable(member) and not inspect.isclass(member):
                members[name] = signature(member)
        return members
    return signature(thing) if callable(thing) else type(thing).__name__


def signature(thing: object) -> object:
    try:
        parameters = inspect.signature(thing).parameters.values()  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return "callable"
    return [[one.name, str(one.kind), one.default is one.empty] for one in parameters]


def surface() -> dict[str, object]:
    named = {name: described(getattr(api, name)) for name in api.__all__ if name != "VERSION"}
    return {**named, **{f"testing.{name}": described(getattr(testing, name)) for name in testing.__all__}}


def breaks(before: object, now: object, path: str) -> list[str]:
    """What of an earlier interface is missing or different now. New members with defaults break nothing."""
    if isinstance(before, dict):
        if not isinstance(now, dict):
            return [f"{path} was a class"]
        gone = [f"{path}.{name} is gone" for name in before if name not in now]
        return gone + [
            found
            for name in before
            if name in now
            for found in breaks(before[name], now[name], f"{path}.{name}")
        ]
    if isinstance(before, list):
        if not isinstance(now, list) or now[: len(before)] != before:
            return [f"{path} has other parameters: {before} -> {now}"]
        return [f"{path} needs {one[0]}" for one in now[len(before) :] if one[-1]]
    return [] if before == now else [f"{path}: {before} -> {now}"]


def test_nothing_that_an_earlier_version_had_is_missing_or_different() -> None:
    current = HERE / f"surface-{'.'.join(map(str, API))}.json"
    if os.environ.get("RUMI_SURFACE") == "write":
        current.write_text(json.dumps(surface(), indent=1, sort_keys=True) + "\n")
    stored = sorted(HERE.glob(f"surface-{API[0]}.*.json"))
    assert current in stored
    for file in stored:
        assert breaks(json.loads(file.read_text()), json.loads(json.dumps(surface())), file.stem) == []


def test_what_breaks_a_plugin_is_found() -> None:
    """The planted faults."""
    before = json.loads(json.dumps(surface()))
    for change in (
        lambda now: now.pop("Actor"),
        lambda now: now["SimpleChannel"].pop("send"),
        lambda now: now["SimpleChannel"]["send"].append(["more", "keyword-only", True]),
        lambda now: now["ToolContext"]["fields"].pop(0),
        lambda now: now["gettext"].pop(0),
    ):
        now = json.loads(json.dumps(before))
        change(now)
        assert breaks(before, now, "api") != []
    now = json.loads(json.dumps(before))
    now["SimpleChannel"]["send"].append(["more", "keyword-only", False])
    now["New"] = {}
    assert breaks(before, now, "api") == []


@pytest.mark.parametrize(
    ("api", "fits"),
    [("1.0", True), ("1.1", False), ("2.0", False), ("0.9", False), ("1", False)],
)
def test_a_registration_fits_if_its_version_is_not_later(api: str, fits: bool) -> None:
    assert is_compatible(api) is fits
