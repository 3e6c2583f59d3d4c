"""A line runs in bash exactly as it is written: beside `bash -c` in the same sandbox nothing differs."""

import random
import shutil
import subprocess
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import trio

from actors import Supervisor
from rumi.agent.tools.bash import Bash
from rumi.sandbox.engine import Command, CommandResult, SandboxLimits
from rumi.sandbox.policy import CommandPolicy
from rumi.sandbox.sandboxes import Sandboxes, add_sandboxes
from rumi.sandbox.words import CommandRefused
from rumi.sandbox.workspace import prepare_workspace
from runner.programs import Selection
from tests.fakes.engines import MakeEngine, cleaned_up
from tests.sandbox.hidden import hidden_lines

STRICT = CommandPolicy(Selection("core").allowed)
POLICIES = {"strict": STRICT, "open": replace(STRICT, open=True)}
LIMITS = SandboxLimits(timeout_s=20)

LINES = [
    'sed -i "s/two/$(date +%Y | wc -c)/" notes.txt; cat notes.txt',
    "echo \"`echo 'nested `' ; true`\" 2>&1; echo after",
    'echo "$(echo "a $(echo "b  c")")" $(echo d   e)',
    "echo `echo \\`echo deep\\`` `echo '\\$HOME'`",
    'touch "report-$(echo 7).txt"; ls report-*',
    "mkdir -p src/{a,b}/{1..3}; find src -type d | sort",
    "echo {a,b}{1,2} {01..03} {x} {} '{a,b}' \"{a,b}\"",
    "echo ~ ~/x '~' a~ HOME=~",
    "echo *.txt '*.txt' \"*.txt\" no*match [nx]otes.txt",
    "HOME=/tmp; echo ~ $HOME ${HOME#/} ${HOME/tmp/x} ${#HOME} ${nothing:-none} ${nothing+set}",
    "[[ abc == a* && abc =~ ^a(.)c$ ]] && echo ${BASH_REMATCH[1]}",
    "[ -f notes.txt ] && [ ! -d notes.txt ] || echo no; test 2 -gt 1; echo $?",
    "diff <(sort notes.txt) <(sort -r notes.txt); echo $?",
    "echo -e 'a\\tb\\n'; echo -n x; echo '\\t'; printf '%s|%q|%5.2f\\n' a 'b c' 3.14159",
    'cat <<E\nvalue $((2 + 3)) $(echo sub) \\$x "q"\nE',
    "cat <<'E' | tr a-z A-Z\nno $expansion `here`\nE",
    'cat <<-E\n\t\ttabs $HOME\n\tE\ncat <<< "here $(echo string)"',
    "a=(one 'two three' four); echo ${#a[@]} \"${a[1]}\" ${a[@]:1} ${!a[@]}; a+=(five); echo ${a[-1]}",
    'declare -A m=([x]=1 [y y]=2); for k in "${!m[@]}"; do echo "$k=${m[$k]}"; done | sort',
    "echo $((7 / 2)) $((2 ** 10)) $((0x1f)) $(( 1 ? 2 : 3 )); (( i = 5, i++ )); echo $i; let j=i*2; echo $j",
    'set -o pipefail; false | true; echo $? ${PIPESTATUS[@]}; true | false | true; echo "${PIPESTATUS[*]}"',
    "set -u; echo before; echo $undefined; echo not reached",
    "set -e; false; echo not reached",
    "echo 'it'\\''s' \"a'b\" 'c\"d' \"e\\\"f\" $'g\\'h\\ti\\x41\\u00e9'",
    "echo ñandú 日本 '🐦' \"é\"; echo ñandú | wc -m; printf '%s\\n' 日 | od -c",
    "echo one\necho two\n\n\necho three",
    "echo a # a comment\n# another\necho b#c '#d'",
    "echo one \\\n  two \\\n  three",
    "echo trailing \\",
    "echo ! !x '!' \"!\"; ! true; echo $?",
    "for i in 1 2 3; do [ $i = 2 ] && continue; echo $i; done; for ((i=0; i<2; i++)); do echo c$i; done",
    'i=0; while read -r l; do i=$((i+1)); echo "$i:$l"; done < notes.txt; echo $i',
    "i=3; until [ $i = 0 ]; do ((i--)); done; echo $i",
    "case notes.txt in *.md) echo md;; *.txt|*.log) echo text;& *) echo fell;; esac",
    "if grep -q two notes.txt; then echo yes; elif true; then echo no; else echo never; fi",
    "f() { local x=$1; echo \"$x $#\"; return 3; }; f 'a b' c; echo $?; x=1; g() { x=2; }; g; echo $x",
    "(cd sub && pwd; x=inner); pwd; echo [$x]; { cd sub; pwd; }; pwd; cd - ; pushd /tmp > /dev/null; popd",
    "echo out; echo err >&2; exec 3>&1; echo three >&3; ls missing 2>&1 | head -1; echo x > o 2>&1; cat o",
    "echo a > f; echo b >> f; cat < f; : > f; wc -c < f; echo {fd}; exec {fd}> g; echo h >&$fd; cat g",
    "trap 'echo bye' EXIT; echo hi; exit 4",
    "trap 'echo term' TERM; kill -TERM $$; echo after",
    "sleep 0.1 & wait $!; echo $?; (exit 5) & wait %1; echo $?; kill -0 $$ && echo alive",
    "exit 300; echo no",
    "kill -9 $$",
    "missing-program-of-nobody() { return 127; }; missing-program-of-nobody; echo $?",
    "xargs -n1 echo item < notes.txt; echo a b | xargs -I{} echo '<{}>'; printf 'x\\0y' | xargs -0 -n1",
    "find . -name '*.txt' -exec basename {} \\; -o -name sub | sort; find . -name *.txt",
    "sh -c 'echo $0 $1 $#' name 'a b' c; bash -c 'echo \"${1^^}\"' _ up; echo $0",
    "env X=1 bash -c 'echo $X'; X=2 bash -c 'echo $X'; echo [$X]; export X=3; bash -c 'echo $X'",
    "eval 'echo eval' \\$HOME; echo $(( $(echo 2) + `echo 3` )); echo $[1+1]",
    "read -r a b <<< 'first second third'; echo \"$b|$a\"; IFS=, read -ra p <<< 'x,y,z'; echo ${p[2]}",
    "mapfile -t lines < notes.txt; printf '[%s]' \"${lines[@]}\"; printf '%s\\n' {a..c} | tac",
    "echo $BASH_SUBSHELL $(echo $BASH_SUBSHELL); echo ${BASH_VERSION:+bash}; echo $- | tr -d c",
    "echo $'\\r' | od -c; printf 'a\\r\\n' | od -An -c; echo 'tab\there'",
    "time true; echo done",
    'echo "unclosed',
    "echo $(",
    "if true; then echo",
    "echo a && ; echo b",
    "awk 'BEGIN { printf \"%d\\n\", 6 * 7; while (i < 2) print i++ }'; awk -F: '{print $1}' notes.txt",
    "tar czf t.tgz notes.txt && tar tzf t.tgz; gzip -c notes.txt | zcat | head -1; base64 <<< hi",
    "seq 3 | paste -sd+ | tr + -; seq 10 | head -3 | tail -1; yes | head -2; printf '%s\\n' b a | sort",
    "cat",
    "cat - | tr a-z A-Z; cat",
    "read x; echo got $x; read y; echo then $y",
    "ulimit -c; umask; type cd ls | head -1; hash ls; alias; set -- a b; shift; echo $1",
    'echo "$IFS" | od -c; printf \'%q \' "a b" \'$x\' "it\'s"; echo; echo ${PWD/#\\/*\\//} $OLDPWD',
    "LC_ALL=C sort <<< $'b\\nB\\na'; printf %s \"$LANG\"; locale_is() { echo ${LANG%%.*}; }; locale_is",
    "coproc cat; echo sent >&${COPROC[1]}; read -ru ${COPROC[0]} l; echo $l",
    "select x in a b; do echo $x; break; done <<< 2",
    "shopt -s nullglob; echo none*; shopt -s globstar; echo **/*.txt; set -f; echo *",
    "ls -d ./* | sort; echo $(ls | wc -l) \"$(printf 'a\\n\\n')\"x",
]

UNREAD = [
    "echo `echo \\`echo deep\\`` `echo '\\$HOME'`",
    'echo "unclosed',
    "echo $(",
    "if true; then echo",
    "echo a && ; echo b",
    "select x in a b; do echo $x; break; done <<< 2",
]
"""What only the strict policy refuses: two lines that the grammar cannot read, and syntax errors."""


@pytest.fixture
async def sandboxes(
    make_engine: MakeEngine, new_installation: str, tmp_path: Path
) -> AsyncIterator[Sandboxes]:
    async with cleaned_up(make_engine(LIMITS, new_installation)) as engine:
        for chat in ("tool", "bare"):
            folder = prepare_workspace(tmp_path / "home", chat, *engine.user)
            (folder / "notes.txt").write_text("one: 1\ntwo: 2\nthree: 3\n")
            (folder / "sub").mkdir()
            shutil.chown(folder / "notes.txt", *engine.user)
            shutil.chown(folder / "sub", *engine.user)
        root = Supervisor("root")
        made = add_sandboxes(root, engine, LIMITS, tmp_path / "home")
        async with root.running():
            yield made


class Shell:
    """A chat's sandbox that keeps the result of the last command."""

    tainted = False

    def __init__(self, sandboxes: Sandboxes) -> None:
        self._sandboxes = sandboxes
        self.result: CommandResult | None = None

    async def prepare(self) -> None:
        await trio.lowlevel.checkpoint()

    async def run(self, command: Command) -> CommandResult:
        self.result = await self._sandboxes.run("tool", command)
        return self.result


def said(result: CommandResult) -> tuple[bytes, bytes, int | None]:
    times = b"".join(
        line for line in result.stderr.head.splitlines(True) if line[:4] not in (b"real", b"user", b"sys\t")
    )
    return result.stdout.head, times, result.exit_code


@pytest.mark.long
@pytest.mark.parametrize("policy", POLICIES)
async def test_a_line_gives_what_bash_gives(policy: str, sandboxes: Sandboxes) -> None:
    shell = Shell(sandboxes)
    tool, refused = Bash(shell, POLICIES[policy]), list[str]()
    for line in LINES:
        shell.result = None
        told = await tool.call({"command": line, "stdin": "first\nsecond\n"})
        if shell.result is None:
            refused.append(line)
            assert "Refused: " in told.content
            continue
        bare = await sandboxes.run("bare", Command(("bash", "-c", line), b"first\nsecond\n"))
        assert said(shell.result) == said(bare), line
        assert told.exit_code == bare.exit_code
    assert refused == ([] if policy == "open" else UNREAD)


# Programs that hide: whatever the grammar makes of a line, a program that is not on the list never runs.


@pytest.mark.parametrize("seed", [1, 2, pytest.param(3, marks=pytest.mark.long)])
def test_no_accepted_line_starts_a_program_that_is_not_on_the_list(seed: int, tmp_path: Path) -> None:
    names = ["cat", "echo", "wc", "env", "xargs", "timeout", "nice", "find", "sh", "bash", "tr", "true"]
    folder, record, work = tmp_path / "bin", tmp_path / "record", tmp_path / "work"
    folder.mkdir()
    work.mkdir()
    for name in names:
        (folder / name).symlink_to(shutil.which(name) or name)
    (folder / "evil").write_text("#!/bin/bash\necho ran >> $RECORD\n")
    (folder / "evil").chmod(0o755)
    environment = {"PATH": str(folder), "RECORD": str(record), "LC_ALL": "C.UTF-8", "x": ""}
    policy, accepted = CommandPolicy(tuple(names)), 0
    for line in hidden_lines(random.Random(seed), 600):
        try:
            policy.parse(line)
        except CommandRefused:
            continue
        accepted += 1
        command = [folder / "bash", "-c", line]
        try:
            subprocess.run(
                command,
                cwd=work,
                env=environment,
                input=b"evil\n",
                capture_output=True,
                timeout=20,
                check=False,
            )
        except subprocess.TimeoutExpired:
            continue
        assert not record.exists(), line
    assert accepted > 50
    # Planted: a line that runs it is noticed.
    subprocess.run([folder / "bash", "-c", "evil"], env=environment, check=True)
    assert record.exists()
