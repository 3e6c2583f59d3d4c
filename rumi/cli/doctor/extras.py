"""Checks of the extras: which are installed, and whether a setting needs one that is not."""

from collections.abc import Iterator

from rumi.cli.doctor.check import Check
from rumi.platform.config.cascade import Loaded
from rumi.platform.config.people import channel_mailbox
from rumi.platform.extras import EXTRAS, ExtraName, MissingExtra, install_command, is_installed
from rumi.texts import Text


def extras(loaded: Loaded) -> list[Check]:
    """List the extras, and report each that the configuration needs and that is not installed."""
    needed = {name: setting for name, setting in _needed(loaded) if not is_installed(name)}
    checks = []
    for name, setting in needed.items():
        missing = MissingExtra(name)
        found = Text("{setting} is set. {missing}", setting=setting, missing=missing.message)
        checks.append(Check("extras", "failure", found, missing.advice))
    present = [name for name in EXTRAS if is_installed(name)]
    absent = [name for name in EXTRAS if name not in present and name not in needed]
    if not absent:
        return checks or [Check("extras", "ok", Text("all are installed"))]
    command = install_command(absent[0])
    found = Text(
        "installed: {present}; not installed: {absent} (to install one: {command})",
        present=", ".join(present) or Text("none"),
        absent=", ".join(absent),
        command=command,
    )
    return [*checks, Check("extras", "ok", found)]


def _needed(loaded: Loaded) -> Iterator[tuple[ExtraName, str]]:
    """Yield the extras that the configuration needs, each with a setting that needs it."""
    settings = loaded.settings
    if settings.store.url:
        yield "cluster", "store.url"
    if loaded.secrets.mcp_token is not None:
        yield "mcp", "MCP_TOKEN"
    if settings.mcp:
        yield "mcp", f"mcp.{next(iter(settings.mcp))}"
    if settings.calendars:
        yield "calendar", f"calendars.{next(iter(settings.calendars))}"
    if (own := channel_mailbox(settings)) is not None:
        yield "mail", f"mail.{own[0]}.channel"
    if settings.matrix:
        yield "matrix", f"matrix.{next(iter(settings.matrix))}"
    if settings.telegram.listen or settings.telegram.webhook:
        yield "page", "telegram.listen" if settings.telegram.listen else "telegram.webhook"
    if secret := next((name for name, one in settings.triggers.items() if one.secret is not None), None):
        yield "page", f"triggers.{secret}.secret"
    if settings.page.url:
        yield "page", "page.url"
