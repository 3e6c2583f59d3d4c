"""Tasks of `bench.agent` with repositories."""

import os
import subprocess
from pathlib import Path

from bench.agent_model import Script, View
from bench.agent_task import Tasks, answers

GIT = Tasks("git")
COMMITS = 12
BROKEN = 8
WHO = {
    name: value
    for role in ("AUTHOR", "COMMITTER")
    for name, value in ((f"GIT_{role}_NAME", "Ana"), (f"GIT_{role}_EMAIL", "ana@example.org"))
}


def _git(folder: Path, *words: str) -> None:
    subprocess.run(
        ("git", "-c", "init.defaultBranch=main", "-c", "safe.directory=*", *words),
        cwd=folder,
        check=True,
        capture_output=True,
        env={**os.environ, **WHO, "GIT_CONFIG_GLOBAL": "/dev/null"},
    )


def _commit(folder: Path, message: str, **files: str) -> None:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    _git(folder, "add", "-A")
    _git(folder, "commit", "-q", "-m", message)


def _history(folder: Path) -> None:
    """A program whose eighth change breaks it."""
    _git(folder, "init", "-q")
    for number in range(1, COMMITS + 1):
        total = "a - b" if number >= BROKEN else "a + b"
        _commit(
            folder, f"Change {number}", total=f"def total(a, b):\n    return {total}\n", notes=f"# {number}\n"
        )


def _branches(folder: Path) -> None:
    """Two branches that change the same line."""
    _git(folder, "init", "-q")
    _commit(folder, "Begin", conf="RETRIES = 1\nWAIT = 2\n")
    _git(folder, "checkout", "-q", "-b", "feature")
    _commit(folder, "Retry more", conf="RETRIES = 5\nWAIT = 2\n")
    _git(folder, "checkout", "-q", "main")
    _commit(folder, "Retry thrice", conf="RETRIES = 3\nWAIT = 2\n", more="X = 1\n")


@GIT.task(
    "Make a git repository of project, without the file secret.txt, and commit all of it.",
    lambda done: done.git("-C", "project", "ls-files").split() == [".gitignore", "main.py"],
    lambda done: done.git("-C", "project", "log", "--format=%s") == "Begin the project\n",
    files={"project/main.py": "print('hello')\n", "project/secret.txt": "password\n"},
)
def commit_in_a_repository(m: View) -> Script:
    yield from m.needs(
        "cd project && git init -q && echo secret.txt > .gitignore && git add -A && git status -s"
    )
    seen = yield from m.run("cd project && git commit -q -m 'Begin the project' && git log --stat | cat")
    if seen.has("tell me who you are"):
        seen = yield from m.run(
            "cd project && git -c user.name=A -c user.email=a@example.org commit -q -m 'Begin the project' "
            "&& git log --stat | cat"
        )
    seen.find("Begin the project")
    return "All but secret.txt is committed."


@GIT.task(
    "Since which change does total(2, 3) not give 5? Leave the repository as it is.",
    answers(f"Change {BROKEN}"),
    lambda done: done.git("log", "-1", "--format=%s") == f"Change {COMMITS}\n",
    lambda done: "HEAD -> main" in done.git("log", "-1", "--decorate"),
    sets_up=_history,
)
def find_the_change_that_broke_it(m: View) -> Script:
    """Bisect by hand, a call for each step."""
    seen = yield from m.run("git log --oneline --reverse | cat")
    commits = seen.rows(r"^(\w+) (Change \d+)$")
    low, high = 0, len(commits) - 1
    while high - low > 1:
        middle = (low + high) // 2
        seen = yield from m.run(
            f"git checkout -q {commits[middle][0]} && python3 -B -c 'from total import total; "
            'print("good" if total(2, 3) == 5 else "bad")\''
        )
        low, high = (middle, high) if seen.find("^(good|bad)$") == "good" else (low, middle)
    yield from m.needs("git checkout -q main && git status -sb | head -n 3")
    return f"Since {commits[high][1]}."


@GIT.task(
    "Merge the branch feature into main. Where they differ, the feature is right.",
    lambda done: done.text("conf.py") == "RETRIES = 5\nWAIT = 2\n",
    lambda done: len(done.git("log", "-1", "--format=%p").split()) == 2,
    lambda done: done.git("status", "--porcelain") == "",
    sets_up=_branches,
)
def merge_with_a_conflict(m: View) -> Script:
    seen = yield from m.run("git merge feature -m 'Merge the feature'")
    seen.find("CONFLICT")
    seen = yield from m.run("git status -s; cat conf.py")
    seen.find(">>>>>>> feature")
    yield from m.needs(
        "git checkout --theirs conf.py && git add conf.py && git commit -q -m 'Merge the feature'"
    )
    seen = yield from m.run("git status -s | wc -l; git log --oneline --graph | head -n 5")
    seen.find("Merge the feature")
    return "It is merged."


@GIT.task(
    "Undo the change of total that broke it, with a commit of its own, and keep the rest.",
    lambda done: "a + b" in done.text("total.py"),
    lambda done: done.text("notes.py") == f"# {COMMITS}\n",
    lambda done: done.git("rev-list", "--count", "HEAD") == f"{COMMITS + 1}\n",
    sets_up=_history,
)
def undo_a_change(m: View) -> Script:
    seen = yield from m.run("git log --oneline -S 'a - b' -- total.py | cat")
    commit = seen.find(r"^(\w+) Change")
    yield from m.needs(
        f"git checkout -q {commit}~1 -- total.py && git commit -q -m 'Add again' && cat total.py"
    )
    return "total adds again."
