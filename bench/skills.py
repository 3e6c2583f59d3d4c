"""Many skills: the first look, a look that finds nothing new, and a prompt, each beside the bare work.

The bare work of the first look is PyYAML's own loader over the same files; that of a later one is a `stat` of
each file. Run: python -m bench.skills
"""

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import yaml

from rumi.agent.skills.catalogue import Catalogue
from rumi.agent.skills.messages import SkillSource
from rumi.agent.skills.prompt import skills_block

SKILLS = 500
ROUNDS = 31
WORDS = (
    "Sorts the files of a folder by kind and says what it would do before it does it, for reports and notes."
)
QUERY = "please sort the reports of skill 250 by kind, and say what you would do before you do it"


def write(root: Path) -> None:
    for number in range(SKILLS):
        folder = root / f"skill-{number:03}"
        folder.mkdir(parents=True)
        front = f"name: skill-{number:03}\ndescription: {WORDS} Number {number}.\ntags: [files, n{number}]"
        (folder / "SKILL.md").write_text(f"---\n{front}\n---\n\n" + "Do this, then that. " * 200)


def bare_load(root: Path) -> None:
    for folder in sorted(root.iterdir()):
        text = (folder / "SKILL.md").read_text()
        yaml.load(text.split("---")[1], Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def bare_stats(root: Path) -> None:
    with os.scandir(root) as entries:
        for entry in entries:
            os.stat(f"{entry.path}/SKILL.md")


def timed(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return (time.perf_counter() - begun) * 1000


def show(what: str, times: list[float], beside: str = "") -> None:
    cuts = statistics.quantiles(times, n=20)
    print(f"{what:<34} median {statistics.median(times):7.2f} ms  p95 {cuts[-1]:7.2f} ms  {beside}")


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary) / "skills"
        write(root)
        time.sleep(0.1)
        first: list[float] = []
        bare: list[float] = []
        again: list[float] = []
        stats: list[float] = []
        prompt: list[float] = []
        catalogue = Catalogue([SkillSource("home", root)])
        view = catalogue.look()
        for _ in range(ROUNDS):
            first.append(timed(Catalogue([SkillSource("home", root)]).look))
            bare.append(timed(lambda: bare_load(root)))
            again.append(timed(catalogue.look))
            stats.append(timed(lambda: bare_stats(root)))
            prompt.append(timed(lambda: skills_block(view.for_prompt(QUERY, 20))))
        print(f"{SKILLS} skills, {ROUNDS} rounds")
        show(
            "first look",
            first,
            f"{statistics.median(first) / statistics.median(bare):.2f} times PyYAML alone",
        )
        show("PyYAML alone", bare)
        show(
            "look that finds nothing new",
            again,
            f"{statistics.median(again) / statistics.median(stats):.2f} times the stats",
        )
        show("one stat for each", stats)
        show("a turn's prompt", prompt, f"{len(skills_block(view.for_prompt(QUERY, 20)))} characters")


if __name__ == "__main__":
    main()
