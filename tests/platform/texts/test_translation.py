"""Texts are looked up by their English sentences, and every language has all of them."""

import ast
import json
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

from actors import ActorCrashed
from docs.making import texts as catalogues
from rumi.errors import ConfigError, NotTaken, RumiError, answer_of, error_of
from rumi.platform.texts.language import known_language
from rumi.platform.texts.questions import yes_or_no
from rumi.platform.texts.translation import error_text
from rumi.texts import Text, gettext, joined, languages, ngettext, os_error, text_of, translate
from tests.cli.program import Program
from tests.conftest import ROOT


@cache
def calls() -> Sequence[tuple[Path, ast.Call, str]]:
    """All calls in the package, each with its file and the name of what is called."""
    return [
        (path, node, getattr(node.func, "id", getattr(node.func, "attr", "")))
        for path in sorted((ROOT / "rumi").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
    ]


@cache
def errors() -> frozenset[str]:
    return frozenset(
        catalogues._errors(ast.parse(path.read_text()) for path in (ROOT / "rumi").rglob("*.py"))
    )


def test_every_text_has_a_translation_and_every_translation_a_text() -> None:
    assert list(catalogues.faults()) == []
    assert set(catalogues.languages()) == {"es", "es_AR", "pt"} == set(languages()) - {"en"}


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A small program with the catalogues of one language."""
    code = tmp_path / "rumi"
    code.mkdir()
    (code / "a.py").write_text('from rumi.texts import gettext\nprint(gettext("es", "⏹ Stopped."))\n')
    folder = code / "locale" / "es" / "LC_MESSAGES"
    folder.mkdir(parents=True)
    (folder / "rumi.po").write_text('msgid ""\nmsgstr ""\n\nmsgid "⏹ Stopped."\nmsgstr "⏹ Cancelada."\n')
    compile_po(folder / "rumi.po")
    return tmp_path


def compile_po(path: Path) -> None:
    with path.open("rb") as file:
        catalogue = catalogues.read_po(file, locale="es")
    path.with_suffix(".mo").write_bytes(catalogues.compiled(catalogue))


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ('gettext("es", "A new sentence.")', "es: no translation of 'A new sentence.'"),
        (
            'ngettext("es", "{count} new", "{count} news", 2)',
            "es: no translation of ('{count} new', '{count} news')",
        ),
        ('Text("A new text {id}.", id=7)', "es: no translation of 'A new text {id}.'"),
        ('raise UsageError("A new error.")', "es: no translation of 'A new error.'"),
        ('raise UsageError("⏹ Stopped.", "A new advice.")', "es: no translation of 'A new advice.'"),
        ('option("--x", help="A new option.")', "es: no translation of 'A new option.'"),
    ],
)
def test_a_sentence_without_a_translation_is_found(copy: Path, line: str, fault: str) -> None:
    assert list(catalogues.faults(copy)) == []
    with (copy / "rumi" / "a.py").open("a") as file:
        file.write(f"class UsageError(RumiError): ...\n{line}\n")
    assert list(catalogues.faults(copy)) == [fault]


def test_an_unused_translation_and_one_that_was_not_compiled_are_found(copy: Path) -> None:
    path = copy / "rumi" / "locale" / "es" / "LC_MESSAGES" / "rumi.po"
    path.write_text(path.read_text() + '\nmsgid "Gone."\nmsgstr "Ya no está."\n')
    not_made = "es: rumi.mo is not made from rumi.po: make texts"
    assert list(catalogues.faults(copy)) == ["es: the code no longer has 'Gone.'", not_made]
    compile_po(path)
    assert list(catalogues.faults(copy)) == ["es: the code no longer has 'Gone.'"]


def test_a_placeholder_that_the_sentence_does_not_have_is_found(copy: Path) -> None:
    path = copy / "rumi" / "locale" / "es" / "LC_MESSAGES" / "rumi.po"
    path.write_text(path.read_text().replace("Cancelada", "{what} cancelada"))
    compile_po(path)
    assert list(catalogues.faults(copy)) == ["es: '⏹ Stopped.' has no {what}"]


def test_no_key_is_made_while_the_program_runs() -> None:
    """Such a key could be someone else's words, and nobody would miss its translation."""
    made = []
    for path, node, name in calls():
        ours = name == "Text" and "from rich.text" not in path.read_text()
        if ours or name in errors() - {"NewerSchema"}:  # which takes a path
            arguments = node.args[:1] if name == "Text" else node.args[:3]
            made += [f"{path}:{node.lineno}" for one in arguments if isinstance(one, ast.JoinedStr)]
    assert made == []


def test_each_placeholder_has_its_field_where_the_text_is_used() -> None:
    known = {"gettext", "ngettext", "tr", "ntr", "say"} | errors() - {"ModelError", "TokenRefused"}
    lacking = []
    for path, node, name in calls():
        if name not in known or any(keyword.arg is None for keyword in node.keywords):
            continue
        given = {keyword.arg for keyword in node.keywords}
        if name in ("ngettext", "ntr"):
            given.add("count")
        texts = [text for argument in node.args[:4] for text in catalogues._strings(argument)]
        used = {field for text in texts for field in re.findall(r"\{(\w+)\}", text)}
        lacking += [f"{path}:{node.lineno}: {field}" for field in sorted(used - given)]
    assert lacking == []


# What is translated, and what is not


def test_a_text_keeps_its_english_and_can_be_translated_later() -> None:
    text = Text("Unknown task {id}.", id=7)
    assert text == "Unknown task 7."
    assert json.dumps({"error": text}) == '{"error": "Unknown task 7."}'
    assert text.in_language("es") == "No existe la tarea 7."
    assert text.in_language("pt") == "A tarefa 7 não existe."
    assert translate("es", text_of(json.loads(json.dumps(text.to_json())))) == "No existe la tarea 7."


def test_a_strangers_text_that_equals_one_of_ours_is_not_translated() -> None:
    stranger = str(Text("Unknown task {id}.", id=7))
    assert translate("es", stranger) == stranger
    assert translate("es", "⏹ Stopped.") == "⏹ Stopped."
    assert error_text("es", RumiError("The skill {name} is off.", name="⏹ Stopped.")) == (
        "La habilidad ⏹ Stopped. está apagada."
    )
    assert Text("{said}", said="⏹ Stopped.").in_language("es") == "⏹ Stopped."
    assert error_text("es", ValueError("⏹ Stopped.")) == "ValueError: ⏹ Stopped."
    assert text_of("⏹ Stopped.") == translate("es", text_of("⏹ Stopped.")) == "⏹ Stopped."


@pytest.mark.parametrize("value", ["{id}", "{0}", "{id.__class__}", "{{", "%s", "}"])
def test_a_value_with_braces_is_only_a_value(value: str) -> None:
    for language in languages():
        text = Text("Unknown bot {name}.", name=value)
        assert value in text.in_language(language)
        assert value in gettext(language, "Unknown bot {name}.", name=value)


def test_texts_within_texts_are_translated_with_them() -> None:
    inner = RumiError("The memory does not answer.", "Try again in a moment.")
    outer = RumiError("The copy failed: {error}.", error=inner)
    assert str(outer) == "The copy failed: The memory does not answer. Try again in a moment.."
    assert "La memoria no contesta." in error_text("es", outer)
    both = joined([Text("Send it again."), Text("Look at: rumi doctor")])
    assert translate("es", both) == "Envíalo de nuevo. Mira: rumi doctor"
    error = PermissionError(13, "Permission denied", "/x")
    assert str(RumiError("The copy failed: {error}.", error=error)) == f"The copy failed: {error}."
    assert "permiso denegado" in error_text("es", RumiError("The copy failed: {error}.", error=error))
    assert translate("es", os_error(error)) == "permiso denegado"


def test_a_plural_has_the_forms_of_its_language() -> None:
    one, many = "{count} turn", "{count} turns"
    assert [ngettext("es", one, many, count) for count in (0, 1, 2)] == ["0 turnos", "1 turno", "2 turnos"]
    assert [ngettext("en", one, many, count) for count in (0, 1, 2)] == ["0 turns", "1 turn", "2 turns"]
    assert Text(one, many=many, count=1).in_language("pt") == "1 turno"
    assert str(Text(one, many=many, count=3)) == "3 turns"


@pytest.mark.parametrize("kind", [RumiError, ConfigError, NotTaken])
def test_an_error_of_another_process_is_read_in_the_readers_language(kind: type[RumiError]) -> None:
    error = kind("Unknown task {id}.", "Look at the list of tasks.", id=7)
    answer = json.loads(json.dumps(answer_of(error)))
    assert (answer["error"], answer["advice"]) == ("Unknown task 7.", "Look at the list of tasks.")
    assert error_text("es", error_of(answer)) == "No existe la tarea 7. Mira la lista de tareas."
    del answer["texts"]  # as an older process answers
    assert str(error_of(answer)) == error_text("es", error_of(answer)) == str(error)


# Languages


@pytest.mark.parametrize(
    ("tag", "language"),
    [
        ("es", "es"), ("es_AR.UTF-8", "es_AR"), ("es-ar", "es_AR"), ("es-419", "es"), ("es_MX", "es"),
        ("pt", "pt"), ("pt-BR", "pt"), ("pt_PT.UTF-8", "pt"), ("en_GB", "en"), ("fr", None),
        ("", None), (7, None),
        ("../../etc", None),
    ],
)  # fmt: skip
def test_a_tag_means_the_nearest_language_that_texts_exist_in(tag: object, language: str | None) -> None:
    assert known_language(tag) == language


def test_a_region_has_only_what_differs_and_the_rest_is_its_languages() -> None:
    assert gettext("es", "Try again.") == "Prueba otra vez."
    assert gettext("es_AR", "Try again.") == "Probá otra vez."
    assert gettext("es_AR", "⏹ Stopped.") == gettext("es", "⏹ Stopped.") == "⏹ Operación cancelada."


def test_neutral_spanish_has_no_voseo() -> None:
    voseo = re.compile(
        r"\b(?:mandá|probá|mirá|elegí|poné|hacé|decí|escribí|corregí|agregá|pedí|usá|revisá|fijate|acá|tenés|"
        r"podés|querés|sos|vos|abrí|esperá|sacá|arrancá|cambiá|borrá|nombrá|instalá|mandalo|pedile|mové)\b",
        re.IGNORECASE,
    )
    with (ROOT / catalogues.LOCALE / "es" / "LC_MESSAGES" / "rumi.po").open("rb") as file:
        neutral = catalogues.read_po(file, locale="es")
    found = [
        f"{message.id!r}: {message.string!r}"
        for message in neutral
        if message.id
        and voseo.search(" ".join([message.string] if isinstance(message.string, str) else message.string))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("word", "answer"),
    [("yes", True), ("Sí.", True), ("dale", True), ("sim", True), ("OK", True), ("s", True), ("no", False),
     ("não", False), ("n", False), ("maybe", None), ("", None), ("yes " * 99, None)],
)  # fmt: skip
def test_an_answer_is_understood_in_each_language(word: str, answer: bool | None) -> None:
    assert yes_or_no(word) is answer


def words(line: str) -> int:
    """How many words a line has that could be English: no names, options, paths or shapes."""
    return len(re.findall(r"(?<![\w/.\[<|-])[a-z]{2,}(?![\w/|=\]])", line))


SAME = {"re"}


def english_lines(spanish: str, english: str) -> list[str]:
    """The lines that both have."""
    theirs = {line.strip() for line in english.splitlines()}
    return [line for line in spanish.splitlines() if line.strip() in theirs and words(line) > 2]


COMMANDS = [
    (),
    *(
        tuple(words.split())
        for line in (
            "bot, bot apply, bot create, bot delete, bot diff, bot history, bot import, bot list",
            "bot memory, bot memory clear, bot memory remove, bot memory set, bot memory show, bot run",
            "bot show, bot skills, bot skills install, bot skills list, bot skills remove",
            "bot skills search, bot stop, bot wake",
            "chat",
            "chats, chats delete, chats diff, chats export, chats list, chats reset, chats search",
            "chats sessions, chats show, chats stop, chats undo",
            "config, config get, config path, config people, config people add, config people list",
            "config people remove, config set, config show, config unset",
            "data, data backup, data copy, data restore, data show",
            "debug, debug fetch, debug logs, debug replay, debug report, debug sandbox",
            "debug sandbox build, debug sandbox clean, debug sandbox status",
            "doctor",
            "import",
            "mcp, mcp add, mcp allow, mcp list, mcp login, mcp logout, mcp remove, mcp serve, mcp test",
            "memory, memory extract, memory forget, memory forget-everything, memory history, memory list",
            "memory set",
            "models, models list, models test, models usage",
            "plugins, plugins disable, plugins enable, plugins list",
            "schedule, schedule add, schedule approve, schedule delete, schedule edit, schedule list",
            "schedule pause, schedule resume, schedule run, schedule show, schedule trigger",
            "schedule trigger fire, schedule trigger list, schedule trigger test",
            "serve",
            "setup",
            "skills, skills create, skills disable, skills enable, skills info, skills list, skills trust",
            "status",
            "tasks, tasks delete, tasks list, tasks research, tasks research repo, tasks research web",
            "tasks show, tasks stop",
            "web, web link, web revoke, web serve, web sessions",
        )
        for words in line.split(",")
    ),
]


@pytest.fixture
def spanish(bubblewrap: Program) -> Program:
    return Program(bubblewrap.home, {**bubblewrap.env, "LANG": "es_AR.UTF-8"})


@pytest.fixture
def bubblewrap(tmp_path: Path) -> Program:
    return Program(tmp_path / "home", {"RUMI_SANDBOX__BACKEND": "bubblewrap"})


@pytest.mark.long
def test_the_help_of_each_command_is_spanish(bubblewrap: Program, spanish: Program) -> None:
    for command in COMMANDS:
        theirs, ours = (instance.run(*command, "--help").stdout for instance in (bubblewrap, spanish))
        assert english_lines(ours, theirs) == [], command
        assert ours.startswith("Uso: rumi"), command


def test_all_commands_are_looked_at() -> None:
    from rumi.cli.group import group

    def names(command: object, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        yield path
        for name in command.list_commands(None) if hasattr(command, "list_commands") else ():  # type: ignore[attr-defined]
            yield from names(command.get_command(None, name), (*path, name))  # type: ignore[attr-defined]

    assert set(names(group, ())) == set(COMMANDS)


WRONG: list[tuple[tuple[str, ...], int]] = [
    (("--versio",), 2),
    (("statu",), 2),
    (("chat", "--sandbox", "x"), 2),
    (("chat", "--model"), 2),
    (("reset",), 2),
    (("reset", "a", "b"), 2),
    (("reset", "nope"), 2),
    (("undo", "nope"), 2),
    (("replay", "t1"), 2),
    (("report", "t1"), 2),
    (("stop", "no id"), 2),
    (("stop",), 2),
    (("stop", "cli", "--all"), 2),
    (("logs", "-n", "x"), 2),
    (("fetch",), 2),
    (("fetch", "http://127.0.0.1/"), 1),
    (("fetch", "ftp://x/"), 1),
    (("skills", "info", "nope"), 2),
    (("skills", "create", "a b"), 1),
    (("chat", "--model", "groq:x", "-p", "hi"), 2),
    (("chat", "--model", "odd", "-p", "hi"), 2),
    (("telegram",), 2),
    (("status",), 1),
    (("memory", "set", " ", "x"), 2),
    (("backup", "/proc/b"), 2),
    (("chat", "-p", ""), 2),
]
"""Commands that fail, and their exit codes."""


@pytest.mark.long
def test_what_goes_wrong_is_told_in_spanish(bubblewrap: Program, spanish: Program) -> None:
    for command, code in WRONG:
        theirs, ours = (instance.run(*command, code=code).stderr for instance in (bubblewrap, spanish))
        assert theirs != ours, command
        assert english_lines(ours, theirs) == [], command


def test_the_language_of_the_configuration_counts_for_help_and_errors_also_of_itself(
    spanish: Program,
) -> None:
    spanish.env["LANG"] = "en_US.UTF-8"
    spanish.home.mkdir()
    (spanish.home / "config.toml").write_text('language = "es"\n[agent]\nmax_turns = 0\n')
    assert spanish.run("--help").stdout.startswith("Uso: rumi")
    assert "no se permite. Se permite: " in spanish.run("config", "show", code=2).stderr
    (spanish.home / "config.toml").write_text("language = ]")
    assert "is not valid TOML" in spanish.run("config", "show", code=2).stderr
    spanish.env["RUMI_LANGUAGE"] = "es"
    assert "no es TOML válido" in spanish.run("config", "show", code=2).stderr


@pytest.mark.bubblewrap
def test_a_terminal_of_somebody_who_reads_portuguese_is_portuguese(bubblewrap: Program) -> None:
    bubblewrap.env["LANG"] = "pt_BR.UTF-8"
    assert bubblewrap.run("--help").stdout.startswith("Uso: rumi [OPÇÕES]")
    assert bubblewrap.run("statu", code=2).stderr.endswith("Você quis dizer 'status'?\n")
    assert (
        "Recusado: o programa `curl` não está na lista." in bubblewrap.run("chat", "-p", "run curl x").stderr
    )
    assert bubblewrap.run("chat", "-p", "/retry").stdout == "Não há nada para tentar de novo.\n"
    assert "não foi baixado: " in bubblewrap.run("chat", "-p", "fetch http://127.0.0.1/").stderr
    lines = [
        json.loads(line) for line in bubblewrap.run("chat", "--json", "-p", "run curl x").stdout.splitlines()
    ]
    (result,) = (line["content"] for line in lines if line["event"] == "tool_result")
    assert result.startswith("Refused: the program `curl` is not on the list."), "programs get English"


@pytest.mark.long
@pytest.mark.bubblewrap
def test_what_works_is_told_in_spanish_too(bubblewrap: Program, spanish: Program, tmp_path: Path) -> None:
    for program in (bubblewrap, spanish):
        program.env["COLUMNS"] = "100"
    for command in (("sandbox", "status"), ("doctor",), ("skills", "info", "explain")):
        theirs, ours = (instance.run(*command, code=None).stdout for instance in (bubblewrap, spanish))
        described = {line for line in theirs.splitlines() if line.startswith("  ") and command[0] == "skills"}
        assert [line for line in english_lines(ours, theirs) if line not in described] == []
    ours = spanish.run("chat", "-p", "run curl x", code=0)
    assert "Rechazado: el programa `curl` no está en la lista." in ours.stderr
    spanish.run("chat", "-p", "write a.txt: x")
    ours_, theirs_ = (instance.run("backup", str(tmp_path / name)).stdout for instance, name in
                      ((spanish, "b"), (bubblewrap, "c")))  # fmt: skip
    assert english_lines(ours_, theirs_) == []
    held = spanish.start("chat")
    try:
        from tests.cli.test_chat import wait_for

        wait_for(lambda: spanish.run("status", "--json", code=None).returncode == 0)
        assert held.stdin is not None
        held.stdin.write("run echo hola\n")
        held.stdin.flush()
        wait_for(lambda: "chat" in spanish.run("status").stdout)
        theirs, ours_ = (instance.run("status").stdout for instance in (bubblewrap, spanish))
        assert english_lines(ours_, theirs) == []
        assert "en curso" in ours_
    finally:
        held.kill()
        held.communicate(timeout=60)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (RumiError("The memory does not answer.", "Try again in a moment."),
         "La memoria no contesta. Probá de nuevo en un momento."),
        (ExceptionGroup("tasks", [ExceptionGroup("one", [RumiError("Try again.")])]), "Probá otra vez."),
        (ValueError("two\n lines"), "ValueError: two lines"),
        (KeyError(), "KeyError"),
        (ActorCrashed("rumi/a", ActorCrashed("rumi/b", ValueError("no"))), "ValueError: no"),
    ],
)  # fmt: skip
def test_what_a_person_reads_of_an_error_is_one_text_in_their_language(
    error: BaseException, text: str
) -> None:
    assert error_text("es_AR", error) == text
    assert len(error_text("es", ValueError("x" * 10_000))) == 300
