"""`requirements.lock` without a network: it covers each Python and both processors."""

import re
import tomllib
from importlib.metadata import PackageNotFoundError, distribution, version
from itertools import product

import pytest
from packaging.markers import Marker, default_environment
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from deploy.lock import PLATFORMS, PYTHONS
from rumi.platform.extras import EXTRAS
from tests.bare import ROOT, locked

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
LOCK = (ROOT / "requirements.lock").read_text("utf-8")
MOST_PACKAGES = 60
PROCESSORS = [platform.partition("-")[0] for platform in PLATFORMS]


def listed(part: str) -> list[str]:
    if part == "default":
        return list(PROJECT["project"]["dependencies"])
    if part == "dev":
        return list(PROJECT["dependency-groups"]["dev"])
    if part == "build":
        return list(PROJECT["build-system"]["requires"])
    return list(PROJECT["project"]["optional-dependencies"][part])


def pins(part: str, environment: dict[str, str]) -> dict[str, str]:
    """The locked versions that an installation of a part gets."""
    wanted = {"default", part}
    return {
        name: pinned
        for needed_by, name, pinned, condition in locked()
        if (part == "dev" or needed_by & wanted)
        and (not condition or Marker(condition).evaluate(environment))
    }


def missing(part: str, environment: dict[str, str]) -> list[str]:
    """What the part needs, directly or not, and the lock lacks or has in another version."""
    found, faults = pins(part, environment), []
    open_ = [Requirement(one) for one in listed(part)]
    open_ = [one for one in open_ if one.marker is None or one.marker.evaluate(environment | {"extra": ""})]
    overridden = {
        Requirement(one).name: Requirement(one) for one in PROJECT["tool"]["uv"]["override-dependencies"]
    }
    seen: set[tuple[str, frozenset[str]]] = set()
    while open_:
        wanted = open_.pop()
        name = canonicalize_name(wanted.name)
        wanted.specifier = overridden.get(name, wanted).specifier
        if name not in found or not wanted.specifier.contains(found[name], prereleases=True):
            faults.append(f"{wanted} ({found.get(name, 'not locked')})")
            continue
        if (name, frozenset(wanted.extras)) in seen:
            continue
        seen.add((name, frozenset(wanted.extras)))
        try:
            package = distribution(name)
        except PackageNotFoundError:
            continue  # for another Python: what it needs is seen there
        for line in package.requires or ():
            more = Requirement(line)
            extras = wanted.extras or {""}
            if more.marker is None or any(
                more.marker.evaluate(environment | {"extra": one}) for one in extras
            ):
                open_.append(more)
    return faults


@pytest.mark.parametrize(("python", "processor"), [*product(PYTHONS, PROCESSORS)])
def test_each_python_finds_all_that_it_needs_in_the_lock(python: str, processor: str) -> None:
    environment = {**default_environment(), "python_version": python, "python_full_version": f"{python}.1"}
    environment |= {"platform_machine": processor, "implementation_version": f"{python}.1"}
    for part in ("default", *EXTRAS, "build", "dev"):
        assert missing(part, environment) == [], part
    for name, pinned in pins("dev", environment).items():
        asks = distribution(name).metadata["Requires-Python"] if version(name) == pinned else None
        assert SpecifierSet(asks or "").contains(f"{python}.1"), name


def test_what_is_missing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {**default_environment(), "python_version": "3.14", "python_full_version": "3.14.1"}
    kept = [entry for entry in locked() if entry[1] != "h11"]
    monkeypatch.setattr("tests.test_lock.locked", lambda: iter(kept))
    assert any("h11" in fault for fault in missing("default", environment))


def test_each_entry_has_hashes_and_no_address() -> None:
    entries = re.findall(r"^# .*\n((?:[^#\n].*\n)+)", LOCK, re.MULTILINE)
    assert sum(entry.count("==") for entry in entries) == LOCK.count("==")
    assert all(
        len(re.findall(r"--hash=sha256:[0-9a-f]{64}", entry)) >= entry.count("==") for entry in entries
    )
    assert "://" not in LOCK
    # A package that is built has files for each Python and processor, so it has many hashes.
    for name in ("lxml", "pydantic-core", "can-ada", "pyyaml"):
        (entry,) = [entry for entry in entries if entry.startswith(f"{name}==")]
        assert entry.count("--hash") >= len(PYTHONS) * len(PROCESSORS)


def test_the_default_is_small_and_has_nothing_of_an_extra() -> None:
    environment = {**default_environment()}
    default = set(pins("default", environment))
    assert len(default) + 1 <= MOST_PACKAGES, "with Rumi itself"
    for extra in EXTRAS:
        assert not default & {canonicalize_name(Requirement(one).name) for one in listed(extra)}


def test_each_dependency_says_what_it_is_for() -> None:
    document = (ROOT / "docs/dependencies.md").read_text("utf-8")
    default = set(re.findall(r"^\| `([\w-]+)` \| \S[^|]* \| [\d.]+ MB \| \d+ ms \|$", document, re.MULTILINE))
    assert default == {Requirement(one).name for one in listed("default")}
    in_extras = set(re.findall(r"^\| `([\w-]+)` \| `(\w+)` \| \S[^|]* \|$", document, re.MULTILINE))
    assert in_extras == {(Requirement(one).name, extra) for extra in EXTRAS for one in listed(extra)}
    assert set(re.findall(r"^\| `(\w+)` \| .* \| \d+ \| \d+ MB \|$", document, re.MULTILINE)) == set(EXTRAS)
