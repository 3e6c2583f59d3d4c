"""The commands of `rumi` by subject, and the names that commands had in earlier versions."""

from typing import Final, NamedTuple

from rumi.texts import Text

SECTIONS: Final[dict[str, dict[str, tuple[str, str]]]] = {
    Text("Talk"): {
        "chat": ("rumi.cli.chat", Text("Talk to the assistant in this terminal (the default).")),
        "chats": ("rumi.cli.chats", Text("List, search, stop, reset, export and delete chats.")),
        "memory": (
            "rumi.cli.memory",
            Text("Show, change and export what the assistant knows about its users."),
        ),
    },
    Text("Look"): {
        "status": ("rumi.cli.status", Text("Show what the running Rumi does.")),
        "models": ("rumi.cli.models", Text("Show the models, what they cost, and try them out.")),
        "doctor": ("rumi.cli.doctor.command", Text("Check everything that a working installation needs.")),
    },
    Text("Automate"): {
        "tasks": ("rumi.cli.tasks", Text("Research a question; show and stop work in the background.")),
        "bot": (
            "rumi.cli.bot",
            Text("Make, run, wake and stop bots, which work on their own towards a goal."),
        ),
        "schedule": ("rumi.cli.schedule", Text("Set reminders and schedules, and triggers for events.")),
        "skills": ("rumi.cli.skills", Text("Show the skills, switch them on and off, make new ones.")),
        "mcp": ("rumi.cli.mcp", Text("Manage servers that bring tools (MCP), and let programs ask Rumi.")),
    },
    Text("Administer"): {
        "setup": (
            "rumi.cli.setup",
            Text("Ask for what a new installation needs, and write config.toml and .env."),
        ),
        "config": ("rumi.cli.config", Text("Show and change the configuration, and who may talk to Rumi.")),
        "serve": ("rumi.cli.serve", Text("Serve Telegram, the page and terminals: what is configured.")),
        "data": ("rumi.cli.data", Text("Back up, restore, and copy what Rumi stores.")),
        "debug": (
            "rumi.cli.debug",
            Text("Read the audit log, pack a turn for a bug report, and look closer."),
        ),
    },
}
"""The commands in the order of the help: the title of a section, and its commands.

A command is the module that defines it as `command`, and its line in the help.
"""

COMMANDS: Final = {name: entry for section in SECTIONS.values() for name, entry in section.items()}


class OldName(NamedTuple):
    """A name of an earlier version: the module of the command, and what the command is called now."""

    module: str
    now: str


OLD_NAMES: Final = {
    "backup": OldName("rumi.cli.backup", "data backup"),
    "fetch": OldName("rumi.cli.fetch", "debug fetch"),
    "logs": OldName("rumi.cli.logs", "debug logs"),
    "people": OldName("rumi.cli.people", "config people"),
    "recall": OldName("rumi.cli.recall", "chats search"),
    "replay": OldName("rumi.cli.replay", "debug replay"),
    "report": OldName("rumi.cli.report", "debug report"),
    "research": OldName("rumi.cli.research", "tasks research"),
    "reset": OldName("rumi.cli.reset", "chats reset"),
    "restore": OldName("rumi.cli.restore", "data restore"),
    "sandbox": OldName("rumi.cli.sandbox", "debug sandbox"),
    "stop": OldName("rumi.cli.stop", "chats stop"),
    "store": OldName("rumi.cli.store", "data"),
    "telegram": OldName("rumi.cli.telegram", "serve --telegram"),
    "trigger": OldName("rumi.cli.trigger", "schedule trigger"),
    "undo": OldName("rumi.cli.undo", "chats undo"),
    "usage": OldName("rumi.cli.usage", "models usage"),
    "web": OldName("rumi.cli.web", "serve --no-telegram --web HOST:PORT"),
}
"""The old names, which work as they always did, and which neither help nor completion shows."""

OLD_NAMES_UNTIL: Final = "1.0"
"""The version without the old names."""
