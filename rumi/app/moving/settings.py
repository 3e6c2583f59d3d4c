"""Translates settings of other programs: people, models, servers of tools, and where keys are."""

import re
import shlex
from typing import Any, Final

from rumi.app.moving.reading import listed, mapping, word
from rumi.app.moving.records import ForeignHome, MovedPerson, MovedText, hidden
from rumi.platform.config.providers import PROVIDERS
from rumi.platform.text_decoding import decode
from rumi.texts import Text

MOST_PEOPLE: Final = 200
MOST_SECTIONS: Final = 2_000
MOST_COMMAND_CHARS: Final = 160
MOST_TEXT_BYTES: Final = 200_000
_USER: Final = re.compile(r"(?:telegram:|tg:)?(?P<id>[1-9][0-9]{0,15})(?:\|(?P<name>.*))?", re.IGNORECASE)
_NAME: Final = re.compile(r"[^A-Za-z0-9-]+")
_SECRET_NAME: Final = re.compile(r"(?:key|token|secret|password|apikey)$", re.IGNORECASE)
_PROVIDERS: Final = {"google": "gemini", "x-ai": "xai", "mistralai": "mistral"}
_SAME_NAMES: Final = frozenset(
    {"openai", "anthropic", "groq", "deepseek", "mistral", "gemini", "xai", "ollama", "openrouter"}
)


def add_people(moved: ForeignHome, allowed: object, channel: str) -> None:
    """Add the people of an allowlist of Telegram. Those of other channels, and `*`, are left out."""
    entries = allowed.split(",") if isinstance(allowed, str) else listed(allowed)
    for entry in entries[:MOST_PEOPLE]:
        text = word(entry)
        if not text:
            continue
        found = _USER.fullmatch(text)
        if text == "*":
            moved.leave("people", channel, Text("it let everyone in; Rumi lets in only people whom you name"))
        elif channel != "telegram":
            moved.leave("people", channel, Text("Rumi has no such channel"))
        elif found is None:
            moved.leave("people", channel, Text("names without a numeric id, which Rumi needs"))
        elif all(one.telegram != int(found["id"]) for one in moved.people):
            name = _NAME.sub("-", found["name"] or "").strip("-")[:30].lower()
            taken = {one.name for one in moved.people} | {"local", "admin"}
            name = name if name and name not in taken else f"user{found['id']}"
            moved.people.append(MovedPerson(name, int(found["id"])))


def add_model(moved: ForeignHome, provider: str, model: str, url: str = "") -> None:
    """Add the default model, if Rumi knows its provider; otherwise note how to set it by hand."""
    if not model:
        return
    provider = provider.strip().casefold()
    if provider in ("", "auto") and "/" in model:
        provider, _, model = model.partition("/")
    provider = _PROVIDERS.get(provider, provider)
    if provider in PROVIDERS and provider in _SAME_NAMES:
        moved.settings["model.default"] = f"{provider}:{model}"
    elif url:
        moved.leave(
            "config",
            "model",
            Text("a server of your own: rumi config set model.custom.NAME.base_url {url}", url=url[:200]),
        )
    else:
        moved.leave(
            "config", "model", Text("{model} is of a provider that Rumi does not know", model=model[:80])
        )


def leave_servers(moved: ForeignHome, servers: object) -> None:
    """Note the servers of tools. They are programs that would start, so a person adds them."""
    for name, server in list(mapping(servers).items())[:200]:
        section = mapping(server)
        url = word(section.get("url")).partition("?")[0]
        words = [word(section.get("command")), *map(word, listed(section.get("args")))]
        how = f"--url {shlex.quote(url)}" if url else f"-- {shlex.join(filter(None, words))}"
        label = _NAME.sub("-", name)[:40].strip("-") or "NAME"
        shown = hidden(f"{label} {how}")
        shown = shown if len(shown) <= MOST_COMMAND_CHARS else f"{shown[: MOST_COMMAND_CHARS - 1]}…"
        why = Text("you add servers of tools yourself: rumi mcp add {server}", server=shown)
        moved.leave("config", f"MCP {label}", why)


def leave_keys(moved: ForeignHome, names: set[str], where: str) -> None:
    """Note that keys are not copied. `names` are those of variables or settings, never their values."""
    shown = sorted(name for name in names if re.fullmatch(r"[\w.-]{1,80}", name))
    if shown:
        moved.leave(
            "config",
            where,
            Text("keys are not copied: {names}; enter them with rumi setup", names=", ".join(shown[:12])),
            count=len(names),
        )


def keys_in(settings: object) -> set[str]:
    """Return the paths of settings that contain a key, a token or a password. Values are not returned."""
    found: set[str] = set()
    # Aliases of YAML can repeat a small section any number of times, so the number of sections has a limit.
    sections = [("", mapping(settings))]
    for path, section in sections:
        for name, value in list(section.items())[:1000]:
            where = f"{path}.{name}" if path else str(name)
            if isinstance(value, dict) and len(sections) < MOST_SECTIONS:
                sections.append((where, value))
            elif isinstance(value, str) and value and not value.startswith("$") and _SECRET_NAME.search(name):
                found.add(where)
    return found


def variables(text: str) -> dict[str, str]:
    """Return the variables of a .env file."""
    from io import StringIO

    from dotenv.parser import parse_stream

    pairs = ((one.key, one.value) for one in parse_stream(StringIO(text)) if not one.error)
    return {key: value or "" for key, value in pairs if key}


def secret_variables(found: dict[str, str]) -> set[str]:
    """Return the names of set variables that contain a key."""
    return {name for name, value in found.items() if value and _SECRET_NAME.search(name)}


def keep_text(moved: ForeignHome, name: str, content: bytes | None) -> None:
    """Keep a file with instructions for the other assistant, without the keys in it."""
    if content and content.strip() and len(content) <= MOST_TEXT_BYTES:
        text = decode(content)
        safe = hidden(text)
        moved.texts.append(MovedText(name, content if safe == text else safe.encode("utf-8", "replace")))


def section(settings: Any, *names: str) -> dict[str, Any]:
    """Return a section of settings; empty if it does not exist."""
    for name in names:
        settings = mapping(settings).get(name)
    return mapping(settings)
