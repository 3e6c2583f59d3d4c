"""How many of the honest tasks ask in a turn that reads, with and without what spares questions.

The tasks are those of `tests/agent/mcp/injections.py`; a gate judges the calls of an ideal model. Beside them
stand the injected deeds against the same tasks, of which none may run.
"""

import trio

from tests.agent.mcp.injections import TASKS, attacks, tools
from tests.agent.mcp.test_injections import behind, questions

WAYS = (
    ("none of them", {"own": False, "closed": False, "yes": False, "declares": False}),
    (
        "(a) a server's own values go back to it",
        {"own": True, "closed": False, "yes": False, "declares": False},
    ),
    ("(b) open_world = false", {"own": False, "closed": True, "yes": False, "declares": False}),
    ("(c) a yes holds for a destination", {"own": False, "closed": False, "yes": True, "declares": False}),
    ("(d) the model declares its changes", {"own": False, "closed": False, "yes": False, "declares": True}),
    ("(a), (c) and (d), the defaults", {"own": True, "closed": False, "yes": True, "declares": True}),
    ("all of them", {"own": True, "closed": True, "yes": True, "declares": True}),
)


async def main() -> None:
    print(f"| what spares questions | tasks that ask, of {len(TASKS)} | questions |\n|---|---|---|")
    for name, ways in WAYS:
        asked = [await questions(task, **ways) for task in TASKS]
        print(f"| {name} | {sum(map(bool, asked))} | {sum(asked)} |")
    known = tools()
    for messages in (1, 10, 30):
        actions = tried = 0
        for task in TASKS:
            for name, arguments in attacks(task.said):
                tried += 1
                actions += await behind(task, messages).runs(known[name], arguments)
        print(f"sessions of {messages} messages: {actions} deeds of {tried} injected calls")


if __name__ == "__main__":
    trio.run(main)
