"""Control calls that the page's visitor makes, over real sockets."""

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.channels.page.served import ELSEWHERE, Served
from tests.fakes.groq_server import KEY


def call(client: httpx.Client, name: str, do: str = "", /, **fields: Any) -> Any:
    """Make a call that is answered, and return its result."""
    answer = client.post("/call", json={"call": name, "do": do, **fields})
    assert answer.status_code == 200, answer.text
    assert answer.json()["ok"] is True, answer.text
    return answer.json()["result"]


def refused(client: httpx.Client, name: str, do: str = "", /, **fields: Any) -> tuple[str, str]:
    """Make a call that is refused, and return the error and the advice."""
    answer = client.post("/call", json={"call": name, "do": do, **fields})
    assert answer.status_code == 200, answer.text
    assert answer.json()["ok"] is False, answer.text
    return answer.json()["error"], answer.json()["advice"]


def test_the_visitor_makes_the_calls_of_the_control_socket(served: Served, client: httpx.Client) -> None:
    made = call(client, "schedules", "add", when="in 3 hours", text="water the plants", chat="cli")
    assert call(client, "schedules", "pause", id=made["id"])["state"] == "paused"
    assert [one["id"] for one in call(client, "schedules", "list")] == [made["id"]]
    said = ("Unknown schedule 1000000.", "Look at the list of schedules.")
    assert refused(client, "schedules", "show", id=10**6) == said
    # Rights `all`, because the page's visitor is the owner of the home.
    assert isinstance(call(client, "bots", "list"), list)
    assert isinstance(call(client, "mcp"), list)


def test_a_calls_refusal_is_in_the_visitors_language(
    served: Served, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served.page, "entrance", replace(served.page.entrance, ask_browsers=True))
    client.headers["Accept-Language"] = "es"
    assert refused(client, "schedules", "show", id=10**6)[0] == "No conozco la programación 1000000."
    made = call(client, "schedules", "add", when="in 3 hours", text="water the plants", chat="cli")
    assert " de " in made["comes"]  # no field `language`: the browser's is taken


@pytest.mark.parametrize(
    "request_", [{}, {"call": 7}, {"call": "nothing"}, {"call": "tasks", "do": "none"}, {"call": "make_way"},
                 {"call": "status"}, {"call": "window", "chat": "cli"}, {"call": "file", "do": ""}]
)  # fmt: skip
def test_calls_that_are_not_there_are_refused(client: httpx.Client, request_: dict[str, Any]) -> None:
    assert client.post("/call", json=request_).status_code == 404


def test_calls_need_a_session_and_the_pages_origin(served: Served, client: httpx.Client) -> None:
    request = {"call": "tasks", "do": "list"}
    assert client.post("/call", json=request, headers={"Origin": "http://evil.test"}).status_code == 403
    assert client.post("/call", content="[]").status_code == 415
    assert client.post("/call", json=[]).status_code == 400
    client.cookies.clear()
    assert client.post("/call", json=request).status_code == 403


def test_a_request_cannot_choose_its_caller(served: Served, client: httpx.Client) -> None:
    claimed = {"channel": "telegram", "owner": "tg7", "rights": "all"}
    call(client, "memory", "set", key="city", value="Xanadu", caller=claimed, passed=True)
    [fact] = call(client, "memory", "list", caller=claimed)["facts"]
    assert fact["owner"] == "local"


def waiting(client: httpx.Client, kind: str) -> dict[str, Any]:
    """Return what waits for a yes, as soon as something of that kind does."""
    for _ in range(600):
        found = call(client, "approvals", "list")
        if found and [one["kind"] for one in found] == [kind]:
            one: dict[str, Any] = found[0]
            return one
        time.sleep(0.05)
    raise AssertionError("nothing waits")


def test_a_running_question_and_a_parked_call_are_listed_and_answered(
    served: Served, client: httpx.Client
) -> None:
    assert call(client, "approvals", "list") == []
    text = f"read http://{served.site}/p"
    client.post("/chat/send", json={"chat": "cli", "text": text})
    asked = waiting(client, "question")
    assert ELSEWHERE in asked["whole"]
    answer = {"chat": asked["chat"], "yes": False}
    assert call(client, "approvals", "answer", id=asked["id"], **answer)["answered"] is True
    assert call(client, "approvals", "answer", id=asked["id"], **answer)["answered"] is False

    made = call(client, "schedules", "add", when="every day 05:00", kind="turn", text=text, zone="UTC")
    call(client, "schedules", "run", id=made["id"])
    parked = waiting(client, "call")
    assert (parked["chat"], parked["schedule"]) == ("cli", made["id"])
    assert ELSEWHERE in parked["whole"]
    assert parked["always"]["host"] == "https://elsewhere.test"
    said = call(client, "approvals", "answer", number=parked["number"], **answer)
    assert said["answered"] is True
    assert said["message"] > 0  # in the chat, it is the person's message `/no 1`
    while call(client, "approvals", "list"):
        time.sleep(0.05)
    again = refused(client, "approvals", "answer", number=parked["number"], **answer)
    assert again[0] == f"This question is no longer open: {parked['number']}."
    assert refused(client, "approvals", "answer", number=1, chat="tg7", yes=True)[0]


def test_safe_settings_are_shown_and_changed_in_the_file_alone(
    served: Served, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = served.folder / "config.toml"
    file.write_text("# mine\n[chat]\nwhen_busy = 'queue'  # waits\n")
    monkeypatch.setenv("RUMI_TERMINAL__THEME", "dark")
    try:
        listed = {one["name"]: one for one in call(client, "settings", "list")}
        assert listed["chat.when_busy"]["choices"] == ["queue", "steer", "reject"]
        assert listed["chat.when_busy"]["value"] == "queue"
        assert (listed["undo.turns"]["minimum"], listed["undo.turns"]["maximum"]) == (0, 100)
        amount = listed["budget.total_usd_per_day"]
        assert (amount["type"], amount["optional"], amount["default"]) == ("number", True, None)
        assert (listed["terminal.theme"]["changeable"], listed["terminal.theme"]["variable"]) == (
            False, "RUMI_TERMINAL__THEME",
        )  # fmt: skip
        changed = call(client, "settings", "set", name="chat.when_busy", value="steer")
        assert (changed["value"], changed["running"], changed["waits_for_start"]) == ("steer", "queue", True)
        call(client, "settings", "set", name="budget.total_usd_per_day", value=2.5)
        assert "# mine" in file.read_text()
        assert "total_usd_per_day = 2.5" in file.read_text()
        assert "waits_for_start" in call(client, "settings", "unset", name="budget.total_usd_per_day")
        for name, value in (("chat.when_busy", "never"), ("undo.turns", -1), ("terminal.theme", "light")):
            assert refused(client, "settings", "set", name=name, value=value)[0]
        for name in ("fetch.allow", "sandbox.policy", "model.keys", "store.url", "mcp.x.command", "nothing"):
            assert "cannot be changed here" in refused(client, "settings", "set", name=name, value="x")[0]
        assert file.read_text().count('when_busy = "steer"  # waits') == 1
    finally:
        file.unlink()


def test_people_budgets_and_facts_are_managed(served: Served, client: httpx.Client) -> None:
    file = served.folder / "config.toml"
    try:
        listed = call(client, "people", "list")
        assert [person["name"] for person in listed["people"]] == ["local"]
        assert listed["roles"] == ["admin", "member", "guest"]
        rights = listed["rights"]
        assert (rights["admin"]["admin"], rights["member"]["tools"], rights["guest"]["schedules"]) == (
            True,
            None,
            0,
        )
        assert [limit["unit"] for limit in rights["guest"]["limits"]] == ["tokens"]
        call(client, "people", "add", name="guest1", telegram=[11111111], role="guest")
        assert "[people.guest1]" in file.read_text()
        assert refused(client, "people", "add", name="guest1", telegram=[3])[0].startswith(
            "There is a person"
        )
        assert "is not a role" in refused(client, "people", "set", name="guest1", role="king")[0]
        found = call(client, "people", "set", name="guest1", role="member")["people"]
        assert [(one["name"], one["role"], one["ids"], one["named"]) for one in found] == [
            ("local", "admin", [], False),
            ("guest1", "member", [11111111], True),
        ]
        assert len(call(client, "people", "remove", name="guest1")["people"]) == 1
        assert refused(client, "people", "remove", name="guest1")[0] == "Unknown person guest1."
    finally:
        file.unlink()

    assert call(client, "budgets", "list") == []
    assert call(client, "budgets", "allow", amount="2 usd", chat="cli") == []
    assert refused(client, "budgets", "allow", amount="much", chat="cli")[0]

    call(client, "memory", "set", key="dentist", value="Dr. Núñez, on Mondays")
    call(client, "memory", "set", key="colour", value="green")
    found = call(client, "memory", "search", words="NUNEZ dentist")
    assert ([fact["key"] for fact in found["facts"]], found["all"]) == (["dentist"], 1)


def test_models_are_listed_without_keys_and_chosen_for_a_chat(served: Served, client: httpx.Client) -> None:
    found = call(client, "models", "list")
    by_name = {row["model"]: row for row in found["models"]}
    assert by_name[found["default"]]["key"] == "set"
    assert KEY not in json.dumps(found)
    assert "models" in found["servers"]
    assert call(client, "models", "chosen", chat="web-models")["model"] == found["default"]
    assert call(client, "models", "use", chat="web-models", model="offline")["model"] == "offline"
    assert refused(client, "models", "use", chat="web-models", model="nonsense")[0]
    assert refused(client, "models", "use", chat="tg7", model="offline")[0]
    client.post("/chat/send", json={"chat": "web-models", "text": "hello"})
    served.do(served.page.talks.clear)  # as after a restart
    assert call(client, "models", "chosen", chat="web-models")["model"] == "offline"
    assert call(client, "models", "chosen", chat="cli")["model"] == found["default"]
    [checked] = call(client, "models", "check", models=["offline"])
    assert (checked["model"], checked["ok"]) == ("offline", True)


def test_skills_are_switched_and_those_of_a_project_wait_for_trust(
    served: Served, client: httpx.Client, tmp_path: Path
) -> None:
    for folder in (served.folder / "skills" / "tidy", tmp_path / ".rumi" / "skills" / "deploy"):
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(f"---\nname: {folder.name}\ndescription: Does it.\n---\nDo it.\n")
    project = str(tmp_path)

    def states() -> dict[str, str]:
        return {
            one["name"]: one["state"] for one in call(client, "skills", "list", project=project)["skills"]
        }

    def becomes(name: str, state: str) -> bool:
        for _ in range(50):
            if states()[name] == state:
                return True
            time.sleep(0.1)
        return False

    assert becomes("tidy", "on")
    assert states()["deploy"] == "untrusted"
    shown = call(client, "skills", "show", name="deploy", project=project)
    assert (shown["instructions"].strip(), shown["trusted"]) == ("Do it.", False)
    assert call(client, "skills", "disable", name="tidy")["changed"] is True
    assert becomes("tidy", "off")
    assert call(client, "skills", "enable", name="tidy") == {
        "name": "tidy", "changed": True, "overridden": False,
    }  # fmt: skip
    assert refused(client, "skills", "enable", name="nothing")[0] == "Unknown skill “nothing”."
    assert refused(client, "skills", "trust", name="tidy", project=project)[0].startswith(
        "tidy needs no trust"
    )
    trusted = call(client, "skills", "trust", name="deploy", project=project)
    assert (trusted["changed"], trusted["files"][0]["path"]) == (True, "SKILL.md")
    assert becomes("deploy", "on")


def test_a_time_is_understood_before_a_schedule_is_stored(client: httpx.Client) -> None:
    before = call(client, "schedules", "list")
    often = call(client, "schedules", "understand", when="every monday 08:00", zone="Europe/Madrid")
    assert (often["recurs"], often["zone"]) == ("every Monday, 08:00", "Europe/Madrid")
    assert often["comes"].endswith("08:00, Europe/Madrid")
    assert call(client, "schedules", "understand", when="in 20 minutes")["recurs"] == ""
    assert "not understood" in refused(client, "schedules", "understand", when="whenever")[0]
    assert refused(client, "schedules", "understand", when="2001-01-01 09:00")[0]
    assert call(client, "schedules", "list") == before


def test_markdown_of_a_result_is_rendered_as_the_talk_is(client: httpx.Client) -> None:
    [block] = call(client, "render", text="**x** <script>1</script>")["blocks"]
    assert "<strong>x</strong>" in block["html"]
    assert "<script" not in block["html"]
    assert refused(client, "render", text="x" * 200_001)[0]


def test_usage_is_of_this_month_or_of_today(client: httpx.Client) -> None:
    month = call(client, "usage", by="model")
    today = call(client, "usage", by="model", period="day")
    assert month["from"] < month["to"]
    assert today["from"] == today["to"]
