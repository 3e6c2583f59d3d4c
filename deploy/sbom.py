"""Prints a wheel's software bill of materials: `python deploy/sbom.py WHEEL requirements.lock`.

CycloneDX 1.6 in JSON: each package that the wheel needs on Linux, with its version, the hashes of its files
in the lock file, and the licence that it declares. What only an extra needs has the scope `optional`. What
each package needs itself is read from this environment, which must have the versions of the lock file. The
same wheel and lock file give the same text.
"""

import re
import sys
import uuid
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import Message
from email.parser import HeaderParser
from hashlib import sha256
from importlib import metadata
from pathlib import Path

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, XsUri
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ENTRY = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)((?:.*\\\n)*.*)$", re.MULTILINE)
NAMESPACE = uuid.UUID("8d5ee5f4-9d0a-5b0c-9f7e-0a5c1f8d2b11")
"""For the serial number, which has to be a UUID and depends on the wheel alone."""


@dataclass(frozen=True, slots=True)
class Pin:
    """A package of the lock file."""

    name: str
    version: str
    hashes: tuple[str, ...]


def locked(text: str) -> dict[str, Pin]:
    """Return the pins of a lock file by their normalized names."""
    pins = {}
    for name, version, rest in ENTRY.findall(text):
        key = canonicalize_name(name)
        pins[key] = Pin(key, version, tuple(sorted(re.findall(r"sha256:([0-9a-f]{64})", rest))))
    return pins


def about(wheel: Path) -> Message:
    """Return a wheel's metadata."""
    with zipfile.ZipFile(wheel) as files:
        (name,) = (name for name in files.namelist() if name.endswith(".dist-info/METADATA"))
        return HeaderParser().parsestr(files.read(name).decode())


def required(
    lines: list[str] | None, extras: frozenset[str] = frozenset()
) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield the normalized name of each requirement that applies here, and the extras that it asks for."""
    for line in lines or ():
        wanted = Requirement(line)
        if wanted.marker is None or any(
            wanted.marker.evaluate({"extra": one}) for one in ("", *sorted(extras))
        ):
            yield canonicalize_name(wanted.name), frozenset(wanted.extras)


def closure(
    first: Iterator[tuple[str, frozenset[str]]], pins: Mapping[str, Pin]
) -> dict[str, frozenset[str]]:
    """Return the packages that these need, with the names of what each one needs itself.

    Raises:
        SystemExit: the lock file lacks one, or another version is installed.
    """
    found: dict[str, frozenset[str]] = {}
    asked: dict[str, frozenset[str]] = {}
    waiting = list(first)
    while waiting:
        name, extras = waiting.pop()
        if name in found and extras <= asked[name]:
            continue
        asked[name] = asked.get(name, frozenset()) | extras
        if name not in pins or metadata.version(name) != pins[name].version:
            sys.exit(
                f"{name} is not installed in the version of requirements.lock: make clean, then make test"
            )
        needs = list(required(metadata.requires(name), asked[name]))
        found[name] = frozenset(needed for needed, _ in needs)
        waiting += needs
    return found


def declared_license(about: Message) -> str:
    """Return the licence that a package declares, as an SPDX expression where it is one."""
    classifiers = [line for line in about.get_all("Classifier") or () if line.startswith("License :: ")]
    named = [line.rpartition(" :: ")[2] for line in classifiers if line.count(" :: ") > 1]
    short = str(about.get("License") or "").strip().partition("\n")[0].strip()  # some have the whole text
    return str(
        about.get("License-Expression") or (short if 0 < len(short) < 60 else "") or " AND ".join(named)
    )


def component(pin: Pin, optional: bool) -> Component:
    """Return the entry of a package."""
    purl = PackageURL("pypi", None, pin.name, pin.version)
    hashes = [HashType(alg=HashAlgorithm.SHA_256, content=value) for value in pin.hashes]
    files = ExternalReference(
        type=ExternalReferenceType.DISTRIBUTION,
        url=XsUri(purl.to_string()),
        comment="the files that requirements.lock allows",
        hashes=hashes,
    )
    text = declared_license(metadata.metadata(pin.name))  # type: ignore[arg-type]
    return Component(
        name=pin.name,
        version=pin.version,
        type=ComponentType.LIBRARY,
        bom_ref=purl.to_string(),
        purl=purl,
        scope=ComponentScope.OPTIONAL if optional else ComponentScope.REQUIRED,
        licenses=[LicenseFactory().make_from_string(text)] if text else (),
        external_references=[files],
    )


def bill(wheel: Path, lock: Path) -> str:
    """Return the bill of materials of a wheel."""
    own, pins = about(wheel), locked(lock.read_text("utf-8"))
    extras = frozenset(own.get_all("Provides-Extra") or ())
    needed = closure(required(own.get_all("Requires-Dist")), pins)
    everything = closure(required(own.get_all("Requires-Dist"), extras), pins)
    content = wheel.read_bytes()
    bom = Bom(serial_number=uuid.uuid5(NAMESPACE, sha256(content).hexdigest()))
    with zipfile.ZipFile(wheel) as files:  # the commit's time, which the build has put there
        bom.metadata.timestamp = datetime(*files.infolist()[0].date_time, tzinfo=UTC)
    version = str(own["Version"])
    root = Component(
        name="rumi",
        version=version,
        type=ComponentType.APPLICATION,
        bom_ref=f"rumi@{version}",
        purl=PackageURL("pypi", None, "rumi", version),
        licenses=[LicenseFactory().make_from_string(declared_license(own))],
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=sha256(content).hexdigest())],
    )
    bom.metadata.component = root
    entries = {name: component(pins[name], optional=name not in needed) for name in sorted(everything)}
    for entry in entries.values():
        bom.components.add(entry)
    direct = {name for name, _ in required(own.get_all("Requires-Dist"), extras)}
    bom.register_dependency(root, [entries[name] for name in sorted(direct)])
    for name, entry in entries.items():
        bom.register_dependency(entry, [entries[other] for other in sorted(everything[name])])
    return JsonV1Dot6(bom).output_as_string(indent=1) + "\n"


if __name__ == "__main__":
    sys.stdout.write(bill(Path(sys.argv[1]), Path(sys.argv[2])))
