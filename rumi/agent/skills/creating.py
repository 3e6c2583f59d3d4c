"""Creation of a new skill from a template: a working skill with a test, which its author then changes."""

import json
import shlex
import sys
from pathlib import Path

from rumi.agent.skills.format import CODE, FILE, MOST_DESCRIPTION_CHARS, class_name, is_name
from rumi.agent.skills.messages import SkillError, SkillsUnwritable
from rumi.platform.atomic_write import new_folder
from rumi.texts import os_error


def name_of_test(name: str) -> str:
    """Return the name of a skill's test file. The name differs for each skill, as pytest requires."""
    return f"test_{name.replace('.', '_')}.py"


def how_to_test(folder: Path) -> str:
    """Return the command that runs a skill's test with the current Python, in which Rumi is installed."""
    return shlex.join([sys.executable or "python3", str(folder / name_of_test(folder.name))])


_PROMPT = """\
---
name: {name}
description: {description}
version: "0.1"
tags: []
---

# {name}

What stands here is what the assistant reads when it uses the skill. Replace it.

1. Say what to find out first, and with which command.
2. Say what to do then, step by step.
3. Say what the answer has to contain, and what must not happen.

Further files in this folder can be named here: the assistant reads them when it needs them.
"""

_CODE_WORDS = """\
---
name: {name}
description: {description}
version: "0.1"
tags: []
tools_required: [bash]
---

# {name}

This skill is a program: see skill.py. Its input is a text; it returns it with the files of the chat.
"""

_CODE = '''\
"""The program of the skill {name}."""

from rumi.agent.skills.context import Context


class {class_name}:
    """Made for each use, in a separate process."""

    async def run(self, context: Context) -> str:
        """Work on `context.input` and return what the assistant is to read.

        `context.tool(name, **arguments)` calls a tool of the chat, `context.model(prompt)` asks its model,
        `context.log(text)` writes into Rumi's log. What a tool refuses is raised.
        """
        files = await context.tool("bash", command="ls -A")
        return f"{{context.input or 'No input.'}}\\n\\nFiles:\\n{{files.output}}"
'''

_PROMPT_TEST = '''\
"""What the skill {name} promises. Run it with: {run}"""

from pathlib import Path

from rumi.agent.skills.trying import Trial, run_tests

HERE = Path(__file__).parent


def test_it_loads() -> None:
    trial = Trial(HERE)
    assert trial.skill.name == "{name}"
    assert trial.skill.header.notes == ()


def test_it_says_what_to_do() -> None:
    assert "1. " in Trial(HERE).body


if __name__ == "__main__":
    run_tests(globals())
'''

_CODE_TEST = '''\
"""What the skill {name} promises. Run it with: {run}"""

from pathlib import Path

from rumi.agent.skills.trying import Trial, run_tests

HERE = Path(__file__).parent


def test_it_loads() -> None:
    trial = Trial(HERE)
    assert trial.skill.name == "{name}"
    assert trial.skill.has_code
    assert trial.skill.header.notes == ()


def test_it_returns_its_input_and_the_files() -> None:
    trial = Trial(HERE, tools={{"bash": lambda arguments: "exit code 0 (1 ms)\\noutput:\\nnotes.txt\\n"}})
    assert trial.run("hello") == "hello\\n\\nFiles:\\nnotes.txt\\n"
    assert trial.calls == [("bash", {{"command": "ls -A"}})]


if __name__ == "__main__":
    run_tests(globals())
'''


def create_skill(skills: Path, name: str, *, description: str = "", code: bool = False) -> Path:
    """Create a skill in the folder `skills`, and return the skill's folder. A failure leaves no skill behind.

    Raises:
        SkillError: The name or the description is invalid, the name is taken, or the folder cannot be
            written.
    """
    if not is_name(name):
        raise SkillError(
            "{name} cannot be a skill's name.",
            "It takes letters, digits, - and _, at most 64, and begins with a letter or a digit: tidy-folder",
            name=f"{name[:80]!r}",
        )
    about = " ".join(description.split()) or f"Say here what {name} does, and when to use it."
    if len(about) > MOST_DESCRIPTION_CHARS or not about.isprintable():
        raise SkillError(
            "A description has at most {most_description_chars} characters, all of them visible.",
            most_description_chars=MOST_DESCRIPTION_CHARS,
        )
    folder = skills / name
    if folder.exists() or folder.is_symlink():
        raise SkillError(
            "{folder} already exists.", "Choose another name, or change that one.", folder=folder
        )
    written = json.dumps(about, ensure_ascii=False)  # a text in JSON is one in YAML
    test = name_of_test(name)
    fields = {
        "name": name,
        "description": written,
        "class_name": class_name(name),
        "run": how_to_test(folder),
    }
    files = {FILE: _CODE_WORDS if code else _PROMPT, test: _CODE_TEST if code else _PROMPT_TEST}
    if code:
        files[CODE] = _CODE
    try:
        skills.mkdir(mode=0o700, parents=True, exist_ok=True)
        with new_folder(folder) as draft:
            for file, text in files.items():
                (draft / file).write_text(text.format(**fields), encoding="utf-8")
    except OSError as error:
        raise SkillsUnwritable(
            "{folder} cannot be made: {reason}.",
            "Check the folder's owner.",
            folder=folder,
            reason=os_error(error),
        ) from error
    return folder
