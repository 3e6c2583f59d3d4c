"""`[groups.ID]`: what an owner may write, what is refused, and which section counts for which chat."""

from pathlib import Path

import pytest

from rumi.errors import ConfigError
from rumi.platform.config.cascade import load_settings
from rumi.platform.config.groups import Groups


def groups(folder: Path, config: str, environment: dict[str, str] | None = None) -> Groups:
    (folder / "config.toml").write_text(config)
    return Groups(load_settings(folder, environment or {}, {}).settings.groups)


@pytest.mark.parametrize(
    ("name", "chat", "counts"),
    [
        ("-100777", "tg-100777", True),
        ("-100777", "tgwork--100777", True),
        ("-100777", "tg-100777_5", True),
        ("-5", "tg-5", True),
        ("tg-100777", "tg-100777", True),
        ("tg-100777", "tgwork--100777", False),
        ("tgwork--100777", "tgwork--100777_5", True),
        ("tg-100777_5", "tg-100777_5", True),
        ("-100777_5", "tg-100777_5", True),
        ("tg-100777_5", "tg-100777_55", False),
        ("-100777_1", "tg-100777", True),
        ("-100777_1", "tg-100777_5", False),
        ("tg-100777_5", "tg-100777", False),
        ("-100777", "tg-1007777", False),
        ("-100777", "tg100777", False),
        ("-100777", "cli", False),
    ],
)
def test_a_section_counts_for_its_group_and_its_topics(
    tmp_path: Path, name: str, chat: str, counts: bool
) -> None:
    found = groups(tmp_path, f'[groups.{name}]\nlisten = "all"\n').of(chat)
    assert found.listen == ("all" if counts else "reply")


def test_the_more_special_section_decides_key_by_key(tmp_path: Path) -> None:
    found = groups(
        tmp_path,
        """
        [groups.-100777]
        listen = "all"
        note = "A family."
        quiet = "22:00-07:00"
        [groups.tgwork--100777]
        note = "Work."
        [groups.tg-100777_5]
        listen = "mention"
        [groups.-100777_6]
        quiet = ""
        """,
    )
    assert found.of("tg-100777").note == "A family."
    assert found.of("tgwork--100777").note == "Work."
    assert found.of("tgwork--100777").listen == "all"
    topic = found.of("tg-100777_5")
    assert (topic.listen, topic.note, topic.quiet) == ("mention", "A family.", "22:00-07:00")
    assert found.of("tg-100777_6").quiet == ""


def test_a_group_that_has_moved_keeps_its_settings_and_may_be_named_by_its_new_number(tmp_path: Path) -> None:
    found = groups(tmp_path, '[groups.-5]\nnote = "old"\nlisten = "all"\n[groups.-1005]\nnote = "new"\n')
    both = found.of("tg-5", "tg-1005")
    assert (both.note, both.listen) == ("new", "all")


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ('[groups.family]\nlisten = "all"', "[groups.family]"),
        ('[groups.100777]\nlisten = "all"', "[groups.100777]"),
        ('[groups.tg11]\nnote = "x"', "[groups.tg11]"),
        ('[groups.-0]\nnote = "x"', "[groups.-0]"),
        ('[groups."-100777_x"]\nnote = "x"', "[groups.-100777_x]"),
        ('[groups.-100777]\nlisten = "always"', 'groups.-100777.listen = "always" (config.toml)'),
        ("[groups.-100777]\nlisten = 1", "groups.-100777.listen = 1 (config.toml)"),
        ('[groups.-100777]\nquiet = "22-7"', 'groups.-100777.quiet = "22-7" (config.toml)'),
        ('[groups.-100777]\nquiet = "22:00-22:00"', "groups.-100777.quiet"),
        ('[groups.-100777]\nquiet = "25:00-07:00"', "groups.-100777.quiet"),
        (f'[groups.-100777]\nnote = "{"x" * 2001}"', "groups.-100777.note"),
        ('[groups.-100777]\nnotes = "x"', "Did you mean groups.-100777.note?"),
        ('[groups]\nlisten = "all"', "groups.listen"),
    ],
)
def test_what_cannot_be_is_refused_with_its_key(tmp_path: Path, config: str, named: str) -> None:
    with pytest.raises(ConfigError) as refused:
        groups(tmp_path, config)
    assert named in f"{refused.value.message} {refused.value.advice}"


def test_a_variable_sets_a_key_of_a_group(tmp_path: Path) -> None:
    found = groups(tmp_path, "", {"RUMI_GROUPS__-100777__LISTEN": "mention"})
    assert found.of("tg-100777").listen == "mention"
