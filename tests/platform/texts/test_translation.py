"""People who read Spanish meet no English sentence: every one of ours is in the catalogue."""

import ast
import importlib
import pkgutil
import re
import string
from collections.abc import Iterator
from pathlib import Path

import pytest
from rumi.platform.texts.spanish import SENTENCES

import rumi
from actors import ActorCrashed
from rumi.errors import RumiError
from rumi.platform.texts.translation import error_text
from rumi.texts import translate
from tests.cli.program import Program
from tests.conftest import ROOT

OTHER_PROCESSES = (
    "rumi.sandbox.bubblewrap.keeper",
    "rumi.web.search.ddgs_process",
    "rumi.web.readers.pages.process",
)
"""Modules that are programs of their own."""

SAYS = {"say", "translate", "_say", "Check", "progress"}
"""Functions that say a sentence in the reader's language."""

PLAIN = ("chmod ", "export ", "rumi sandbox clean", "Python ")
"""What is the same in every language: commands, versions."""

CHECKED = {"found", "fix", "said", "held", "advice", "source", "late", "REBUILD", "SET_THE_CLOCK"}
"""What the doctor's checks are made from: variables that hold a sentence."""

SAMPLES = {
    "cli/doctor/online.py: {…} s {…} the model server's": ["3 s ahead of the model server's"],
    "cli/doctor/machine.py: {…} free": ["2.0 GB free", "17 MB free"],
    "cli/skills.py: {…} {…} off: rumi skills list -a shows {…}.": [
        "1 is off: rumi skills list -a shows it.",
        "2 are off: rumi skills list -a shows them.",
    ],
    "channels/attach/status_watch.py: by {…}": ["by age", "by mail"],
    "cli/skills.py: Change that line in {…}": ["Change that line in /home/skills/a/SKILL.md."],
    "platform/config/layers.py: {…}{…}: {…}.": ["Did you mean agent.max_turns? Known in [agent]: max_turns."],
    "platform/config/layers.py: {…} = {…} ({…}) is not allowed.": [
        "agent.max_turns = 0 (flag) is not allowed."
    ],
    "memory/memory_calls.py: The {…} cannot be empty.": [
        "The key cannot be empty.",
        "The owner cannot be empty.",
    ],
    "memory/writing.py: The {…} of a fact cannot be empty.": ["The key of a fact cannot be empty."],
    "memory/writing.py: The {…} of a fact may have {…} characters, and this one has {…}.": [
        "The value of a fact may have 10 characters, and this one has 12."
    ],
    "sandbox/grammar.py: Refused: {…} near `{…}`.": [
        "Refused: I cannot read the line near `x`.",
        "Refused: `@P` expands text a second time near `${x@P}`.",
        "Refused: a variable that makes bash run a command near `BASH_ENV=x`.",
    ],
    "sandbox/sandbox.py: {…} {…}": ["The sandbox was not made. The Docker daemon does not answer in time."],
    "agent/skills/front_matter.py: its front matter is not YAML{…}: {…}": [
        "its front matter is not YAML (line 2): odd",
        "its front matter is not YAML: odd",
    ],
    "agent/skills/opening.py: {…}: {…}.": ["/skills/a/SKILL.md: its tags must be true or false."],
    "web/search/api.py: {…} {…} (HTTP {…}).": ["Tavily failed (HTTP 500)."],
}
"""What values must be for a sentence to be one: where they are words of ours themselves."""


def kinds_of_error() -> set[str]:
    """The names of all errors that people are shown."""
    for module in pkgutil.walk_packages(rumi.__path__, "rumi."):
        if not module.name.startswith(OTHER_PROCESSES) and not module.name.endswith("__main__"):
            importlib.import_module(module.name)

    def below(kind: type[RumiError]) -> Iterator[str]:
        yield kind.__name__
        for other in kind.__subclasses__():
            yield from below(other)

    return set(below(RumiError))


def sentence(node: ast.expr) -> str | None:
    """A text or an f-string with `{…}` in place of its values."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(str(part.value) if isinstance(part, ast.Constant) else "{…}" for part in parts)
        case ast.BinOp(left=left, op=ast.Add()):
            return sentence(left)
        case _:
            return None


def names(node: ast.Assign) -> set[str]:
    return {target.id for target in node.targets if isinstance(target, ast.Name)}


def sentences_of(path: Path, kinds: set[str]) -> Iterator[str]:
    """What errors and commands say in a file: their sentences, several words each."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Assign) and "doctor" in path.parts and names(node) & CHECKED:
            node = ast.Call(ast.Name("translate"), [node.value], [])
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        helps = [keyword.value for keyword in node.keywords if keyword.arg == "help"]
        said = node.args if name in kinds or name == "__init__" or name in SAYS else []
        if name == "Check":
            said = said[2:]  # behind its name and its verdict
        for argument in [*said, *helps]:
            for branch in (
                (argument.body, argument.orelse) if isinstance(argument, ast.IfExp) else (argument,)
            ):
                text = sentence(branch)
                if text and " " in text.strip() and not text.startswith(PLAIN):
                    yield text


def test_every_sentence_of_errors_and_commands_is_in_the_catalogue() -> None:
    kinds, missing, used = kinds_of_error(), [], set()
    folder = ROOT / "rumi"
    for path in sorted(folder.rglob("*.py")):
        where = path.relative_to(folder)
        if where.parts[0] == "texts" or "bundled" in where.parts:
            continue
        for text in sentences_of(path, kinds):
            name = f"{where}: {text}"
            used.add(name)
            if name not in SAMPLES and not re.search(r"[a-z]{2}", text.replace("{…}", "")):
                continue  # it has no words
            samples = SAMPLES.get(name, [text.replace("{…}", "17")])
            missing += [
                f"{where}: {sample}"
                for sample in samples
                if translate("es", sample.strip()) == sample.strip()
            ]
    assert missing == [], "\n".join(missing)
    assert SAMPLES.keys() <= used, "no sample is for a sentence that is gone"


def test_a_sentence_and_its_translation_have_the_same_values() -> None:
    for english, spanish in SENTENCES.items():
        theirs, ours = (
            {name for _, name, _, _ in string.Formatter().parse(text) if name} for text in (english, spanish)
        )
        assert ours <= theirs, english
        assert theirs - ours <= {"number"}, f"{english}: of these, only the number of an error is left out"


@pytest.mark.parametrize(
    ("english", "spanish"),
    [
        (
            "The home /x cannot be made: Permission denied. Make room on its disk.",
            "No se puede crear la carpeta /x: permiso denegado. Hacé lugar en su disco.",
        ),
        (
            "No engine for commands works here. No Docker daemon answers at x. bubblewrap is missing.",
            "No hay dónde ejecutar comandos. Ningún Docker contesta en x. Falta bubblewrap.",
        ),
        (
            "not fetched: 127.0.0.1 is not public: loopback. Only public addresses are fetched from.",
            "no se bajó: 127.0.0.1 no es público: de la propia máquina. Solo se usan direcciones públicas.",
        ),
        ("code is on.", "code está encendida."),
        ("Nothing of ours. Try again.", "Nothing of ours. Probá de nuevo."),
        ("  Made /x\nsha256 17", "  Hecha: /x\nsha256 17"),
        ("El {modelo} {0} {", "El {modelo} {0} {"),
    ],
)
def test_what_is_told_in_spanish(english: str, spanish: str) -> None:
    assert translate("es", english) == spanish
    assert translate("en", english) == english
    assert translate("es", spanish) == spanish


def test_a_long_or_hostile_text_is_left_as_it_is_and_takes_no_time() -> None:
    hostile = "The connection to " * 200
    assert translate("es", hostile) == hostile
    assert translate("es", "Refused: " * 400) == "Refused: " * 400
    error = RumiError("Try again." * 500, "Try again.")
    assert error_text("es", error).endswith("Probá de nuevo.")


def words(line: str) -> int:
    """How many words a line has that could be English: no names, options, paths or shapes."""
    return len(re.findall(r"(?<![\w/.\[<|-])[a-z]{2,}(?![\w/|=\]])", line))


SAME = {"re"}


def english_lines(spanish: str, english: str) -> list[str]:
    """The lines that both have."""
    theirs = {line.strip() for line in english.splitlines()}
    return [line for line in spanish.splitlines() if line.strip() in theirs and words(line) > 2]


COMMANDS = [
    ("people",), ("people", "list"), ("people", "add"), ("people", "remove"),
    (), ("chat",), ("telegram",), ("web",), ("serve",), ("status",), ("logs",), ("stop",), ("reset",),
    ("undo",), ("replay",), ("report",), ("fetch",), ("recall",), ("memory",), ("memory", "history"),
    ("memory", "forget-everything"),
    ("memory", "list"), ("memory", "set"), ("memory", "forget"), ("memory", "extract"), ("skills",),
    ("skills", "list"), ("skills", "info"), ("skills", "enable"), ("skills", "disable"), ("skills", "create"),
    ("skills", "trust"), ("sandbox",), ("sandbox", "build"), ("sandbox", "status"), ("sandbox", "clean"),
    ("doctor",), ("mcp",), ("mcp", "list"), ("mcp", "add"), ("mcp", "test"), ("mcp", "remove"),
    ("backup",), ("restore",), ("config",), ("config", "path"), ("config", "show"),
    ("config", "set"), ("setup",), ("chats",), ("chats", "list"), ("chats", "show"), ("chats", "search"),
    ("chats", "export"), ("chats", "delete"), ("research",), ("research", "web"), ("research", "repo"),
    ("mcp",), ("mcp", "serve"), ("store",), ("store", "show"), ("store", "copy"),
    ("schedule",), ("schedule", "add"), ("schedule", "list"), ("schedule", "show"), ("schedule", "pause"),
    ("schedule", "resume"), ("schedule", "run"), ("schedule", "delete"),
    ("tasks",), ("tasks", "list"), ("tasks", "show"), ("tasks", "stop"), ("tasks", "delete"), ("usage",),
    ("models",), ("models", "list"), ("models", "test"),
    ("bot",), ("bot", "create"), ("bot", "run"), ("bot", "list"), ("bot", "show"), ("bot", "stop"),
    ("bot", "wake"), ("bot", "history"), ("bot", "memory"), ("bot", "memory", "show"),
    ("bot", "memory", "set"), ("bot", "memory", "remove"), ("bot", "memory", "clear"), ("bot", "skills"),
    ("bot", "skills", "list"), ("bot", "skills", "remove"), ("bot", "skills", "search"),
    ("bot", "skills", "install"), ("bot", "diff"), ("bot", "apply"), ("bot", "delete"), ("bot", "import"),
]  # fmt: skip


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
        assert "en marcha" in ours_
    finally:
        held.kill()
        held.communicate(timeout=60)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (RumiError("The memory does not answer.", "Try again in a moment."),
         "La memoria no contesta. Probá de nuevo en un momento."),
        (ExceptionGroup("tasks", [ExceptionGroup("one", [RumiError("Try again.")])]), "Probá de nuevo."),
        (ValueError("two\n lines"), "ValueError: two lines"),
        (KeyError(), "KeyError"),
        (ActorCrashed("rumi/a", ActorCrashed("rumi/b", ValueError("no"))), "ValueError: no"),
    ],
)  # fmt: skip
def test_what_a_person_reads_of_an_error_is_one_text_in_their_language(
    error: BaseException, text: str
) -> None:
    assert error_text("es", error) == text
    assert len(error_text("es", ValueError("x" * 10_000))) == 300
