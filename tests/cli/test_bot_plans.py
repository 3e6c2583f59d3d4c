"""`rumi bot run --plan`: a bot asks once for all that it needs, and keeps to what it got."""

import json
import re
from functools import partial

import pytest

from tests.cli.program import Program
from tests.cli.test_bot import CONFIG, calls, garden, model, run, session_is, system, users
from tests.fakes.groq_server import Answer, Behaviour, Body, answered_calls
from tests.fakes.web_server import gives, serving

pytestmark = pytest.mark.bubblewrap


def names(body: Body) -> set[str]:
    return {tool["function"]["name"] for tool in body["tools"]}


async def test_a_plan_is_approved_once_and_what_goes_beyond_it_waits(bubblewrap: Program) -> None:
    page = b"<html><article><p>" + b"Peas like cool soil. " * 20 + b"</p></article></html>"
    fetched: list[str] = []

    def plan(count: int) -> dict[str, object]:
        host = server.endpoint.partition(":")[0]
        fetches = [{"host": host, "count": count}]
        return {"steps": ["Read pages", "Sum up"], "fetches": fetches, "model_calls": 9}

    def think(body: Body) -> Behaviour:
        done, prompt = answered_calls(body), system(body)
        if "iteration 1 " in prompt:
            assert "The user wants a plan first" in prompt
            assert not names(body) & {"bash", "web_fetch", "remember", "write_skill", "session_complete"}
            if not done:
                return calls(("propose_plan", plan(50)))
            assert "it was not done yet" in done[0]
            return Answer("I propose a plan.")
        if "iteration 2 " in prompt:
            assert users(body) == ["Only two pages.", "Read of peas."]
            assert "The user wants a plan first" in prompt
            return Answer("I propose less.") if done else calls(("propose_plan", plan(2)))
        assert "The user approved your plan 2." in prompt
        assert "1. Read pages\n2. Sum up" in prompt
        urls = [
            f"http://{server.endpoint}/",
            f"http://{server.endpoint}/?d=1",
            f"http://{server.endpoint}/?d=2",
        ]
        if len(done) < 3:
            return calls(("web_fetch", {"url": urls[len(done)]}))
        if len(done) == 3:
            fetched.extend(done)
            return calls(("remember", {"key": "peas", "value": "cool"}))
        fetched.append(done[3])
        return Answer("Read.\nGARDEN DONE")

    async with serving({"/": gives(page)}) as server, model(bubblewrap, think) as bodies:
        bubblewrap.env |= {
            "RUMI_FETCH__ALLOW": json.dumps([server.endpoint]),
            "RUMI_SESSION__LINGER_S": "600",
        }
        garden(bubblewrap)
        words = ("bot", "run", "garden", "-p", "Read of peas.", "--plan", "--background")
        until = partial(session_is, bubblewrap)
        await run(bubblewrap, *words)
        await until("sleeping", 1)
        shown = (await run(bubblewrap, "chats", "show", "cli")).stdout
        assert "May I work by this plan" in shown
        assert re.search(r"hosts, and how often at most:\n +\S+: 50\n", shown)
        assert "model calls, at most: 9" in shown
        assert len(bodies) == 2, "it waits, and calls no model"
        await run(bubblewrap, "chat", "-p", "/bot garden Only two pages.")
        await until("sleeping", 2)
        # A yes to the first plan is too late: another one stands in its place.
        await run(bubblewrap, "chat", "-p", "/bot garden yes 2")
        done = await until("succeeded", 3)
        assert "peas" in "".join(fetched[:2]).casefold()
        assert "it was not done yet" in fetched[2], "the plan names two"
        assert "it was not done yet" in fetched[3], "facts always ask"
        assert "Not done, because nobody has said yes" in done["answer"]
        assert json.loads(done["report"] if isinstance(done.get("report"), str) else json.dumps(done))
        await run(bubblewrap, "stop", "--all", code=None)


async def test_a_plan_whose_model_calls_are_used_up_asks_again(bubblewrap: Program) -> None:
    def think(body: Body) -> Behaviour:
        done, prompt = answered_calls(body), system(body)
        if "iteration 1 " in prompt:
            asked = {"steps": ["Count"], "model_calls": 3}
            return Answer("I propose a plan.") if done else calls(("propose_plan", asked))
        return calls(("bash", {"command": f"echo {len(done)}"}))

    garden(bubblewrap, CONFIG)
    async with model(bubblewrap, think) as bodies:
        bubblewrap.env["RUMI_SESSION__LINGER_S"] = "600"
        until = partial(session_is, bubblewrap)
        await run(bubblewrap, "bot", "run", "garden", "-p", "Count.", "--plan", "--background")
        await until("sleeping", 1)
        await run(bubblewrap, "chat", "-p", "/bot garden yes 1")
        await until("sleeping", 2)
        assert len(bodies) == 2 + 3, "as many calls as the plan names"
        shown = (await run(bubblewrap, "chats", "show", "cli")).stdout
        assert "The model calls of the plan are used up." in shown
        assert "/bot garden yes 2" in shown
        await run(bubblewrap, "bot", "stop", "garden")
        await run(bubblewrap, "stop", "--all", code=None)
