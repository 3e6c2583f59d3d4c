"""The documents have no fault, and what `make docs-check` looks for, it finds."""

import re
from pathlib import Path

import pytest

from docs.making import calls, checking, commands, dialects, shown
from rumi.cli.speaking import reader

ROOT = Path(__file__).resolve().parent.parent


def test_no_document_has_a_fault() -> None:
    assert {path.name for path in checking.documents()} >= {"README.md", "architecture.md", "commands.md"}
    assert [str(fault) for fault in checking.faults()] == []


def test_the_commands_are_in_english_on_a_machine_that_speaks_another_language(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RUMI_LANGUAGE", "es")
    reader.cache_clear()
    try:
        assert reader() == "es"
        assert commands.rendered() == commands.TARGET.read_text("utf-8")
    finally:
        reader.cache_clear()


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("[x](nowhere.md)", "there is no nowhere.md"),
        ("[x](security.md#the-moon)", "has no heading #the-moon"),
        ("[`Inbox.gone`](../rumi/chats/inbox.py)", "has no Inbox.gone"),
        ("![a picture](pictures/none.svg)", "there is no pictures/none.svg"),
        ("`rumi/chats/gone.py`", "there is no rumi/chats/gone.py"),
        ("`test_that_pigs_fly`", "there is no test_that_pigs_fly"),
        ("`make money` now", "there is no make money"),
        ("```\nmake money\n```", "there is no make money"),
        (
            "```python\nfrom rumi.chats.inbox import Inbox, Outbox\n```",
            "there is no Outbox in rumi.chats.inbox",
        ),
        ("```python\nfrom rumi.gone import Inbox\n```", "there is no Inbox in rumi.gone"),
        ("`[agent] max_turn = 3`", "the configuration has no agent.max_turn"),
        ("```toml\n[agent]\nmax_turn = 3\n```", "Unknown key agent.max_turn"),
    ],
)
def test_what_leads_nowhere_is_found(line: str, says: str) -> None:
    document = ROOT / "docs/planted.md"
    (found,) = [*checking.dead_links(document, line), *in_words(line)]
    assert says in found


def in_words(text: str) -> list[str]:
    """What is wrong with what is named."""
    checks = (
        checking.dead_paths,
        checking.dead_names,
        checking.dead_keys,
        checking.dead_imports,
        checking.wrong_settings,
    )
    return [fault for check in checks for fault in check(text)]


def test_what_leads_somewhere_is_none() -> None:
    document = ROOT / "docs/planted.md"
    text = (
        "[a](security.md#the-web) [b](https://example.org/x) `rumi/chats/inbox.py`"
        " [`Inbox.accept`](../rumi/chats/inbox.py) `make docs` `make .venv/.ready` `[agent] max_turns`"
        "\n# Here\n```\n[d](in-a-fence)\n```\n"
    )
    assert list(checking.dead_links(document, text)) == []
    assert in_words(text) == []
    assert checking.anchors("# A `b` c, d\n## x\n## x\n") == {"a-b-c-d", "x", "x-1"}


@pytest.mark.parametrize(
    "line", ["`rumi stop`", "`rumi chat -p …`", "`rumi skills list\\|info`", "`rumi`", "`rumi.cli`"]
)
def test_commands_that_work_pass(line: str) -> None:
    assert list(shown.wrong_commands(line)) == []


@pytest.mark.parametrize(
    "text",
    ["`rumi dance`", "`rumi chat --slowly`", "```\nx | rumi fetch --chek\n```", "```\nrumi reset\n```"],
)
def test_commands_that_do_not_work_are_found(text: str) -> None:
    assert len(list(shown.wrong_commands(text))) == 1


def test_commands_in_several_lines_with_quotes_and_pipes_are_read_as_a_shell_does() -> None:
    fence = """```sh
rumi schedule add "every day 07:00" "today's news; then | the \\"weather\\"" \\
    --turn
echo 'a | b' | rumi chat -p 'c && d' && rumi memory list
rumi config set KEY - <<'END'
```"""
    read = [shown.spelled_out(words) for words, _ in shown.commands_in(fence)]
    assert [line for (line,) in read] == [
        ["schedule", "add", "every day 07:00", 'today\'s news; then | the "weather"', "--turn"],
        ["chat", "-p", "c && d"],
        ["memory", "list"],
        ["config", "set", "KEY", "-"],
    ]
    assert list(shown.wrong_commands(fence)) == []
    assert len(list(shown.wrong_commands(fence.replace("--turn", "--tern")))) == 1


def test_stale_control_calls_are_found() -> None:
    text = calls.TARGET.read_text("utf-8")
    assert list(checking.stale_calls(text)) == []
    assert list(checking.stale_calls(text.replace("integer", "number", 1))) != []


def test_a_stale_list_of_dialects_is_found() -> None:
    text = dialects.TARGET.read_text("utf-8")
    assert list(checking.stale_dialects(text)) == []
    assert list(checking.stale_dialects(text.replace("Mistral", "mistral", 1))) != []


def test_stale_help_is_found() -> None:
    text = commands.rendered()
    assert list(checking.stale_help(text)) == []
    assert list(checking.stale_help(text.replace("Options:", "Choices:", 1))) != []


def test_the_architecture_page_has_the_packages_in_the_order_of_their_imports() -> None:
    text = checking.ARCHITECTURE.read_text("utf-8")
    assert list(checking.wrong_packages(text)) == []
    assert list(checking.wrong_packages(text.replace("| `rumi/memory/` |", "| memory |"))) == [
        "rumi/memory/ has no row"
    ]
    assert list(checking.wrong_packages(f"{text}\n| `rumi/cellar/` | wine | all |\n")) == [
        "there is no package rumi/cellar/"
    ]
    assert list(checking.wrong_packages(text.replace("errors.py", ""))) == ["rumi/errors.py is not named"]


def test_a_package_below_one_that_it_imports_is_found() -> None:
    text = checking.ARCHITECTURE.read_text("utf-8")
    cli, platform = "| `rumi/cli/` |", "| `rumi/platform/` |"
    swapped = text.replace(cli, "|  |").replace(platform, cli).replace("|  |", platform)
    assert "rumi/cli/ imports rumi/app/, which stands above it" in list(checking.wrong_packages(swapped))


def test_the_index_has_each_page_and_its_audience() -> None:
    text = checking.INDEX.read_text("utf-8")
    assert list(checking.wrong_index(text)) == []
    assert list(checking.wrong_index(text.replace("(undo.md)", "()"))) == ["docs/undo.md is not in the index"]
    assert list(
        checking.wrong_index(text.replace("(cluster.md)", "()").replace("(undo.md)", "(cluster.md)"))
    ) == [
        "docs/cluster.md is for you, and its first line says otherwise",
        "docs/undo.md is not in the index",
    ]


def test_the_readme_is_short_and_each_promise_has_its_proofs() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    assert len(text.splitlines()) <= 120
    assert {"make chat", "make test"} <= set(text.splitlines())
    assert "make check" in (ROOT / ".ci" / "run").read_text("utf-8")  # whose last step is `make test`
    (promises,) = re.findall(r"^## Five promises\n(.*?)^## ", text, re.MULTILINE | re.DOTALL)
    lines = [line for line in promises.splitlines() if line.startswith("- ")]
    assert len(lines) == 5
    assert all("(docs/proofs.md#" in line for line in lines)


def test_a_command_that_does_not_end_as_it_should_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shown.md").write_text("```\n$ rumi config path\n```\n")
    assert shown.failing_commands([tmp_path / "shown.md"]) == []
    monkeypatch.setitem(shown.HARMLESS, ("config", "path"), (7,))
    (told,) = shown.failing_commands([tmp_path / "shown.md"])
    assert told.startswith("rumi config path: exit 0")


def test_it_ends_with_1_and_a_line_where_there_is_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(checking, "ROOT", tmp_path)
    (tmp_path / "README.md").write_text("All is [well](README.md).\n")
    assert checking.main() == 0
    (tmp_path / "README.md").write_text("All is [well](well.md).\n")
    assert checking.main() == 1
    assert capsys.readouterr().err == "README.md: there is no well.md\n"
