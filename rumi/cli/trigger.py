"""`rumi schedule trigger`."""

import os
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

from rumi.cli import run_async
from rumi.cli.asking import ask
from rumi.cli.printing import JSON, echo, echo_json, flat_lines, local_time
from rumi.cli.speaking import tr
from rumi.errors import RumiError, UsageError
from rumi.platform.chat_ids import DEFAULT_CHAT
from rumi.platform.printable import flat

if TYPE_CHECKING:
    from rumi.cli.daemon import Launch
    from rumi.platform.config.cascade import Loaded

MOST_BYTES: Final = 1_000_000
"""Maximum size of an event: `rumi.channels.triggers.triggers.MOST_BYTES`."""

SILENT_S: Final = 3.0
"""Maximum wait for the first data on a pipe that nobody asked for, in seconds: many are never written to."""

WAIT_S: Final = 600.0
"""Default of the longest wait for a reply, in seconds."""

SAMPLE: Final = (
    '{"test": true, "message": "This is a test of the trigger, sent by rumi schedule trigger test."}'
)


class _Group(click.Group):
    """A group that takes the name of a trigger for `rumi schedule trigger fire NAME`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        known = (*self.commands, "-h", "--help")
        if args and args[0] not in known and not ctx.resilient_parsing:
            args = ["fire", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_Group, invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Hand an event to a trigger, list the triggers, or test one: rumi schedule trigger NAME [TEXT|-].

    The triggers are sections [triggers.NAME] of config.toml.
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_)


@command.command()
@click.argument("name")
@click.argument("text", required=False)
@click.option("--id", metavar="ID", default="", help="Take an event with this id only once.")
@click.option("--wait", is_flag=True, help="Wait for the reply, and print it.")
@click.option(
    "--timeout",
    type=click.FloatRange(0.1, 3600),
    default=WAIT_S,
    show_default=True,
    help="How long --wait waits, in seconds.",
)
@JSON
def fire(name: str, text: str | None, id: str, wait: bool, timeout: float, as_json: bool) -> None:
    """Hand TEXT to the trigger NAME as an event; - reads it from standard input."""
    from rumi.cli.daemon import launch_daemon, say

    said = _text(text)
    # Before a daemon starts: it would start for nothing.
    _section(name)
    begun = launch_daemon(DEFAULT_CHAT, {})
    fields: dict[str, Any] = {"name": name, "text": said, "id": id, "wait_s": timeout if wait else 0.0}
    found = run_async(_fire, fields, begun)
    late = wait and not found["reply"]
    if as_json:
        echo_json(found, indent=2)
    elif found["reply"]:
        echo(flat_lines(found["reply"]))
    elif found["status"] == "repeated":
        echo(tr("{id} was taken earlier. Nothing new begins.", id=flat(found["delivery"])))
    else:
        echo(
            tr(
                "Taken: {id}. The answer comes to the chat {chat}.",
                id=flat(found["delivery"]),
                chat=found["chat"],
            )
        )
    if late:
        if not as_json and found["status"] != "repeated":
            say(tr("There is no reply yet after {seconds:g} s. Rumi goes on with it.", seconds=timeout))
        raise click.exceptions.Exit(1)


async def _fire(fields: dict[str, Any], begun: "Launch") -> dict[str, Any]:
    from rumi.cli.daemon import attached_to_daemon
    from rumi.cli.research import connected_to
    from rumi.platform.caller import TERMINAL

    async with attached_to_daemon(begun, partial(connected_to, TERMINAL)) as client:
        assert client is not None, "nobody leaves while it waits"
        found: dict[str, Any] = await client.call("triggers", 65.0 + fields["wait_s"], do="fire", **fields)
        return found


def _section(name: str) -> "Loaded":
    """Return the configuration, which has a trigger with this name.

    Raises:
        UsageError: No trigger has this name.
    """
    from rumi.channels.triggers.triggers import Triggers, triggers_of
    from rumi.platform.config.cascade import load_settings
    from rumi.platform.config.files import home_from

    loaded = load_settings(home_from(os.environ), os.environ, {})
    Triggers(triggers_of(loaded)).named(name)
    return loaded


def _text(text: str | None) -> str:
    """Return the event's text: the argument, or what comes on standard input, whole.

    Raises:
        UsageError: It is longer than an event may be.
    """
    import select
    import stat

    if text not in (None, "-"):
        return str(text)
    if sys.stdin is None or (text is None and sys.stdin.isatty()):
        return ""
    descriptor = sys.stdin.fileno()
    if text is None:
        mode = os.fstat(descriptor).st_mode
        if not (stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)):
            return ""
        if not select.select([descriptor], [], [], SILENT_S)[0]:
            return ""
    body = sys.stdin.buffer.read(MOST_BYTES + 1)
    if len(body) > MOST_BYTES:
        raise UsageError(
            "The event is longer than {most} MB.", "Send a part of it.", most=f"{MOST_BYTES / 1_000_000:g}"
        )
    return body.decode("utf-8", "replace")


@command.command("list")
@JSON
def list_(as_json: bool = False) -> None:
    """List the triggers: chat, form, address, last delivery, events of a day, refused requests."""
    rows = ask("triggers", "list")
    if as_json:
        echo_json(rows, indent=2)
        return
    if not rows:
        echo(tr("No trigger is configured. docs/triggers.md shows how to add one."))
    for row in rows:
        where = row["url"] or row["path"] or tr("only by rumi schedule trigger {name}", name=row["name"])
        echo(f"{row['name']:<16} → {flat(row['chat'])}  {row['form']:<9}{flat(where)}")
        if row["path"] and not row["url"]:
            echo("    " + tr("No listener takes its requests now. Start one: rumi serve"))
        last = local_time(row["last_at"]) if row["last_at"] else "–"
        counts = row["counts"]
        echo(
            "    "
            + tr(
                "last: {last}, in 24 hours: {today}; since the start: {repeated} repeated, "
                "{refused} refused, {limited} too many",
                last=last,
                today=row["today"],
                repeated=counts.get("repeated", 0),
                refused=counts.get("refused", 0),
                limited=counts.get("limited", 0),
            )
        )
        if row["problem"]:
            echo("    ❌ " + flat(row["problem"]))


@command.command()
@click.argument("name")
@click.option("--curl", is_flag=True, help="Print the request as a curl command, and send nothing.")
@JSON
def test(name: str, curl: bool, as_json: bool) -> None:
    """Send a signed request to the trigger NAME, as another program would. The event begins a turn."""
    import time
    from secrets import token_hex

    from rumi.channels.triggers.signatures import signed
    from rumi.channels.triggers.triggers import triggers_of
    from rumi.platform.config.commands import read_keys

    trigger = triggers_of(run_async(read_keys, _section(name)))[name]
    if trigger.flaw is not None:
        raise trigger.flaw
    if trigger.secret is None or trigger.section.secret is None:
        raise UsageError(
            "The trigger {name} takes no requests, because it has no secret.",
            'Set one: secret = "$MY_SECRET" in [triggers.{name}]. Or use: rumi schedule trigger {name} TEXT',
            name=name,
        )
    url = next((row["url"] for row in ask("triggers", "list") if row["name"] == name), "")
    form, secret, id = trigger.section.form, trigger.secret.reveal().strip(), f"test-{token_hex(6)}"
    headers = {
        "Content-Type": "application/json",
        "Idempotency-Key": id,
        **signed(form, secret, SAMPLE.encode(), id, time.time()),
    }
    if curl:
        if form == "plain":
            headers["Authorization"] = f"Bearer {_shell_reference(trigger.section.secret)}"
        echo(_curl(url or f"http://127.0.0.1:8443{trigger.path}", headers))
        return
    if not url:
        raise RumiError("No listener takes requests now.", "Start one: rumi serve")
    status, text = _post(url, headers, SAMPLE.encode())
    if as_json:
        echo_json({"url": url, "status": status, "answer": text}, indent=2)
    else:
        echo(f"{status} {flat(text)}")
    if status >= 300:
        raise click.exceptions.Exit(1)


def _post(url: str, headers: dict[str, str], body: bytes) -> tuple[int, str]:
    """Send a request to this machine's listener; return the status and the text of the answer.

    Raises:
        RumiError: The listener does not answer.
    """
    from http.client import HTTPConnection, HTTPException
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    connection = HTTPConnection(parts.hostname or "", parts.port, timeout=30)
    try:
        connection.request("POST", parts.path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read(10_000).decode("utf-8", "replace").strip()
    except (OSError, HTTPException) as error:
        raise RumiError(
            "{url} does not answer: {reason}.", "Look at: rumi status", url=url, reason=str(error)
        ) from None
    finally:
        connection.close()


def _shell_reference(reference: str) -> str:
    """Return how a shell names the secret: the secret itself is never printed."""
    return "$SECRET" if reference.startswith("!") else f"${reference.strip('${}')}"


def _curl(url: str, headers: dict[str, str]) -> str:
    lines = [f"curl -X POST {url}"]
    # Double quotes, because the header of a plain secret has a variable.
    lines += [f'-H "{name}: {value}"' for name, value in headers.items()]
    lines.append(f"--data-binary '{SAMPLE}'")
    return " \\\n  ".join(lines)
