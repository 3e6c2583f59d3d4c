"""A real CalDAV server, Radicale, for tests: started on a port of the loopback, ended with the tests."""

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.postgres import free_port

USER, PASSWORD = "ana", "vault-7 key"


@dataclass(frozen=True)
class Radicale:
    """A server with one user. `folder` has the files of its calendars."""

    url: str
    folder: Path

    def calendar(self, name: str, title: str = "") -> str:
        """Make a calendar and return its address."""
        folder = self._folder(name)
        folder.mkdir(parents=True, exist_ok=True)
        props = {
            "tag": "VCALENDAR",
            "D:displayname": title or name,
            "C:supported-calendar-component-set": "VEVENT",
        }
        (folder / ".Radicale.props").write_text(json.dumps(props))
        return f"{self.url}/{USER}/{name}/"

    def store(self, name: str, files: Mapping[str, str]) -> None:
        """Put files into a calendar."""
        for file, text in files.items():
            (self._folder(name) / f"{file}.ics").write_text(text)

    def files(self, name: str) -> dict[str, str]:
        """Return the files of a calendar, by their names."""
        return {path.stem: path.read_text() for path in sorted(self._folder(name).glob("*.ics"))}

    def _folder(self, name: str) -> Path:
        return self.folder / "collection-root" / USER / name


@contextmanager
def radicale(folder: Path) -> Iterator[Radicale]:
    """Run a server until the block ends."""
    (folder / "users").write_text(f"{USER}:{PASSWORD}\n")
    port = free_port()
    config = folder / "config"
    config.write_text(
        f"[server]\nhosts = 127.0.0.1:{port}\n"
        f"[auth]\ntype = htpasswd\nhtpasswd_filename = {folder / 'users'}\n"
        f"htpasswd_encryption = plain\ndelay = 0\n[storage]\nfilesystem_folder = {folder / 'store'}\n"
        "[logging]\nlevel = error\n"
    )
    server = Radicale(f"http://127.0.0.1:{port}", folder / "store")
    process = subprocess.Popen(
        [sys.executable, "-m", "radicale", "-C", str(config)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait(server.url, process)
        yield server
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(5)
        process.kill()
        process.wait()


def _wait(url: str, process: "subprocess.Popen[bytes]") -> None:
    until = time.monotonic() + 30
    while time.monotonic() < until:
        assert process.poll() is None, "Radicale does not start"
        try:
            urllib.request.urlopen(f"{url}/.web/", timeout=5).close()
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError("Radicale does not answer")
