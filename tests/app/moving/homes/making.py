"""Makes homes of nanobot and Hermes with the real programs: `python making.py FOLDER NANOBOT HERMES PORT`.

NANOBOT and HERMES are their commands, each installed in an environment of its own; `model.py` listens on
PORT. The homes are FOLDER/.nanobot and FOLDER/.hermes; `README.md` says what is trimmed then.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

MEMORY = (
    "# Long-term Memory\n\n## User Information\n\n- Lives in Madrid\n- Has a dog called Toby\n\n"
    "## Preferences\n\n"
    "- Prefers short answers\n- Drinks tea, not coffee\n\n## Important Notes\n\n"
    "- The door code of the garage: password: Zq8!kd02mfP\n"
)
SKILL = (
    "---\nname: tidy-notes\ndescription: Tidy the notes in notes.md\n---\n\n# Tidy notes\n\n"
    "1. Read notes.md.\n2. Sort its lines.\n"
)


def _call(words: str, tool: str, **arguments: str | int) -> str:
    return f"{words} CALL {tool} {json.dumps(arguments)} END"


def _nanobot(home: Path, program: str, port: str) -> None:
    def run(*words: str) -> None:
        subprocess.run([program, *words], check=True, stdin=subprocess.DEVNULL)

    run("onboard")
    path = home / ".nanobot/config.json"
    config = json.loads(path.read_text())
    config["agents"]["defaults"] |= {
        "model": "offline-model",
        "provider": "custom",
        "timezone": "Europe/Madrid",
    }
    key = "sk-local-0123456789abcdef0123456789abcdef"
    config["providers"]["custom"] |= {"apiKey": key, "apiBase": f"http://127.0.0.1:{port}/v1"}
    token = "111111111:AAabcdefghijklmnopqrstuvwxyz012345678"
    config["channels"]["telegram"] |= {"token": token, "allowFrom": ["22222222", "33333333|ana"]}
    config["tools"]["mcpServers"] = {
        "time": {"command": "uvx", "args": ["mcp-server-time"]},
        "notes": {
            "url": "https://notes.example.com/mcp",
            "headers": {"Authorization": "Bearer sk-live-aaaa"},
        },
    }
    path.write_text(json.dumps(config, indent=2))
    run("agent", "-m", "hello")
    run("agent", "-m", _call("Keep a note.", "write_file", path="notes.md", content="milk"))
    morning = {"name": "weather", "message": "Tell me the weather in Madrid", "tz": "Europe/Madrid"}
    for said in (
        _call("Every morning.", "cron", action="add", cron_expr="0 8 * * *", **morning),
        _call("Now and then.", "cron", action="add", name="water", message="Drink", every_seconds=7200),
        _call("Once.", "cron", action="add", name="dentist", message="Dentist", at="2027-03-01T09:00:00"),
        _call("Write it down.", "write_file", path="memory/MEMORY.md", content=MEMORY),
        _call("A skill.", "write_file", path="skills/tidy-notes/SKILL.md", content=SKILL),
    ):
        run("agent", "-s", "cli:plans", "-m", said)
    gateway = subprocess.Popen([program, "gateway"])
    try:
        gateway.wait(15)
    except subprocess.TimeoutExpired:
        gateway.send_signal(signal.SIGINT)
        gateway.wait(30)


def _hermes(home: Path, program: str, port: str) -> None:
    def run(*words: str) -> None:
        subprocess.run([program, *words], check=True, stdin=subprocess.DEVNULL)

    (home / ".hermes").mkdir(parents=True)
    (home / ".hermes/config.yaml").write_text(
        "model:\n  default: offline-model\n  provider: custom\n"
        f"  base_url: http://127.0.0.1:{port}/v1\ntimezone: Europe/Madrid\n"
        "mcp_servers:\n  time:\n    command: uvx\n    args: [mcp-server-time]\n    enabled: false\n"
    )
    (home / ".hermes/.env").write_text(
        "OPENAI_API_KEY=sk-local-0123456789abcdef0123456789abcdef\n"
        "TELEGRAM_BOT_TOKEN=111111111:AAabcdefghijklmnopqrstuvwxyz012345678\n"
        "TELEGRAM_ALLOWED_USERS=22222222,33333333\n"
    )
    lives = "The user lives in Madrid and prefers short answers"
    for said in (
        "hello",
        _call("Run it.", "terminal", command="echo hi"),
        _call("Remember.", "memory", action="add", target="user", content=lives),
        _call(
            "Remember.", "memory", action="add", target="memory", content="The project builds with make check"
        ),
        _call("Remember.", "memory", action="add", target="memory", content="Backups run on Sunday nights"),
        _call("Skill.", "skill_manage", action="create", name="tidy-notes", category="notes", content=SKILL),
    ):
        run("chat", "-Q", "--yolo", "-q", said)
    run("cron", "create", "0 8 * * *", "Tell me the weather in Madrid", "--name", "weather")
    run("cron", "create", "every 2h", "Remind me to drink water", "--name", "water")
    run("cron", "create", "2027-03-01T09:00:00", "Dentist at ten", "--name", "dentist")
    run("cron", "create", "every 1h", "--script", "x.sh", "--no-agent", "--name", "watchdog")


def main() -> None:
    """Make both homes."""
    home, nanobot, hermes, port = sys.argv[1:]
    os.environ["HOME"] = home
    _nanobot(Path(home), nanobot, port)
    _hermes(Path(home), hermes, port)


if __name__ == "__main__":
    main()
