"""What people read, word for word, in both languages."""

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable

import pytest

from rumi.chats.commands import NAMES, UnknownCommand, parse_chat_command
from rumi.platform import texts
from rumi.platform.texts import replies as reply_texts
from rumi.platform.texts import storage as storage_texts
from rumi.platform.texts import telegram as telegram_texts
from rumi.platform.texts import welcome as welcome_texts
from rumi.platform.texts.language import detect_language
from rumi.texts import Language, languages

ES_BUSY = "⏳ Ya estoy trabajando en algo. Esperá a que termine o mandá /stop."
EN_BUSY = "⏳ Already working on something. Wait for it, or send /stop."
ES_CRASH = "❌ Algo falló y lo reinicié. Mandá /retry para intentarlo de nuevo."
EN_CRASH = "❌ Something failed and was restarted. Send /retry to try again."
ES_RESTART = "⚠️ Me reinicié mientras trabajaba en: «hola». Mandá /retry para intentarlo de nuevo."
EN_RESTART = "⚠️ I was restarted while working on: “hola”. Send /retry to try again."
ES_MODEL = "❌ El modelo no responde: sin conexión. Mandá /retry para intentarlo de nuevo."
EN_MODEL = "❌ The model did not answer: sin conexión. Send /retry to try again."
ES_STRANGER = "No te conozco todavía. Tu id es 42; pedile al dueño que lo agregue a allowed_users."
EN_STRANGER = "I don't know you yet. Your id is 42; ask the owner to add it to allowed_users."


@pytest.mark.parametrize(
    ("say", "es", "en"),
    [
        (reply_texts.busy, ES_BUSY, EN_BUSY),
        (reply_texts.stopped, "⏹ Operación cancelada.", "⏹ Stopped."),
        (reply_texts.nothing_running, "No hay ninguna operación en curso.", "Nothing is running."),
        (reply_texts.crashed, ES_CRASH, EN_CRASH),
        (lambda language: reply_texts.restarted(language, "hola"), ES_RESTART, EN_RESTART),
        (lambda language: reply_texts.model_failed(language, "sin conexión"), ES_MODEL, EN_MODEL),
        (lambda language: telegram_texts.stranger(language, 42), ES_STRANGER, EN_STRANGER),
        (
            lambda language: reply_texts.reset(language, 0),
            "✨ Sesión reiniciada: contenedor e historial limpios.",
            "✨ Session reset: container and history cleared.",
        ),
        (
            lambda language: reply_texts.breaker(language, "max_turns", 10),
            "⚠️ Llegué al máximo de turnos (10).",
            "⚠️ Reached the maximum of 10 turns.",
        ),
        (
            lambda language: reply_texts.breaker(language, "repeated_call", 10),
            "⚠️ Detecté un bucle y me detuve.",
            "⚠️ Detected a loop and stopped.",
        ),
        (
            lambda language: reply_texts.breaker(language, "consecutive_errors", 10),
            "⚠️ Demasiados errores seguidos.",
            "⚠️ Too many errors in a row.",
        ),
        (
            lambda language: reply_texts.breaker(language, "timeout", 10),
            "⚠️ Se acabó el tiempo de este turno.",
            "⚠️ This turn ran out of time.",
        ),
    ],
)
def test_people_read_exactly_what_was_promised(say: Callable[[Language], str], es: str, en: str) -> None:
    assert say("es_AR") == es
    assert say("en") == en


def test_a_reset_says_how_many_facts_were_saved_if_any() -> None:
    assert reply_texts.reset("es", 3).startswith("📝 Guardé 3 hechos en memoria.")
    assert reply_texts.reset("en", 3).startswith("📝 Saved 3 facts to memory.")
    assert reply_texts.reset("en", 3).endswith(reply_texts.reset("en", 0))


def test_a_reason_that_ends_in_a_full_stop_has_no_second_one() -> None:
    assert ".." not in reply_texts.model_failed("en", "It timed out. ")


def test_a_long_message_is_quoted_in_part_and_on_one_line() -> None:
    quoted = reply_texts.restarted("en", "line\nline " * 100)
    assert "\n" not in quoted
    assert "…”" in quoted
    assert len(quoted) < 250


@pytest.mark.parametrize(
    ("setting", "environment", "language"),
    [
        ("es", {"LANG": "en_US.UTF-8"}, "es"),
        ("en", {"LANG": "es_AR.UTF-8"}, "en"),
        ("auto", {"LANG": "es_AR.UTF-8"}, "es_AR"),
        ("auto", {"LANG": "es"}, "es"),
        ("auto", {"LANG": "en_US.UTF-8"}, "en"),
        ("auto", {"LANG": "de_DE"}, "en"),
        ("auto", {"LANG": ""}, "en"),
        ("auto", {}, "en"),
        ("auto", {"LC_ALL": "es_ES", "LANG": "en_US"}, "es"),
        ("auto", {"LC_ALL": "C.UTF-8", "LANG": "es_AR.UTF-8"}, "es_AR"),
        ("auto", {"LC_ALL": "POSIX", "LC_MESSAGES": "C", "LANG": "es_AR.UTF-8"}, "es_AR"),
        ("auto", {"LC_ALL": "en_US.UTF-8", "LANG": "es_AR.UTF-8"}, "en"),
    ],
)
def test_the_language_is_the_settings_or_the_locales(
    setting: str, environment: dict[str, str], language: str
) -> None:
    assert detect_language(setting, environment) == language


def test_the_help_lists_every_command_in_both_languages() -> None:
    for language in ("es", "en"):
        for command in ("/help", "/stop", "/new", "/reset", "/status", "/retry", "/memory", "/skills"):
            assert f"`{command}`" in reply_texts.help_text(language)


def test_the_help_shows_ten_commands_and_those_that_have_something_to_show() -> None:
    def shown(*with_content: str) -> list[str]:
        text = reply_texts.help_text("en", with_content=with_content)
        return re.findall(r"(?m)^- `(/\w+)`", text)

    assert len(shown()) == 10
    assert shown("tasks", "help") == [*shown(), "/tasks"]
    assert {name for name, _ in reply_texts.menu("pt")} == set(shown())


def test_the_help_of_all_has_each_command_once_in_groups() -> None:
    for language in languages():
        text = reply_texts.help_of_all(language)
        named = re.findall(r"(?m)^- `/(\w+)`", text)
        assert sorted(named) == sorted(NAMES)
        assert text.count("**") >= 8
    assert "`/people`" not in reply_texts.help_of_all("en", lambda name: name != "people")


def test_a_mistyped_command_is_answered_with_the_nearest_one() -> None:
    assert parse_chat_command("/stpo") == UnknownCommand("/stpo", "/stop")
    assert parse_chat_command("/xyzzy") == UnknownCommand("/xyzzy")
    assert "Did you mean /stop?" in reply_texts.unknown_command("en", "/stpo", "/stop")
    assert "¿Quisiste decir /stop?" in reply_texts.unknown_command("es", "/stpo", "/stop")
    assert "Did you mean" not in reply_texts.unknown_command("en", "/xyzzy")


def test_without_a_key_one_line_says_so() -> None:
    for language in ("es", "en"):
        assert "GROQ_API_KEY" in reply_texts.no_key(language)
        assert "offline" in reply_texts.no_key(language)
        assert "\n" not in reply_texts.no_key(language)


@pytest.mark.parametrize("columns", [60, 100, 200])
@pytest.mark.parametrize("language", ["es", "en", "pt", "es_AR"])
def test_the_first_screen_fits_and_names_the_ways_to_a_real_model(language: str, columns: int) -> None:
    servers = ["ollama (http://127.0.0.1:11434/v1)"]
    said = welcome_texts.welcome(language, columns, servers, demo=True, first=True)
    for part in ("rumi setup", "https://console.groq.com/keys", "ollama (http"):
        assert part in said.replace("\n", " ")
    assert all(len(line) < columns for line in said.splitlines())
    again = welcome_texts.welcome(language, columns, [], demo=True, first=False)
    assert len(again) < 200
    assert not welcome_texts.welcome(language, columns, [], demo=False, first=False)
    real = welcome_texts.welcome(language, columns, [], demo=False, first=True)
    assert "rumi setup" not in real


def test_no_text_is_the_same_in_both_languages() -> None:
    samples = {
        "name": "/x",
        "why": "x",
        "message": "x",
        "user": 1,
        "facts": 1,
        "reason": "timeout",
        "max_turns": 1,
    }
    samples |= {"chat": "cli", "phase": "thinking", "seconds": 1.0, "container": "", "messages": 0}
    said = 0
    packages = pkgutil.iter_modules(texts.__path__, f"{texts.__name__}.")
    modules = [importlib.import_module(package.name) for package in packages if not package.ispkg]
    for name, say in (
        found for module in modules for found in inspect.getmembers(module, inspect.isfunction)
    ):
        parameters = inspect.signature(say).parameters
        if (
            name.startswith("_")
            or next(iter(parameters)) != "language"
            or set(parameters) - {"language", *samples}
        ):
            continue
        arguments = {key: samples[key] for key in parameters if key != "language"}
        assert say("es", **arguments) != say("en", **arguments)
        said += 1
    assert said >= 12


@pytest.mark.parametrize("phase", ["thinking", "answering", "waiting for a yes or a no", "resetting"])
def test_a_chats_status_says_what_it_does_in_the_persons_language(phase: str) -> None:
    def said(language: Language) -> str:
        return reply_texts.chat_status(language, chat="cli", phase=phase, seconds=2, container="", messages=3)

    assert phase in said("en")
    assert phase not in said("es")


def test_a_database_that_is_away_is_named_in_both_languages() -> None:
    for say in (storage_texts.not_stored, storage_texts.waits_for_the_disk):
        assert "database does not answer" in say("en", "away")
        assert "base de datos no responde" in say("es", "away")
