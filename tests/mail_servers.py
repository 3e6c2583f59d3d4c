"""Real mail servers of Debian's packages, for tests: Dovecot for reading, Postfix for sending.

Both listen on the loopback only. Postfix delivers mails of `example.test` into Dovecot's mailboxes, and
nothing anywhere else.
"""

import contextlib
import grp
import os
import pwd
import re
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path

import trio
import trustme

from rumi.platform.config.schema import MailSection
from rumi.platform.http import Tls
from rumi.services.mail.client import Mailbox
from tests.postgres import free_port

DOMAIN = "example.test"
USERS = ("ana", "bob", "carla", "dora")
PASSWORD = "geheim-€-42"
_OWNER = "mail"


def missing() -> str:
    """Return why the servers cannot run here; empty if they can."""
    if shutil.which("dovecot", path=_PATH) is None or shutil.which("postfix", path=_PATH) is None:
        return "needs dovecot-imapd and postfix"
    return "" if os.geteuid() == 0 else "Postfix needs to be started by root"


_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"

_DOVECOT = """
base_dir = {folder}/run
state_dir = {folder}/state
log_path = {folder}/dovecot.log
protocols = imap
listen = 127.0.0.1
ssl = yes
ssl_cert = <{folder}/cert.pem
ssl_key = <{folder}/key.pem
disable_plaintext_auth = no
auth_mechanisms = plain login
auth_failure_delay = 0
mail_location = maildir:{folder}/mail/%u
mailbox_list_index = no
mail_fsync = never
first_valid_uid = 1
mail_uid = {uid}
mail_gid = {gid}
passdb {{
  driver = static
  args = password={password}
}}
userdb {{
  driver = static
  args = uid={uid} gid={gid} home={folder}/mail/%u
}}
service imap-login {{
  inet_listener imap {{
    port = {imap}
  }}
  inet_listener imaps {{
    port = {imaps}
    ssl = yes
  }}
}}
service auth {{
  unix_listener {folder}/queue/private/auth {{
    mode = 0666
  }}
}}
namespace inbox {{
  inbox = yes
  mailbox Sent {{
    auto = create
    special_use = \\Sent
  }}
  mailbox Entwürfe {{
    auto = create
    special_use = \\Drafts
  }}
}}
"""

_MAIN = """
compatibility_level = 3.6
queue_directory = {folder}/queue
data_directory = {folder}/data
command_directory = /usr/sbin
daemon_directory = /usr/lib/postfix/sbin
mail_owner = postfix
setgid_group = postdrop
maillog_file = {folder}/postfix.log
maillog_file_prefixes = {folder}
myhostname = mail.{domain}
mydestination =
inet_interfaces = loopback-only
inet_protocols = ipv4
default_transport = error:nothing leaves this machine
relay_transport = error:nothing leaves this machine
local_transport = error:no local users
virtual_mailbox_domains = {domain}
virtual_mailbox_base = {folder}/mail
virtual_mailbox_maps = texthash:{folder}/conf/boxes
virtual_uid_maps = static:{uid}
virtual_gid_maps = static:{gid}
virtual_minimum_uid = 1
virtual_mailbox_limit = 0
message_size_limit = 5000000
smtpd_tls_cert_file = {folder}/cert.pem
smtpd_tls_key_file = {folder}/key.pem
smtpd_tls_security_level = may
smtpd_sasl_auth_enable = yes
smtpd_sasl_type = dovecot
smtpd_sasl_path = private/auth
smtpd_recipient_restrictions = permit_sasl_authenticated, reject
smtpd_relay_restrictions = permit_sasl_authenticated, reject
smtpd_client_restrictions =
smtpd_error_sleep_time = 0
smtpd_reject_unlisted_recipient = yes
smtputf8_enable = yes
alias_maps =
alias_database =
"""

_MASTER = """
127.0.0.1:{smtp} inet n - n - - smtpd
127.0.0.1:{smtps} inet n - n - - smtpd -o smtpd_tls_wrappermode=yes
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
proxymap unix - - n - - proxymap
error unix - - n - - error
virtual unix - n n - - virtual
anvil unix - - n - 1 anvil
tlsmgr unix - - n 1000? 1 tlsmgr
postlog unix-dgram n - n - 1 postlogd
"""


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


class MailServers:
    """Both servers with their files in a folder of their own. Each user of the domain has a mailbox."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="rumi-mail-"))
        self.folder.chmod(0o755)
        self.imap, self.imaps, self.smtp, self.smtps = (free_port() for _ in range(4))
        self.authority = trustme.CA()
        owner = pwd.getpwnam(_OWNER)
        self._owner = (owner.pw_uid, owner.pw_gid)
        self._pids: list[int] = []
        self._numbers = count(1)
        self._write()
        self._start()

    def _write(self) -> None:
        folder = self.folder
        for name in ("run", "state", "mail", "queue/private", "queue/pid", "conf", "data"):
            (folder / name).mkdir(parents=True)
        for name in ("active", "bounce", "corrupt", "defer", "deferred", "flush", "hold", "incoming",
                     "saved", "trace"):  # fmt: skip
            (folder / "queue" / name).mkdir()
            shutil.chown(folder / "queue" / name, "postfix")
        for name in ("maildrop", "public"):
            (folder / "queue" / name).mkdir(mode=0o730 if name == "maildrop" else 0o710)
            os.chown(folder / "queue" / name, pwd.getpwnam("postfix").pw_uid, grp.getgrnam("postdrop").gr_gid)
        for name in ("private", "pid"):
            if name == "private":
                shutil.chown(folder / "queue" / name, "postfix")
        shutil.chown(folder / "data", "postfix")
        os.chown(folder / "mail", *self._owner)
        cert = self.authority.issue_cert("imap.example.test", "smtp.example.test")
        (folder / "cert.pem").write_bytes(b"".join(pem.bytes() for pem in cert.cert_chain_pems))
        (folder / "key.pem").write_bytes(cert.private_key_pem.bytes())
        (folder / "key.pem").chmod(0o600)
        self.authority.cert_pem.write_to_path(folder / "ca.pem")
        fields = {
            "folder": folder,
            "domain": DOMAIN,
            "password": PASSWORD,
            "uid": self._owner[0],
            "gid": self._owner[1],
            **{name: getattr(self, name) for name in ("imap", "imaps", "smtp", "smtps")},
        }
        (folder / "dovecot.conf").write_text(_DOVECOT.format(**fields))
        (folder / "conf/main.cf").write_text(_MAIN.format(**fields))
        (folder / "conf/master.cf").write_text(_MASTER.format(**fields))
        (folder / "conf/boxes").write_text("".join(f"{user}@{DOMAIN} {user}/\n" for user in USERS))

    def _start(self) -> None:
        self._background(["dovecot", "-F", "-c", f"{self.folder}/dovecot.conf"])
        self._background(["/usr/lib/postfix/sbin/master", "-d", "-c", f"{self.folder}/conf"])
        for port in (self.imap, self.smtp, self.smtps, self.imaps):
            self._wait_for(port)

    def _background(self, command: Sequence[str]) -> None:
        # Not a child of this process: tests look for children that are left.
        log = shlex.quote(str(self.folder / "started.log"))
        script = f"{shlex.join(command)} >>{log} 2>&1 & echo $!"
        begun = subprocess.run(
            ["/bin/sh", "-c", script],
            cwd="/",
            env={"PATH": _PATH},
            capture_output=True,
            text=True,
            check=True,
        )
        self._pids.append(int(begun.stdout))

    def _wait_for(self, port: int) -> None:
        deadline = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
            except OSError:
                assert time.monotonic() < deadline, self.logs()
                time.sleep(0.02)

    def logs(self) -> str:
        return "\n".join(path.read_text() for path in sorted(self.folder.glob("*.log")))

    def stop(self) -> None:
        for pid in self._pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + 10
        for pid in self._pids:
            while _runs(pid) and time.monotonic() < deadline:
                time.sleep(0.02)
            if _runs(pid):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def section(self, user: str = "ana", **more: object) -> MailSection:
        """Return the settings of a user's mailbox."""
        fields = {
            "address": f"{user}@{DOMAIN}",
            "imap": f"127.0.0.1:{self.imap}",
            "smtp": f"127.0.0.1:{self.smtp}",
            "user": user,
            "timeout_s": 20,
        }
        return MailSection.model_validate(fields | more)

    def mailbox(self, user: str = "ana", password: str = PASSWORD, **more: object) -> Mailbox:
        """Return a user's mailbox, over plain connections."""
        return Mailbox(user, self.section(user, **more), password)

    def encrypted(self, user: str = "ana", *, imap: int = 993, smtp: int = 465, **more: object) -> Mailbox:
        """Return a user's mailbox at names of the domain, which the certificate of the servers has."""
        hosts = {"imap": f"imap.{DOMAIN}:{imap}", "smtp": f"smtp.{DOMAIN}:{smtp}"}
        ports = {993: self.imaps, 143: self.imap, 465: self.smtps, 587: self.smtp}

        async def connect(host: str, port: int) -> trio.SocketStream:
            return await trio.open_tcp_stream("127.0.0.1", ports[port])

        tls = Tls(ca_file=str(self.folder / "ca.pem"))
        return Mailbox(user, self.section(user, **hosts, **more), PASSWORD, tls=tls, connect=connect)

    def put(self, user: str, raw: bytes, folder: str = "", *, seen: bool = False) -> None:
        """Put a mail into a folder, without a server."""
        box = self.folder / "mail" / user
        box = box / f".{folder}" if folder else box
        for part in (self.folder / "mail" / user, box, *(box / name for name in ("cur", "new", "tmp"))):
            part.mkdir(exist_ok=True)
            os.chown(part, *self._owner)
        number = next(self._numbers)
        name = f"{1_700_000_000 + number}.M{number}.test"
        path = box / "cur" / f"{name}:2,{'S' if seen else ''}"
        path.write_bytes(raw)
        os.chown(path, *self._owner)

    def stored(self, user: str) -> Iterator[Path]:
        """Yield the files of all mails of a user, with the flags in their names."""
        box = self.folder / "mail" / user
        yield from sorted(
            path for path in box.rglob("*") if path.is_file() and path.parent.name in ("cur", "new")
        )

    def message_ids(self, user: str) -> list[str]:
        """Return the Message-IDs of all stored mails of a user."""
        heads = (
            path.read_bytes().partition(b"\r\n\r\n")[0].partition(b"\n\n")[0] for path in self.stored(user)
        )
        return [
            found[1].decode() for head in heads if (found := re.search(rb"(?im)^Message-ID:\s*(<\S+>)", head))
        ]
