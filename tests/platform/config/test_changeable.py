"""The settings that the page may change: known ones, and none that could let others in."""

from rumi.platform.config.changeable import CHANGEABLE, form_of

NEVER = (
    *("sandbox.", "fetch.", "search.", "store.", "serve.", "telegram.", "mcp.", "people.", "roles."),
    *(
        "groups.",
        "triggers.",
        "model.",
        "images.",
        "browser.",
        "skills.dirs",
        "bots.allowed",
        "terminal.apply",
    ),
    *("terminal.workspace", "voice.server", "voice.speech_server", "agent.confirm"),
)


def test_each_changeable_setting_has_a_form_and_none_is_a_right_or_an_address() -> None:
    for name in CHANGEABLE:
        form = form_of(name)
        assert form["type"] in ("choice", "boolean", "integer", "number", "text"), name
        assert not name.startswith(NEVER), name
        assert not any(word in name for word in ("key", "url", "server", "path", "dirs", "host")) or (
            name == "terminal.keys"
        )
