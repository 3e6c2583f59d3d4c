"""The sandbox's Docker image: inspection and building.

The image is built from the project's Dockerfile if a registry can be reached, and otherwise imported from a
root file system made of this host's own programs. The docker SDK builds, imports, inspects and removes
images, in threads with a separate limiter. Only the look at each start of Rumi is a call of `EngineApi`,
because loading the SDK takes 0.3 s.
"""

import contextlib
import io
import json
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import trio

from rumi.sandbox.docker.api import ApiError, EngineApi, Json
from rumi.sandbox.docker.engine import DockerEngine
from rumi.sandbox.docker.spec import FIRST_PROCESS, INIT, LABEL_INIT, is_rumis
from rumi.sandbox.engine import Command, SandboxError, SandboxLimits
from rumi.texts import Text, joined
from runner.programs import CORE_ONLY, Selection, package_name

if TYPE_CHECKING:  # loading it takes 0.3 s
    from docker import APIClient

T = TypeVar("T")

FORMAT = "6"
"""Format version of images, stored as a label. Increase it when older images must be replaced."""
LABEL_FORMAT = "rumi.runner"
LABEL_SOURCE = "rumi.runner.source"
LABEL_ROOTFS = "rumi.runner.rootfs"
LABEL_TOOLS = "rumi.runner.tools"
LABEL_MISSING = "rumi.runner.missing"
LABEL_PACKAGES = "rumi.runner.packages"
"""Labels: the selection, the selected programs that the host lacked, and the Python packages in it."""
BASE = ("alpine", "3.22")

REGISTRY_S = 20
"""Maximum time without a message from a registry; after that the image is made without a registry."""
STEP_S = 180
"""Maximum time without a message from a build step."""
ANSWER_S = 20
TOTAL_S = 1200.0

Source = Literal["alpine", "host"]
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ImageState:
    """The state of the image from which containers are made."""

    image: str
    image_id: str
    """Empty if the image does not exist."""
    source: str
    """`alpine`, `host`, or empty for an image that Rumi did not make."""
    fault: str
    """The problem of the image and its fix; empty if there is none."""
    own: bool = False
    """True for the user's own image, which Rumi neither makes nor replaces."""
    missing: tuple[str, ...] = ()
    """Programs of the selection that the image lacks."""
    packages: tuple[str, ...] = ()
    """Python packages of the selection in it, as NAME or NAME==VERSION."""

    @property
    def made_of(self) -> str:
        """Return the image's source as text for users."""
        return self.source or (Text("your own") if self.own else Text("something else"))

    @property
    def sound(self) -> bool:
        """Return True if the image can be used."""
        return not self.fault


@dataclass(frozen=True, slots=True)
class ImageReport:
    """Result of building and trying an image."""

    image: str
    image_id: str
    source: Source
    missing: tuple[str, ...]
    """Allowed programs that the image lacks, because this host lacks them."""
    bytes: int
    by_exec: str
    """The reason why Docker's exec starts commands in this image; empty if the first process starts them."""
    packages: tuple[str, ...] = ()
    """Python packages of the selection in it."""


async def look_at_image(api: EngineApi, image: str, selection: Selection = CORE_ONLY) -> ImageState:
    """Return the state of the image: whether it exists, its format version and its tools.

    An image with another name that Rumi did not make is the user's own; it is sound if it exists.

    Raises:
        SandboxError: The daemon does not answer.
    """
    try:
        found = await api.call("GET", f"/images/{image}/json")
    except ApiError as error:
        if error.status != 404:
            raise
        found = None
    return _state(found, image, selection)


def _state(found: Json, image: str, selection: Selection) -> ImageState:
    """Return the state of an image from what the daemon says about it; None if it does not exist."""
    if found is None:
        own = not is_rumis(image)
        how = "Pull it, or make it with docker." if own else "Make it with: rumi debug sandbox build"
        return ImageState(image, "", "", f"The image {image} is not there. {how}", own)
    labels = found["Config"].get("Labels") or {}
    if LABEL_FORMAT not in labels and not is_rumis(image):
        return ImageState(image, found["Id"], "", "", own=True)
    fault = ""
    if labels.get(LABEL_FORMAT) != FORMAT:
        fault = f"The image {image} is of another version of Rumi. Rebuild it with: rumi debug sandbox build"
    elif labels.get(LABEL_TOOLS, CORE_ONLY.label) != selection.label:
        fault = (
            f"The image {image} has other tools than config.toml. Rebuild it with: rumi debug sandbox build"
        )
    missing, packages = (tuple(labels.get(name, "").split()) for name in (LABEL_MISSING, LABEL_PACKAGES))
    return ImageState(
        image, found["Id"], labels.get(LABEL_SOURCE, ""), fault, missing=missing, packages=packages
    )


async def build_image(
    image: str,
    progress: Progress,
    *,
    address: str | None = None,
    sources: tuple[Source, ...] = ("alpine", "host"),
    selection: Selection = CORE_ONLY,
    folder: Path | None = None,
) -> ImageReport:
    """Make the image from the first source that works, try it in `folder`, and return a report.

    The daemon must have access to `folder`: if Rumi runs in a container, both share the home, but not /tmp.
    `progress` is called with lines of text, in this trio run. A silent registry is abandoned, and the whole
    build is abandoned after `TOTAL_S`. If cancelled, the daemon may complete what it has started.

    Raises:
        SandboxError: No source works (the error says why), or the image is the user's own.
    """
    api = EngineApi(address)
    try:
        await api.ping()
    finally:
        await api.aclose()
    limiter = trio.CapacityLimiter(2)

    def report(line: str) -> None:
        trio.from_thread.run_sync(progress, line)

    state = _state(await _in_thread(partial(_inspected, api.address, image), limiter), image, selection)
    if state.own and state.image_id:
        raise SandboxError(
            "The image {image} is your own, and Rumi does not replace it.",
            "To use Rumi's, take [sandbox] image out of config.toml.",
            image=image,
        )
    reasons = [Text("The image cannot be made.")]
    for source in sources if not selection.extra else ("host",):
        make = _from_alpine if source == "alpine" else _from_host
        try:
            await _in_thread(partial(make, api.address, image, selection, report), limiter)
        except SandboxError as error:
            reasons.append(error.message)
            progress(error.message)
            continue
        made = await _in_thread(partial(_inspected, api.address, image), limiter)
        missing, by_exec = await _try_out(image, api.address, selection, folder)
        if state.image_id and state.image_id != made["Id"]:
            with contextlib.suppress(SandboxError):  # containers still use it
                await _in_thread(partial(_remove, api.address, state.image_id), limiter)
        packages = _state(made, image, selection).packages
        return ImageReport(image, made["Id"], source, missing, int(made["Size"]), by_exec, packages)
    raise SandboxError(joined(reasons), "Look at `rumi doctor`.")


async def _in_thread(work: Callable[[], T], limiter: trio.CapacityLimiter) -> T:
    """Run calls of the SDK in a thread for at most `TOTAL_S`; a later progress report ends the thread.

    Raises:
        SandboxError: The daemon refused, or did not answer in time.
    """

    def guarded() -> T:
        import docker.errors
        import requests.exceptions

        try:
            return work()
        except docker.errors.DockerException as error:  # an APIError is also a RequestException
            raise SandboxError("Docker says: {error}.", error=str(error).strip().rstrip(".")) from error
        except requests.exceptions.RequestException as error:
            raise SandboxError("The Docker daemon kept silent for too long.") from error

    with trio.move_on_after(TOTAL_S):
        return await trio.to_thread.run_sync(guarded, limiter=limiter, abandon_on_cancel=True)
    raise SandboxError("Making the image took too long.")


def _client(address: str, timeout_s: int) -> "APIClient":
    from docker import APIClient

    return APIClient(base_url=address, version="auto", timeout=timeout_s)


def _inspected(address: str, image: str) -> Json:
    """Return what the daemon says about an image; None if it does not exist. Blocking."""
    import docker.errors

    with _client(address, ANSWER_S) as client, contextlib.suppress(docker.errors.NotFound):
        return client.inspect_image(image)  # type: ignore[no-untyped-call]
    return None


def _remove(address: str, image_id: str) -> None:
    """Remove an image whose name a newer image has taken. Blocking."""
    with _client(address, ANSWER_S) as client:
        client.remove_image(image_id)


def _from_alpine(address: str, image: str, selection: Selection, progress: Progress) -> None:
    """Pull the Alpine base image and build the Dockerfile on it. Blocking."""
    progress(Text("asking the registry for {base}", base=":".join(BASE)))
    with _client(address, REGISTRY_S) as client:
        try:
            # Not client.pull, which waits without a limit.
            url = f"{client.base_url}/v{client.api_version}/images/create"
            base = {"fromImage": BASE[0], "tag": BASE[1]}
            with client.post(url, params=base, stream=True, timeout=REGISTRY_S) as answer:
                for line in answer.iter_lines():
                    event = json.loads(line)
                    if fault := event.get("error") or event.get("message"):
                        raise SandboxError(
                            "The registry has no {base} ({fault}).",
                            base=":".join(BASE),
                            fault=fault.rstrip("."),
                        )
        except SandboxError:
            raise
        except Exception as error:  # from requests, urllib3 or docker: no registry can be reached
            raise SandboxError("No registry can be reached ({error}).", error=_last_words(error)) from error
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name in ("Dockerfile", "init.c", "office.lock"):
            _add_file(tar, name, resources.files("runner").joinpath(name).read_bytes(), 0o644)
    # A step that installs packages may fail, because no index can be reached; the other steps are kept.
    for packages, office in dict.fromkeys(
        ((selection.packages, selection.office), ((), selection.office), ((), ()))
    ):
        context.seek(0)
        try:
            with _client(address, STEP_S) as client:
                events = client.build(
                    fileobj=context,
                    custom_context=True,
                    tag=image,
                    rm=True,
                    forcerm=True,
                    decode=True,
                    timeout=STEP_S,
                    buildargs={
                        "TOOLS": selection.tools,
                        "PACKAGES": " ".join(packages),
                        "OFFICE": "yes" if office else "",
                    },
                    labels={
                        LABEL_TOOLS: selection.label,
                        LABEL_PACKAGES: " ".join((*map(package_name, packages), *office)),
                    },
                )
                for line in _lines(events):
                    progress(line)
            return
        except SandboxError as error:
            if not packages and not office:
                raise
            progress(_without_packages(packages or office, error.message))


def _without_packages(packages: Sequence[str], why: str) -> str:
    return Text("without the Python packages {packages}: {why}", packages=", ".join(packages), why=why)


def _lines(events: Iterator[dict[str, Any]]) -> Iterator[str]:
    """Yield the messages of a build, line by line.

    Raises:
        SandboxError: A step failed.
    """
    for event in events:
        if "error" in event:
            raise SandboxError("The build failed: {error}.", error=str(event["error"]).strip().rstrip("."))
        if line := str(event.get("stream", "")).strip():
            yield line


def _from_host(address: str, image: str, selection: Selection, progress: Progress) -> None:
    """Build a root file system from this host's own programs and import it as the image. Blocking."""
    from runner.init import VERSION, InitError, compile_init
    from runner.packages import install
    from runner.rootfs import INIT as INIT_PLACE
    from runner.rootfs import RootfsError, build_rootfs, write_tar

    progress(Text("copying this host's programs"))
    with tempfile.TemporaryDirectory(prefix="rumi-image-") as folder:
        tree, archive = Path(folder, "rootfs"), Path(folder, "rootfs.tar")
        packages = Path(folder, "packages")
        installed = install(packages, selection.packages, progress, selection.office)
        if installed.missing:
            progress(_without_packages(installed.missing, installed.reason))
        try:
            # Each container gets its own passwd, group and hosts.
            report = build_rootfs(tree, selection=selection, packages=packages)
        except RootfsError as error:
            raise SandboxError("{error}", error=error) from error
        shutil.rmtree((tree / INIT_PLACE).parent)  # _add_first_processes adds this folder again
        with archive.open("w+b") as file:
            write_tar(tree, file)
        labels = {
            LABEL_FORMAT: FORMAT,
            LABEL_SOURCE: "host",
            LABEL_ROOTFS: report.rootfs_id,
            LABEL_TOOLS: selection.label,
            LABEL_MISSING: " ".join(report.missing),
            LABEL_PACKAGES: " ".join(report.packages),
        }
        init = Path(folder, "init")
        try:
            compile_init(init)
            labels[LABEL_INIT] = VERSION
        except InitError as error:
            progress(Text("without the program that starts commands fast: {error}", error=error))
        _add_first_processes(tree, archive, init)
        changes = [f'LABEL {name}="{value}"' for name, value in labels.items()]
        changes += [
            "USER 1000:1000",
            "WORKDIR /workspace",
            "ENV LANG=C.UTF-8",
            'CMD ["sleep", "infinity"]',
        ]
        progress(Text("importing {st_size} MB into Docker", st_size=archive.stat().st_size // 1_000_000))
        repository, _, tag = image.rpartition(":")
        if not repository or "/" in tag:
            repository, tag = image, "latest"
        with _client(address, STEP_S) as client:
            client.import_image_from_file(str(archive), repository=repository, tag=tag, changes=changes)


def _add_first_processes(tree: Path, archive: Path, init: Path) -> None:
    """Append the unreadable copy of `sleep`, and `INIT` if it was compiled; see `FIRST_PROCESS`."""
    sleep = tree / "usr/bin/sleep"
    if not sleep.exists():
        raise SandboxError("This host has no `sleep`, which a sandbox needs.")
    with tarfile.open(archive, "a", format=tarfile.GNU_FORMAT) as tar:
        folder = tarfile.TarInfo(str(Path(FIRST_PROCESS).parent).lstrip("/"))
        folder.type, folder.mode = tarfile.DIRTYPE, 0o755
        tar.addfile(folder)
        _add_file(tar, FIRST_PROCESS, sleep.read_bytes(), 0o111)
        if init.exists():
            _add_file(tar, INIT, init.read_bytes(), 0o111)


def _add_file(tar: tarfile.TarFile, name: str, content: bytes, mode: int) -> None:
    member = tarfile.TarInfo(name.lstrip("/"))
    member.size, member.mode = len(content), mode
    tar.addfile(member, io.BytesIO(content))


async def _try_out(
    image: str, address: str, selection: Selection, folder: Path | None
) -> tuple[tuple[str, ...], str]:
    """Create a container from the image and run a command in it.

    Return the missing programs, and the reason why Docker's exec starts commands ("" if the first process
    does).

    Raises:
        SandboxError: No container can be created from the image, or it does not run.
    """
    import secrets

    found = bytearray()
    look = 'for p in "$@"; do type -P "$p" > /dev/null || echo "$p"; done'
    with tempfile.TemporaryDirectory(prefix="rumi-try-", dir=folder) as tried:
        home, name = Path(tried), f"try{secrets.token_hex(4)}"
        engine = DockerEngine(name, SandboxLimits(), image=image, address=address, home=home)
        try:
            (home / "workspace").mkdir()
            container = await engine.create("image", home / "workspace")
            by_exec = await engine.starts_by_exec()
            command = Command(("bash", "-c", look, "look", *selection.allowed))
            if await container.execute(command, found.extend, found.extend) != 0:
                raise SandboxError(
                    "The image does not run: {decode}", decode=found.decode("utf-8", "replace").strip()
                )
        finally:
            with trio.CancelScope(shield=True):  # bounded inside
                await engine.remove("image")
                await engine.aclose()
    return tuple(found.decode().split()), by_exec


def _last_words(error: Exception) -> str:
    text = str(getattr(error, "explanation", "") or error).strip().rstrip(".")
    return text.split("\n", 1)[0][-160:]
