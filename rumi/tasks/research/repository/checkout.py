"""Checkout of a commit's files into the workspace, without attributes, filters, links or submodules."""

import re
from typing import Final

from rumi.platform.untrusted_text import one_line
from rumi.tasks.research.repository.errors import CloneError
from rumi.tasks.research.repository.git import Git

_PLAIN: Final = {"100644", "100755", "100664"}
_LINK: Final = "120000"

# The files are counted before any is written: a small repository whose trees contain the same tree several
# times can have billions of files. `core.symlinks=false` writes a link as a file with its target; the
# overriding attributes name no filter.
_WRITE: Final = """\
cd "$root" && rm -rf tree.new .tree-index || exit
count=$(git ls-tree -r -z --name-only "$1" | tr -dc '\\000' | head -c "$(($2 + 1))" | wc -c)
[ "$count" -le "$2" ] || { echo many; exit 0; }
mkdir tree.new && export GIT_INDEX_FILE="$root/.tree-index" || exit
end() { rm -rf tree.new .tree-index; echo "$1"; exit 0; }
git read-tree "$1" || end refused
wrong=$(git --work-tree="$root/tree.new" checkout-index --all --force --quiet 2>&1)
code=$?
printf '%s\\n' "$wrong" >&2
# Files that the clone lacks are left out. With any other failure a file may be there in part.
[ $code -le 128 ] || end failed
! printf '%s\\n' "$wrong" | grep -qv -e 'unable to read' -e '^$' || end failed
[ $code = 0 ] || echo incomplete
git ls-files --format='%(objectmode)' | sort | uniq -c
rm -rf tree .tree-index && mv tree.new tree
"""
_MOST_NAMED: Final = 10
_ABSENT: Final = re.compile(r"unable to read|failed to unpack tree|missing|not a tree object")


async def written(git: Git, commit: str, most_files: int) -> str:
    """Write a commit's files below /workspace/tree; return a sentence about the written files.

    If git fails or a limit is exceeded, no file of the commit is left, and the sentence gives the reason.
    """
    short = commit[:12]
    try:
        result = await git.script(_WRITE, commit, str(most_files))
    except CloneError as error:
        await git.remove("tree.new", ".tree-index")
        return f"The files of {short} were not written: {error.message} Read them with git_show."
    said = result.stdout.text().split()
    wrong = result.stderr.text()
    if "many" in said:
        return (
            f"The files of {short} were not written: it has more than {most_files}. Read them with git_show."
        )
    if "refused" in said or result.exit_code:
        why = one_line(next(iter(wrong.splitlines()), ""), 200)
        if _ABSENT.search(wrong):
            return f"The files of {short} were not written: the clone lacks a part of them ({why})."
        return f"The files of {short} were not written: git refuses a name in it ({why})."
    if "failed" in said:
        why = one_line(next(iter(wrong.splitlines()), "") or "a file is too large", 200)
        return f"The files of {short} were not written: git could not ({why}). Read them with git_show."
    incomplete = "incomplete" in said
    numbers = [word for word in said if word != "incomplete"]
    modes = {mode: int(count) for count, mode in zip(numbers[::2], numbers[1::2], strict=True)}
    left_out = [one_line(line, 200) for line in wrong.splitlines() if "unable to read" in line]
    files = sum(count for mode, count in modes.items() if mode in _PLAIN) - len(left_out)
    facts = [f"{files} files of {short} are below tree/."]
    if _LINK in modes:
        facts.append(f"{modes[_LINK]} links are written as files that hold their target.")
    if incomplete:
        facts.append(f"Left out, because the clone does not have them: {'; '.join(left_out[:_MOST_NAMED])}.")
    return " ".join(facts)
