"""The command policy, and that what it reads is what real shells run."""

import shutil
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rumi.sandbox.policy import MAX_COMMAND_BYTES, STRICT, CommandPolicy, CommandRefused, may_write
from rumi.sandbox.shell import Operator, Word, read_script, read_words
from runner.programs import CORE, Selection

CONTRACT = """
ls cat head tail less more cp mv rm mkdir rmdir touch find which stat du df grep egrep fgrep sed awk gawk cut
sort uniq wc tr tee diff comm join paste echo printf yes base64 md5sum sha256sum pwd basename dirname realpath
date cal expr seq sleep true false test [ env printenv id whoami tar gzip gunzip zcat sh xargs nl tac split
column fold rev shuf timeout nice
"""


def sh(script: str) -> str:
    """A command that gives `script` to `sh -c`, whatever is in it."""
    return "sh -c '" + script.replace("'", "'\\''") + "'"


def refused(command: str) -> CommandRefused:
    with pytest.raises(CommandRefused) as caught:
        STRICT.parse(command)
    return caught.value


def test_the_allowed_programs_are_the_ones_that_are_promised() -> None:
    assert set(CONTRACT.split()) == set(CORE)


@pytest.mark.parametrize("program", sorted({*CORE} - {"sh"}))
def test_every_program_of_the_list_runs_with_and_without_a_shell(program: str) -> None:
    assert STRICT.parse(f"{program} x") == (program, "x")
    assert STRICT.parse(sh(f"{program} x | {program} y")) == ("sh", "-c", f"{program} x | {program} y")


@pytest.mark.parametrize(
    ("command", "argv"),
    [
        ("ls", ("ls",)),
        ("  ls\t-la  ", ("ls", "-la")),
        ("\n ls -la \r\n\n", ("ls", "-la")),
        ('echo "a | b"', ("echo", "a | b")),
        ("echo 'a && b; c > d & e `f` $(g) ${h} $i'", ("echo", "a && b; c > d & e `f` $(g) ${h} $i")),
        ('echo "a && b; c > d & e `f` $(g) ${h} $i"', ("echo", "a && b; c > d & e `f` $(g) ${h} $i")),
        ("echo a\"b\"'c'd", ("echo", "abcd")),
        ("echo \"\" ''", ("echo", "", "")),
        (r"echo a\ b \| \$x \\ \"", ("echo", "a b", "|", "$x", "\\", '"')),
        (r'echo "\$1 \\ \" \` \n \'"', ("echo", r"""$1 \ " ` \n \'""")),
        ("echo 'two\nlines' \"and\nmore\"", ("echo", "two\nlines", "and\nmore")),
        ("ls \\\n  -la", ("ls", "-la")),
        ("grep foo$ f", ("grep", "foo$", "f")),
        ("grep a#b f", ("grep", "a#b", "f")),
        ("find . -name *.py", ("find", ".", "-name", "*.py")),
        (
            r"find . \( -name a -o -name b \) -exec ls {} \;",
            ("find", ".", "(", "-name", "a", "-o", "-name", "b", ")", "-exec", "ls", "{}", ";"),
        ),
        ("ls ~/x {a,b} [ab]?", ("ls", "~/x", "{a,b}", "[ab]?")),
        ("[ -f x ]", ("[", "-f", "x", "]")),
        ("test 1 = 1", ("test", "1", "=", "1")),
        ("env FOO=1 ls", ("env", "FOO=1", "ls")),
        ("echo if ! then", ("echo", "if", "!", "then")),
        ('"l"s', ("ls",)),
        ("printf '%s\\n' ñandú 日本", ("printf", "%s\\n", "ñandú", "日本")),
    ],
)
def test_a_plain_command_is_its_words(command: str, argv: tuple[str, ...]) -> None:
    assert STRICT.parse(command) == argv


@pytest.mark.parametrize(
    "line",
    [
        *("ls | wc", "ls|wc", "ls > x", "ls>x", "ls >> x", "cat < x", "ls 2> x", "ls 2>&1", "ls && ls"),
        *("ls || ls", "ls ; ls", "ls;", "cd a && ls *.py | wc -l", "ls | sh -c 'cat | wc'"),
        *("find . -name '*.py' | xargs wc -l", "grep -c 'a|b' x && echo 'a $b'", "true > x"),
    ],
)
def test_a_line_that_joins_programs_or_redirects_is_given_to_a_shell(line: str) -> None:
    assert STRICT.parse(line) == STRICT.parse(f"  {line}\n") == ("sh", "-c", line)


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("ls |& wc", "`|&`"),
        ("cat << EOF", "redirection `<<`"),
        ("cat <<< x", "redirection `<<<`"),
        ("ls &> x", "redirection `&>`"),
        ("diff <(ls a) b", "`(`"),
        ("ls &", "background with `&`"),
        ("echo http://x/?a=1&b=2", "background with `&`"),
        ("echo $(id)", "expansion `$(id)`"),
        ("echo a$(id)", "expansion `$(id)`"),
        ("echo `id`", "backtick"),
        ("echo $HOME", "expansion `$HOME`"),
        ("echo ${HOME}", "expansion `${HOME}`"),
        ("echo $((1+1))", "expansion `$((1+1))`"),
        ("echo $1 $? $$", "expansion `$1`"),
        ("echo $'a'", "expansion `$'a'`"),
        ("ls\nrm x", "newline"),
        ("ls # all", "comment"),
        ("echo (a)", "`(`"),
        ("(ls)", "`(`"),
        ("{ ls; }", "keyword `{`"),
        ("ls | curl http://x", "`curl`"),
        ("ls | wc -l &", "background with `&`"),
        ('echo "$HOME" | wc', "expansion `$HOME"),
        ("ls > /etc/x", "target `/etc/x`"),
        ("ls |", "beside `|`"),
        ("ls | cat '", "quote '"),
        ("ls | wc\nls", "newline"),
        ("echo $x | wc", "expansion `$x`"),
        ("cd x", "`cd`"),
        ("python3 x.py", "`python3`"),
        ("curl http://x", "`curl`"),
        ("/bin/ls", "`/bin/ls` with a path"),
        ("./ls", "`./ls` with a path"),
        ("../bin/evil", "`../bin/evil`"),
        ("LS", "`LS`"),
        ("l?", "`l?`"),
        ("~/ls", "`~/ls`"),
        ("FOO=1 ls", "assignment `FOO=1`"),
        ("if true", "keyword `if`"),
        ("! true", "keyword `!`"),
        ("ls'", "quote '"),
        ('echo "a', 'quote "'),
        ("echo \\", "backslash"),
        ("", "empty command"),
        (" \t\n ", "empty command"),
        ('""', "empty program name"),
        ("l\0s", "NUL"),
        ("echo '\0'", "NUL"),
        ("echo \ud800", "surrogate"),
        ("ls\xa0-la", "U+00A0"),
        ("ls\u3000-la", "U+3000"),
        ("ls\r-la", "U+000D"),
        ("ls\x1b[0m", "U+001B"),
        ("ls\x0b-la", "U+000B"),
        ("ｌs", "\\uff4cs"),
        ("сat x", "\\u0441at"),
        ("ls\u200b", "ls\\u200b"),
        ("echo " + "x" * MAX_COMMAND_BYTES, f"{MAX_COMMAND_BYTES + 5} bytes"),
    ],
)
def test_a_refusal_outside_a_shell_names_what_was_refused_and_what_is_allowed(
    command: str, named: str
) -> None:
    error = refused(command)
    assert named in error.message
    assert error.advice


@pytest.mark.parametrize(
    "command",
    [
        "sh",
        "sh x.sh",
        "sh -c",
        "sh -c ls x",
        "sh -ec ls",
        "sh -e -c ls",
        "sh -c -- ls",
        "sh -s",
        "sh -i",
        'sh "-c ls"',
        '"sh" x',
        "sh --help",
        "sh -c 'ls' 'sh' '-c'",
    ],
)
def test_sh_is_only_sh_c_and_one_script(command: str) -> None:
    error = refused(command)
    assert "`sh`" in error.message
    assert 'sh -c "…"' in error.advice


@pytest.mark.parametrize(
    "script",
    [
        "ls",
        "ls | wc -l",
        "ls|sort|uniq -c",
        "ls && ls || ls; ls",
        "ls;",
        "ls *.txt ?x [ab]*",
        "ls ~ ~/x",
        "cd sub && ls",
        "cd sub; ls",
        "cd / && ls",
        "echo 'a $x `b`' | grep 'c$'",
        "awk '{print $1}' f | sort",
        'awk "{print}" f',
        'grep "a$" f',
        "grep a$ f",
        "echo if then ! for {} { }",
        "find . -name '*.py' -exec ls {} +",
        "find . -exec ls {} \\;",
        "ls > out.txt",
        "ls>out.txt",
        "ls >> sub/out.txt",
        "cat < in.txt",
        "ls 2> err",
        "ls 2>err 2>&1",
        "ls > out 2>&1 | cat",
        "ls 2>&1|cat",
        "ls > /dev/null 2>&1",
        "ls 2>/dev/null",
        "> out ls",
        "ls > /workspace/x",
        "ls > /tmp/x",
        "ls > //tmp/x",
        "ls > '/tmp/a b'",
        'ls > "out file"',
        "ls > /workspace/../tmp/x",
        "ls > sub/../x",
        "cd sub && ls > ../x",
        "cd /tmp && ls > x",
        "cd /tmp/a/b && cd .. && ls > ../x",
        "cd nowhere || ls > x",
        "cd; ls > x",
        "cd - && ls > x",
        "cd / | ls > x",
        "printf 'a\nb\n' | sort",
        "[ -f x ] && ls",
        "sh -c ls",
        "sh -c 'ls | wc' | cat",
        "\"ls\" 'x'",
        "l\\s",
    ],
)
def test_inside_sh_c_these_are_allowed(script: str) -> None:
    assert STRICT.parse(sh(script)) == ("sh", "-c", script)


@pytest.mark.parametrize(
    ("script", "named"),
    [
        ("", "empty script"),
        ("  ", "empty script"),
        ("echo $HOME", "`$HOME`"),
        ('echo "$HOME"', "`$HOME"),
        ('echo "a ${b}"', "`${b}"),
        ('echo "$(id)"', "`$(id)"),
        ('echo "`id`"', "backtick"),
        ("echo `id`", "backtick"),
        ("echo $(id)", "`$(id)`"),
        ("echo $((1))", "`$((1))`"),
        ("echo $[1]", "`$[1]`"),
        ("echo $'a'", "`$'a'`"),
        ('echo $"a"', '`$"a"`'),
        ("echo $? $# $@ $* $$ $! $-", "`$?`"),
        ("ls &", "`&`"),
        ("ls & ls", "`&`"),
        ("ls |& cat", "`|&`"),
        ("ls &> x", "`&>`"),
        ("ls\nls", "newline"),
        ("ls\n", "newline"),
        ("ls \\\n -la", "newline"),
        ('ls "\\\n"', "newline"),
        ("X=1", "assignment `X=1`"),
        ("X=1 ls", "assignment `X=1`"),
        ("ls; PATH=. ls", "assignment `PATH=.`"),
        ("(ls)", "`(`"),
        ("ls; (ls)", "`(`"),
        ("{ ls; }", "keyword `{`"),
        ("if true; then ls; fi", "keyword `if`"),
        ("for x in a; do ls; done", "keyword `for`"),
        ("while true; do ls; done", "keyword `while`"),
        ("until false; do ls; done", "keyword `until`"),
        ("case x in x) ls;; esac", "`)`"),
        ("! ls", "keyword `!`"),
        ("[[ a = a ]]", "keyword `[[`"),
        ("time ls", "keyword `time`"),
        ("f() { ls; }", "`(`"),
        ("function f { ls; }", "keyword `function`"),
        ("ls | python3", "`python3`"),
        ("ls && curl x", "`curl`"),
        ("ls; doas rm", "`doas`"),
        ("ls || eval ls", "`eval`"),
        ("exec ls", "`exec`"),
        (". ./x", "`.`"),
        ("source x", "`source`"),
        ("export X=1", "`export`"),
        ("set -f", "`set`"),
        ("/bin/ls", "with a path"),
        ("l[s]", "`l[s]`"),
        ("~", "`~`"),
        ("ls # x", "comment"),
        ("ls {a,b}", "`{a,b}`"),
        ("ls x{1..3}", "`x{1..3}`"),
        ("ls > x{a,b}", "`x{a,b}`"),
        ("ls |", "`|`"),
        ("| ls", "`|`"),
        ("ls | | ls", "`|`"),
        ("ls &&", "`&&`"),
        ("&& ls", "`&&`"),
        ("ls || ", "`||`"),
        ("; ls", "`;`"),
        (";", "`;`"),
        ("ls ; ; ls", "`;`"),
        ("ls ;; ls", "`;;`"),
        ("ls; && ls", "`&&`"),
        ("ls >", "`>` without a target"),
        ("ls > | cat", "`>` without a target"),
        ("ls > > x", "`>` without a target"),
        ("ls > 2>&1", "`>` without a target"),
        ("> x", "without a program"),
        ("ls; > x", "without a program"),
        ("ls > /etc/x", "`/etc/x`"),
        ("cat < /etc/passwd", "`/etc/passwd`"),
        ("ls 2> /etc/x", "`/etc/x`"),
        ("ls >> /etc/x", "`/etc/x`"),
        ("ls > ../x", "`../x`"),
        ("ls > a/../../x", "`a/../../x`"),
        ("ls > /tmp/../etc/x", "`/tmp/../etc/x`"),
        ("ls > '/etc/x'", "`/etc/x`"),
        ("ls > /tmpx/y", "`/tmpx/y`"),
        ("ls > /workspacex", "`/workspacex`"),
        ("ls > /", "`/`"),
        ("ls > /dev/tcp/1.2.3.4/80", "`/dev/tcp/1.2.3.4/80`"),
        ("ls > /dev/stdout", "`/dev/stdout`"),
        ("ls > /dev/./null", "`/dev/./null`"),
        ("ls > ''", "target"),
        ("ls > *", "a glob or `~`"),
        ("ls > ~/x", "a glob or `~`"),
        ("cd .. && ls > x", "`x`"),
        ("cd /etc && ls > x", "`x`"),
        ("cd /etc; ls > x", "`x`"),
        ("ls && cd / ; ls > x", "`x`"),
        ("cd sub; ls > ../x", "`../x`"),
        ("cd / && cd - && ls > ../x", "`../x`"),
        ("cd / && sh -c 'ls > x'", "`x`"),
        ("ls >| x", "`>|`"),
        ("ls >& x", "`>&`"),
        ("ls >&2", "`>&`"),
        ("ls 1> x", "`1>"),
        ("ls 0< x", "`0<"),
        ("ls 3> x", "`3>"),
        ("ls 22> x", "`22>"),
        ("ls 2>> x", "`2>>`"),
        ("ls 2>&2", "`2>&`"),
        ("ls 2>&1x", "`2>&`"),
        ("ls 2>&1>x", "`2>&`"),  # dash takes the 1 for the number of what follows
        ("ls 2>&-", "`2>&`"),
        ("ls 2< x", "`2<"),
        ("ls {fd}> x", "`{fd}>"),
        ("cat <> x", "`<>`"),
        ("cat << E", "`<<`"),
        ("cat <<< x", "`<<<`"),
        ("diff <(ls) x", "`(`"),
        ("sh x.sh", "`sh`"),
        ("ls | sh", "`sh`"),
        ("sh -c 'python3'", "`python3`"),
        ("sh -c 'ls $x'", "`$x`"),
        ("sh -c 'sh -c \"ls; sh -s\"'", "`sh`"),
        ("sh -c ls*", "glob"),
        ("sh -? ls", "glob"),
        ("ls 'a", "quote '"),
        ('ls "a', 'quote "'),
        ("ls \\", "backslash"),
        ("ls\xa0x", "U+00A0"),
        ("ls\rx", "U+000D"),
    ],
)
def test_a_refusal_inside_sh_c_names_what_was_refused_and_what_is_allowed(script: str, named: str) -> None:
    error = refused(sh(script))
    assert named in error.message
    assert error.advice


@pytest.mark.parametrize("command", ["sh x.sh", "sh x.sh one", "ls && sh x.sh", "./x.sh", "/workspace/x.sh"])
def test_a_refused_script_in_a_file_says_what_runs_it(command: str) -> None:
    assert "`env sh FILE` runs a script in a file." in refused(command).advice
    assert STRICT.parse("env sh x.sh one") == ("env", "sh", "x.sh", "one")


def test_double_quotes_around_a_script_leave_its_dollars_to_the_check_inside() -> None:
    assert STRICT.parse("""sh -c "awk '{print $1}' f" """)[2] == "awk '{print $1}' f"
    assert "$HOME" in refused('sh -c "echo $HOME"').message
    assert "$HOME" in refused('sh -c "echo \\$HOME"').message


def test_refusals_of_programs_list_the_allowed_ones_and_the_way_round() -> None:
    assert "sha256sum" in refused("python3").advice
    assert "no network" in refused("curl http://x").advice
    assert "`cd DIR && …`" in refused("cd x").advice
    assert "`ls`" in refused("/usr/bin/ls").advice


@pytest.mark.parametrize(
    "filler", ["{", "{,", "}", "a ", "'a'", "\\ ", "ls;", "ls|", "cd a;", "(", "$", "2>", "[", "ls>a;", '""']
)
def test_long_commands_are_judged_quickly(filler: str) -> None:
    long = filler * (MAX_COMMAND_BYTES // 2 // len(filler))
    began = time.process_time()
    for command in (f"echo {long}", sh(f"echo {long}")):
        try:
            STRICT.parse(command)
        except CommandRefused:
            continue
    assert time.process_time() - began < 3


# What real shells make of the same text. Every program is a recorder, so only the reading is compared.

SHELLS = [
    argv
    for argv in (["dash"], ["bash", "--posix"], ["bash"], ["busybox", "sh"])
    if shutil.which(argv[0]) is not None
]
PROGRAMS = ["gawk", "join"]  # none of them built into a shell, not even into BusyBox
EXAMPLES = [50, pytest.param(250, marks=pytest.mark.long)]
"""As many scripts; twice as many where only their form is looked at."""

NASTY = [
    *"\"'\\$`|&;<>()*?[]{}#~!=2 \t\n\r\x01\x7f-+,.:%@^/",
    "gawk",
    "join",
    "2>",
    "2>&1",
    ">>",
    "&&",
    "||",
    "é",
    "\u0081",
    "日",
]


@pytest.fixture(scope="module")
def recorders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of programs that write down their arguments, each with its length in front."""
    folder = tmp_path_factory.mktemp("bin")
    recorder = folder / PROGRAMS[0]
    recorder.write_text('#!/bin/dash\nprintf \'%s\\0\' "$#" "${0##*/}" "$@" >>"$RECORD"\n')
    recorder.chmod(0o755)
    for name in PROGRAMS[1:]:
        (folder / name).symlink_to(recorder)
    return folder


def ran(shell: list[str], script: str, recorders: Path, folder: Path) -> list[tuple[str, ...]]:
    """The argvs that a real shell made of `script`, without their order (a pipe has none)."""
    record = folder.parent / "record"
    record.write_bytes(b"")
    environment = {"PATH": str(recorders), "RECORD": str(record), "HOME": "~", "LC_ALL": "C.UTF-8"}
    program = shutil.which(shell[0])
    assert program is not None
    done = subprocess.run(
        [program, *shell[1:], "-f", "-c", script],  # -f: globs stay as they are written
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, (shell, script, done.stderr)
    fields = record.read_bytes().decode().split("\0")[:-1]
    argvs = []
    while fields:
        count = int(fields[0])
        argvs.append(tuple(fields[1 : count + 2]))
        fields = fields[count + 2 :]
    return sorted(argvs)


def segments(script: str) -> list[tuple[str, ...]]:
    """The argvs that run when every program succeeds, as the policy reads them."""
    found: list[tuple[str, ...]] = []
    current: list[str] = []
    skipped = target = False
    for token in [*read_script(script), Operator(";")]:
        if isinstance(token, Word):
            if not target:
                current.append("~" + token.text[1:] if token.bare.startswith("~") else token.text)
            target = False
        elif token.text in (">", ">>", "<", "2>"):
            target = True
        elif token.text != "2>&1":
            if not skipped:
                found.append(tuple(current))
            current = []
            # `a || b && c`: b is skipped, c runs; `a || b | c`: both are skipped
            skipped = token.text == "||" or (skipped and token.text == "|")
    return sorted(argv for argv in found if argv)


def accepted(command: str) -> bool:
    try:
        STRICT.parse(command)
    except CommandRefused:
        return False
    return True


words = st.lists(
    st.sampled_from(NASTY) | st.characters(codec="utf-8", exclude_characters="\0"), max_size=8
).map("".join)
quoted = words.map(lambda w: "'" + w.replace("'", "'\\''") + "'") | words.map(
    lambda w: '"' + "".join(f"\\{c}" if c in '$`"\\' else c for c in w if c != "\n") + '"'
)
arguments = st.lists(words | quoted, max_size=3).map(" ".join)
parts = st.tuples(st.sampled_from(PROGRAMS), arguments).map(" ".join)
scripts = st.lists(
    st.tuples(parts, st.sampled_from([" | ", "|", " && ", " || ", "; ", " ;"])), min_size=1, max_size=3
).map(lambda pairs: "".join(part + operator for part, operator in pairs[:-1]) + pairs[-1][0])


@pytest.mark.parametrize("examples", EXAMPLES)
@pytest.mark.parametrize("shell", SHELLS, ids=" ".join)
def test_the_words_of_an_accepted_script_are_those_that_a_real_shell_runs(
    shell: list[str], examples: int, recorders: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "work"

    @given(scripts)
    @settings(max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
    @example("gawk 2>&1 | join 'a' \"b$\" c$ \\$d")
    @example("gawk > a ~x ~ | join '#' not a comment")
    @example("gawk {} {a} a{ }b '#' { , }x | join {")
    @example("gawk > 2 2> 3 '2'> x \\2> y a2> z")
    @example("gawk '\x01\x7f\u0081' \"\x01\x7f\" é日")
    @example("gawk || join | join && join x")
    def check(script: str) -> None:
        if not accepted(sh(script)):
            return
        if any(argv[0] not in PROGRAMS for argv in segments(script)):
            return  # a program of its own, such as `[`, that writes nothing down
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for token, target in zip(read_script(script), read_script(script)[1:], strict=False):
            if isinstance(token, Operator) and token.text == "<" and isinstance(target, Word):
                return  # what it reads need not exist here
            if (
                isinstance(token, Operator)
                and token.text in (">", ">>", "2>")
                and "/" in getattr(target, "text", "")
            ):
                return  # neither need the folder it writes to
        assert ran(shell, script, recorders, folder) == segments(script)

    check()


@pytest.mark.parametrize("examples", EXAMPLES)
@pytest.mark.parametrize("shell", SHELLS, ids=" ".join)
def test_every_accepted_script_is_valid_for_a_real_shell(shell: list[str], examples: int) -> None:
    @given(st.lists(st.sampled_from([*NASTY, " ", "gawk ", " join "]), max_size=14).map("".join))
    @settings(max_examples=2 * examples, deadline=None)
    def check(tail: str) -> None:
        script = "gawk " + tail
        if accepted(sh(script)):
            program = shutil.which(shell[0])
            assert program is not None
            done = subprocess.run([program, *shell[1:], "-n", "-c", script], capture_output=True, check=False)
            assert done.returncode == 0, (script, done.stderr)

    check()


@given(st.lists(words, min_size=1, max_size=4))
def test_single_quoted_text_is_always_text(texts: list[str]) -> None:
    command = "echo " + " ".join("'" + text.replace("'", "'\\''") + "'" for text in texts)
    assert STRICT.parse(command) == ("echo", *texts)
    assert STRICT.parse(sh(command))[2] == command


@given(st.text(max_size=40))
def test_whatever_is_given_is_run_or_refused(text: str) -> None:
    for command in (text, sh(text), f"ls {text}", sh(f"ls {text}"), sh(f"ls > {text}")):
        try:
            argv = STRICT.parse(command)
        except CommandRefused:
            continue
        assert argv[0] in CORE


def test_words_and_their_quoting_are_told_apart() -> None:
    [word] = read_words("a'b*'\\?c")
    assert (word.text, word.bare, word.quoted, word.expands) == ("ab*?c", "a\0\0\0c", True, False)


WORKING = CommandPolicy(Selection("work", ("ffmpeg",)).allowed, missing=("rg",))
OPEN = replace(WORKING, open=True)


@pytest.mark.parametrize("program", ["python3", "git", "ffmpeg"])
def test_selected_programs_are_on_the_list(program: str) -> None:
    assert WORKING.parse(f"{program} --version") == (program, "--version")
    assert may_write((program,))
    with pytest.raises(CommandRefused, match="not on the list"):
        STRICT.parse(f"{program} --version")


def test_a_selected_program_that_is_not_there_is_told_apart() -> None:
    with pytest.raises(
        CommandRefused, match="is not in the sandbox, because this machine lacks it"
    ) as refused:
        WORKING.parse("rg needle")
    assert " rg " not in refused.value.advice


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("perl -e 1", "sandbox.extra_programs"),
        ("perl -e 1", "sandbox.policy"),
        ("for i in 1 2; do echo $i; done", "sandbox.policy"),
        ("echo $HOME", "sandbox.policy"),
        ("cat <<EOF", "sandbox.policy"),
        ("(ls)", "sandbox.policy"),
    ],
)
def test_a_refusal_names_the_key_that_would_allow_it(line: str, key: str) -> None:
    with pytest.raises(CommandRefused) as refused:
        WORKING.parse(line)
    assert key in refused.value.advice


@pytest.mark.parametrize(
    "line",
    [
        "for i in 1 2 3; do echo $i; done | wc -l",
        "cat <<EOF > f\nx $((1 + 1))\nEOF",
        "ls",
        "  perl -e 1 &",
        "if true; then echo `id`; fi",
    ],
)
def test_the_open_policy_hands_the_whole_line_to_sh(line: str) -> None:
    argv = OPEN.parse(line)
    assert argv == ("sh", "-c", line)
    assert may_write(argv), "tainted, it marks the chat's files"


@pytest.mark.parametrize("line", ["", "  \n", "a\0b", "x" * (MAX_COMMAND_BYTES + 1), "\ud800"])
def test_the_open_policy_refuses_what_cannot_run(line: str) -> None:
    with pytest.raises(CommandRefused):
        OPEN.parse(line)


@pytest.mark.parametrize(
    "line",
    [
        "sh /skills/a/scripts/x.sh one two",
        "bash /skills/a/scripts/x.sh",
        "/skills/a/scripts/x.py --help",
        "python3 /skills/a/scripts/x.py",
        "cd /skills/a && bash scripts/x.sh | wc -l",
        "cat f | sh /skills/a/x.sh > out",
    ],
)
def test_scripts_of_skills_run(line: str) -> None:
    assert WORKING.parse(line)
    assert may_write(WORKING.parse(line))


@pytest.mark.parametrize(
    "line",
    [
        "sh x.sh",
        "bash x.sh",
        "sh /skills/../workspace/x.sh",
        "/skills/../usr/bin/perl",
        "sh -x /skills/a/x.sh",
        "cd /skills/a && bash ../../workspace/x.sh",
        "cd /skills/a; sh x.sh",
        "sh /skills/a/x.sh > /skills/a/out",
        "cd /skills/a && echo x > out",
    ],
)
def test_other_scripts_do_not(line: str) -> None:
    with pytest.raises(CommandRefused):
        WORKING.parse(line)
