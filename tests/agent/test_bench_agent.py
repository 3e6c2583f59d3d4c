"""The bench of the agent runs: some of its tasks, and the judging of its command lines."""

from dataclasses import replace

import pytest

from bench.agent import TASKS, run_tasks
from bench.agent_commands import POLICIES, Judged, by_kind
from bench.agent_work import Turn

SOME = ("write a script and run it", "change a setting in TOML", "compare two web pages")
SETTINGS = {"sandbox.backend": "bubblewrap"}


@pytest.mark.long
@pytest.mark.bubblewrap
async def test_tasks_of_the_bench_are_done_and_one_that_is_not_is_wrong() -> None:
    tasks = [task for task in TASKS if task.name in SOME]
    lazy = replace(tasks[0], name="lazy", turns=[Turn(tasks[0].turns[0].says, ["Done."])])
    *costs, wrong = await run_tasks([*tasks, lazy], SETTINGS)
    assert [(cost.variant, cost.wrong) for cost in costs] == [("bash", ""), ("files", "")] * len(SOME)
    assert all(cost.calls >= 2 and cost.prompt > 1000 and cost.completion > 0 for cost in costs)
    assert not any(cost.refused for cost in costs)
    assert not any(cost.errors for cost in costs)
    assert "Done." in wrong.wrong


def test_tasks_have_different_names() -> None:
    assert len({task.name for task in TASKS}) == len(TASKS) >= 30


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
