"""The bench of the agent runs: some of its tasks and planted faults, and the judging of its command lines."""

from dataclasses import replace
from pathlib import Path

import pytest

from bench.agent import TASKS, find, run_tasks
from bench.agent_commands import POLICIES, Judged, by_kind
from bench.agent_conversation import Conversation
from bench.agent_faults import FAULTS
from bench.agent_model import HABITS, Lost, Script, Seen, View
from rumi.agent.prompts.prompts import built_in
from rumi.agent.tools.edit_file import EditFile

SOME = ("run a script", "fix line ends", "an edit in a long file", "a traceback", "who are you")
PLANTED = ("pipes refused", "edit_file cuts the file", "the identity prompt emptied")
SETTINGS = {"sandbox.backend": "bubblewrap"}


def lazy(m: View) -> Script:
    """Answer without having done anything."""
    yield from ()
    return "Done."


def a_tool(**changes: object) -> dict[str, object]:
    spec = EditFile.spec
    function = {"name": spec.name, "description": spec.description, "parameters": spec.parameters, **changes}
    return {"function": function}


@pytest.mark.long
@pytest.mark.bubblewrap
async def test_tasks_are_finished_and_planted_faults_are_found(tmp_path: Path) -> None:
    tasks = [task for task in TASKS if task.name in SOME]
    undone = replace(tasks[0], name="lazy", turns=(("Do it, please.", lazy),))
    costs = await run_tasks([*tasks, undone], SETTINGS, tmp_path)
    assert {cost.task for cost in costs if not cost.wrong} == set(SOME)
    assert all(cost.calls and cost.prompt > 1000 and cost.completion for cost in costs)
    for fault in FAULTS:
        if fault.name in PLANTED:
            assert await find(fault, tasks, SETTINGS, tmp_path), fault.name


def test_tasks_have_different_names_and_messages() -> None:
    assert len(TASKS) == 60
    assert len({task.name for task in TASKS}) == len(TASKS)
    messages = [says for task in TASKS for says, _ in task.turns if not says.startswith("/")]
    assert len(set(messages)) == len(messages)
    assert not any(one in other for one in messages for other in messages if one != other)


def test_the_faults_are_made_for_groups_that_tasks_have() -> None:
    assert {group for fault in FAULTS for group in fault.groups} <= {task.group for task in TASKS}


def test_the_instructions_ask_for_each_habit_of_the_model() -> None:
    told = View(instructions="\n\n".join(built_in().values()))
    rest = View(instructions="\n\n".join(text for name, text in built_in().items() if name != "identity"))
    assert all(told.told(habit) for habit in HABITS)
    assert not any(rest.told(habit) for habit in HABITS)


def test_a_tool_without_a_description_is_not_used() -> None:
    tools = {"edit_file": a_tool()["function"]}
    assert View(tools=tools).offers("edit_file", "path")  # type: ignore[arg-type]
    tools = {"edit_file": a_tool(description="")["function"]}
    assert not View(tools=tools).offers("edit_file", "path")  # type: ignore[arg-type]
    with pytest.raises(Lost):
        View(tools=tools).edit("a.txt", "old", "new")  # type: ignore[arg-type]


def test_a_script_gets_the_results_of_its_calls() -> None:
    def script(m: View) -> Script:
        seen = yield m.edit("a.txt", "old", "new")
        return seen.fill("It says {what}.", what=r"edited (\S+)")

    conversation = Conversation([("Edit it.", script)])
    messages = [{"role": "system", "content": ""}, {"role": "user", "content": "Edit it."}]
    body = {"messages": messages, "tools": [a_tool()]}
    assert [name for name, _ in conversation.reply(body).calls] == ["edit_file"]
    messages += [{"role": "assistant", "content": ""}, {"role": "tool", "content": "edited a.txt"}]
    assert conversation.reply(body).text == "It says a.txt."
    assert conversation.ended
    assert conversation.reply(body).text == "It says a.txt."  # asked once more, for example to check


def test_a_model_that_does_not_find_what_it_needs_is_lost() -> None:
    seen = Seen(["exit code 1 (3 ms)\n(no output)"])
    assert seen.failed
    with pytest.raises(Lost):
        seen.find("Traceback")


def test_the_command_policy_judges_ordinary_lines() -> None:
    lines = [line for group in by_kind().values() for line in group]
    assert len(set(lines)) == len(lines) >= 1000
    judged = {name: Judged() for name in POLICIES}
    for name, policy in POLICIES.items():
        for line in lines:
            judged[name].judge(policy, line)
    assert judged["open work"].allowed == len(lines)
    assert 0.85 < judged["strict work"].allowed / len(lines) < 1
    assert judged["strict core"].allowed < judged["strict work"].allowed
    assert judged["strict work"].reasons.total() == len(lines) - judged["strict work"].allowed
