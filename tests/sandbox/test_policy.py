"""The command policy: any syntax of bash, and only programs on the list, however a line starts them."""

import re
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rumi.models.model import text_tokens
from rumi.sandbox.policy import MAX_COMMAND_BYTES, STRICT, CommandPolicy, CommandRefused, in_bash, may_write
from rumi.sandbox.use import only_frees
from runner.programs import CORE, WORK, Selection

CONTRACT = """
ls cat head tail less more cp mv rm mkdir rmdir touch find which stat du df grep egrep fgrep sed awk gawk cut
sort uniq wc tr tee diff comm join paste echo printf yes base64 md5sum sha256sum pwd basename dirname realpath
date cal expr seq sleep true false test [ env printenv id whoami tar gzip gunzip zcat sh xargs nl tac split
column fold rev shuf timeout nice
"""
MOST_TOKENS = 40
"""Tokens of a refusal about a name of an ordinary length."""
WORKING = CommandPolicy(Selection("work", ("ffmpeg",)).allowed, missing=("rg",))
OPEN = replace(WORKING, open=True)


def refused(line: str, policy: CommandPolicy = STRICT) -> CommandRefused:
    with pytest.raises(CommandRefused) as caught:
        policy.parse(line)
    said = caught.value.for_model
    named = max(map(len, re.findall("`([^`]*)`", caught.value.message)), default=0)
    assert text_tokens(said) <= MOST_TOKENS + max(0, named - 16) // 3, said
    return caught.value


def quoted(script: str) -> str:
    return "'" + script.replace("'", "'\\''") + "'"


def test_the_allowed_programs_include_the_ones_that_are_promised() -> None:
    assert set(CONTRACT.split()) <= set(CORE)
    assert not set(CORE) & set(WORK)


@pytest.mark.parametrize(
    "program", sorted({*CORE} - {"sh", "bash", "[", "env", "xargs", "timeout", "nice", "nohup"})
)
def test_every_program_of_the_list_runs_by_name_and_by_the_systems_path(program: str) -> None:
    assert STRICT.parse(f"{program} x") == (program, "x")
    assert STRICT.parse(f"{program} x | {program} y") == in_bash(f"{program} x | {program} y")
    assert STRICT.parse(f"/usr/bin/{program} x") == (f"/usr/bin/{program}", "x")
    assert STRICT.parse(f"sh -c '{program} x'")


@pytest.mark.parametrize(
    ("line", "argv"),
    [
        ("ls", ("ls",)),
        ("  ls\t-la  ", ("ls", "-la")),
        ("\n ls -la \n\n", ("ls", "-la")),
        ('echo "a | b"', ("echo", "a | b")),
        ("echo 'a && b; c > d & e `f` $(g) ${h} $i'", ("echo", "a && b; c > d & e `f` $(g) ${h} $i")),
        ("echo a\"b\"'c'd", ("echo", "abcd")),
        ("echo \"\" ''", ("echo", "", "")),
        (r"echo a\ b \| \$x \\ \"", ("echo", "a b", "|", "$x", "\\", '"')),
        (r"tr -d \  x", ("tr", "-d", " ", "x")),
        (r'echo "\$1 \\ \" \` \n \'"', ("echo", r"""$1 \ " ` \n \'""")),
        ("echo 'two\nlines' \"and\nmore\"", ("echo", "two\nlines", "and\nmore")),
        ("echo $'a\\tb'", ("echo", "a\tb")),
        ("ls \\\n  -la", ("ls", "-la")),
        (
            r"find . \( -name a -o -name b \) -exec ls {} \;",
            ("find", ".", "(", "-name", "a", "-o", "-name", "b", ")", "-exec", "ls", "{}", ";"),
        ),
        ("env FOO=1 ls", ("env", "FOO=1", "ls")),
        ('"l"s', ("ls",)),
        (r"l\s", ("ls",)),
        ("printf '%s\\n' ñandú 日本", ("printf", "%s\\n", "ñandú", "日本")),
        ("cd sub", ("cd", "sub")),
        ("echo hi \\", ("echo", "hi", "\\")),
    ],
)
def test_records_have_the_words_of_a_plain_command(line: str, argv: tuple[str, ...]) -> None:
    assert STRICT.parse(line) == argv


@pytest.mark.parametrize(
    "line",
    [
        *(
            "ls | wc",
            "ls > x",
            "ls;",
            "ls *.py",
            "echo $HOME",
            'echo "$(id)"',
            "echo `id`",
            "ls ~ {a,b} x{1..3}",
        ),
        *(
            "X=1",
            "X=1 ls",
            "ls &",
            "ls |& wc",
            "ls &> x",
            "ls 2>&1 >/dev/null",
            "cat <<< x",
            "diff <(ls a) <(ls b)",
        ),
        *(
            "cat <<E\na $(id)\nE",
            "cat <<'E'\n`perl` $(perl)\nE",
            "cat <<-E > f\n\tx\n\tE",
            "cat <<E | wc\nx\nE",
            "cat - <<'E' > f\nx\nE",
            "cat -\t<<-E | wc\n\tx $(id)\n\tE",
        ),
        *(
            "(ls)",
            "{ ls; }",
            "! ls",
            "if ls; then wc f; elif true; then :; else ls; fi",
            "for i in a b; do ls; done",
        ),
        *(
            "for ((i=0;i<3;i++)); do echo $i; done",
            "while read x; do echo $x; done < f",
            "until ls; do sleep 1; done",
        ),
        *(
            "case $x in a|b) ls;; *) wc;; esac",
            "select x in a; do ls; done",
            "[[ $x =~ ^a ]] && ls",
            "[ -f x ] || ls",
        ),
        *(
            "f() { ls; }; f",
            "function f { ls | wc; }\nf x",
            "g() { f; }; f() { ls; }; g",
            "(( x++ )); echo $((x*2))",
        ),
        *(
            "a=(1 2); echo ${a[@]} ${#a[@]}",
            "declare -A m=([a]=b); echo ${m[a]}",
            "x+=y; echo ${x:-$(id)} ${x//a/b}",
        ),
        *(
            "time ls | wc",
            "time { ls; }",
            "time -p (ls)",
            "time for i in 1; do ls; done",
            "coproc ls",
            "coproc X { ls; }",
        ),
        *(
            "exec 3< f; cat <&3",
            "set -euo pipefail; ls | wc",
            "trap 'rm -f x' EXIT; ls",
            "ls # a comment",
            "# only one",
        ),
        *(
            "find . -name '*.py' -exec wc -l {} + -o -execdir ls {} \\;",
            "find . -exec sh -c 'wc \"$1\"' sh {} \\;",
        ),
        *(
            "ls | xargs -n1 -I{} cp {} d",
            "xargs -0 -P 2 sh -c 'ls \"$@\"' sh",
            "env -i A=1 ls",
            "timeout -k 1 5 ls",
        ),
        *(
            'timeout "$t" ls',
            "nice -n 5 ls",
            "nohup ls",
            "command ls",
            "command -v perl",
            "builtin cd x",
            "which perl",
        ),
        *(
            "bash -c 'ls | wc'",
            "bash -euo pipefail -c 'ls'",
            "sh -c 'sh -c \"ls; wc f\"'",
            "bash run.sh a",
            "sh ./x.sh",
        ),
        *(
            "eval ls '| wc'",
            'eval "f() { ls; }"; f',
            "f() { ls; }; export -f f; ls | xargs -n1 bash -c 'f \"$1\"' _",
        ),
        *(
            "export X=$(id)",
            "read -r a b <<< 'x y'",
            "mapfile -t l < f; echo ${l[0]}",
            "printf -v x %d 1",
            "let x=1+2",
        ),
        *(
            "echo !x a#b",
            "echo $'\\x41' $\"hi\"",
            "ls $(echo `echo \\`id\\``)",
            "cat f | tee >(wc -l) | sort",
            "wait",
        ),
    ],
)
def test_any_syntax_is_allowed_and_given_to_bash_as_it_is_written(line: str) -> None:
    assert STRICT.parse(line) in (in_bash(line), STRICT.parse(f" {line}")) or STRICT.parse(line)[0] in CORE
    assert OPEN.parse(line) == in_bash(line)


@pytest.mark.parametrize(
    "line",
    [
        *(
            "perl",
            "PERL=1 perl",
            "ls | perl",
            "ls && perl",
            "ls; perl",
            "ls\nperl",
            "(perl)",
            "{ perl; }",
            "! perl",
        ),
        *(
            "if perl; then ls; fi",
            "if ls; then perl; fi",
            "for i in 1; do perl; done",
            "while perl; do ls; done",
        ),
        *(
            "case x in x) perl;; esac",
            "f() { perl; }",
            "f() { perl; }; f",
            "ls &\nperl",
            "ls & perl",
            "ls |& perl",
        ),
        *(
            "echo $(perl)",
            'echo "$(perl)"',
            "echo `perl`",
            'echo "`perl`"',
            "echo `echo \\`perl\\``",
            "x=$(perl)",
        ),
        *(
            'echo `echo "\\$(perl)"`',
            "echo ${x:-$(perl)}",
            "echo $((1+$(perl)))",
            "a[$(perl)]=1",
            "a=(1 `perl`)",
        ),
        *("diff <(perl) x", "ls > >(perl)", "ls > $(perl)", "cat <<E\n$(perl)\nE", "cat <<E && perl\nx\nE"),
        *(
            "cat <<< $(perl)",
            "[[ -f $(perl) ]]",
            "(( x = $(perl) ))",
            "echo $[1+$(perl)]",
            "time perl",
            "coproc perl",
        ),
        *(
            "time { perl; }",
            "coproc X { perl; }",
            "exec perl",
            "exec -a ls perl",
            "command perl",
            "command -p perl",
        ),
        *("p'e'rl", 'p"erl"', "p\\erl", "$'perl'", "/usr/bin/perl", "> f perl", "2>&1 perl", "X=1 > f perl"),
        *(
            "env perl",
            "env -i A=b perl",
            "env -u X -- perl",
            "env > f perl",
            "ls | env > f perl",
            "env <<E perl\nE",
        ),
        *(
            "xargs perl",
            "xargs -0n1 perl",
            "xargs -I {} perl {}",
            "xargs -a f -- perl",
            "xargs env X=1 nice perl",
        ),
        *(
            "nice perl",
            "nice -5 perl",
            "nice -n 5 perl",
            "nohup perl",
            "timeout 5 perl",
            "timeout -s KILL 5 perl",
        ),
        *("find . -exec perl {} \\;", "find . -name x -ok perl \\;", "find -execdir env perl {} +"),
        *(
            "find . -exec ls {} \\; -exec perl {} \\;",
            "find . -exec sh -c 'perl' \\;",
            "xargs sh -c 'ls; perl'",
        ),
        *(
            "sh -c perl",
            "bash -c 'ls | perl'",
            "bash -ec perl",
            "sh -c 'sh -c \"perl\"'",
            "bash -o pipefail -c perl",
        ),
        *(
            "eval perl",
            "eval 'ls;' perl",
            "trap perl EXIT",
            "trap -- 'ls; perl' INT",
            "alias x=perl",
            "alias x='ls;perl'",
        ),
        *(
            "mapfile -C perl -c 1 x",
            "perl; perl() { ls; }",
            "(perl() { ls; }); perl",
            "perl() { ls; } & perl",
        ),
        *("sh -c 'perl() { :; }'; perl", "perl() { :; }; bash -c perl", "perl() { :; }; unset -f perl; perl"),
        *("false && perl() { :; }; perl", "perl() { :; }; command env perl", "watch -x perl", "pe\\\nrl"),
        *(
            "perl() { :; } | perl",
            "perl() { :; }; xargs perl",
            "echo ${x/$(perl)/b}",
            "[ -n `perl` ]",
            "ls\r\nperl",
        ),
    ],
)
def test_a_program_that_is_not_on_the_list_is_refused_wherever_it_stands(line: str) -> None:
    assert refused(line).message.startswith("Refused: ")


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("perl -e 1", "the program `perl` is not on the list"),
        ("./x.sh", "the program `./x.sh` is not on the list"),
        ("sub/ls", "the program `sub/ls`"),
        ("$x ls", "the program's name `$x`"),
        ('"$@"', '`"$@"`'),
        ("`which ls`", "``which ls``"),
        ("l?", "`l?`"),
        ("{ls,-l}", "`{ls,-l}`"),
        ("~/ls", "`~/ls`"),
        ("env $x", "`$x`"),
        ("find . -exec $x {} \\;", "`$x`"),
        ("find . -exec {} \\;", "`find -exec {}`"),
        ("find . -exec sh -c 'ls {}' \\;", "`find -exec 'ls {}'`"),
        ("xargs -I{} {}", "`xargs {}`"),
        ("xargs -I % sh -c 'ls %'", "`xargs sh`"),
        ("xargs env", "`xargs env`"),
        ("xargs sh", "`xargs sh`"),
        ("xargs timeout 5", "`xargs timeout`"),
        ("env -S 'ls -l'", "`env -S`"),
        ('sh -c "$x"', '`sh -c "$x"`'),
        ('sh -c "ls $x"', '`sh -c "ls $x"`'),
        ("sh", "`sh`"),
        ("ls | sh", "`sh`"),
        ("bash < x", "`bash`"),
        ("bash -s x", "`bash -s`"),
        ("bash <(ls)", "`bash <(ls)`"),
        ("bash /dev/stdin", "`bash /dev/stdin`"),
        ("bash --rcfile x -i", "`bash --rcfile`"),
        ('eval "$x"', '`eval "$x"`'),
        ("eval $(ls)", "`eval $(ls)`"),
        ('trap "rm $x" EXIT', '`trap "rm $x"`'),
        ("source x", "`source`"),
        (". x", "`.`"),
        ("BASH_ENV=x sh -c ls", "BASH_ENV=x"),
        ("env BASH_ENV=x sh -c ls", "`env BASH_ENV=x`"),
        ("PS4='$(id)'; set -x", "PS4="),
        ("echo ${x@P}", "`@P`"),
        ("test -v 'a[$(id)]'", "`test"),
        ("[[ -v 'a[$(id)]' ]]", "`[[`"),
        ("let 'a[$(id)]=1'", "`let"),
        ("printf -v 'a[`id`]' x", "`printf"),
        ("hash -p /tmp/x ls", "`hash -p`"),
        ("shopt -s expand_aliases", "`shopt`"),
        ("enable -f x y", "`enable`"),
        ("tar --to-command=x -xf y", "`tar --to-command=x`"),
        ("sort --compress-program=x y", "`sort --compress-program=x`"),
        ("split --filter='x' y", "`split --filter"),
        ('""', "an empty program name"),
        ("сat x", "\\u0441at"),
        ("ls\u200b", "ls\\u200b"),
        ("rg needle", "not on the list"),
    ],
)
def test_what_only_bash_can_know_is_refused_and_named(line: str, named: str) -> None:
    error = refused(line)
    assert named in error.message
    assert error.advice


@pytest.mark.parametrize(
    "line",
    [
        *(
            "ls '",
            'ls "a',
            "echo $(ls",
            "if ls",
            "ls )",
            "for",
            "ls |",
            "cat <<E",
            "case x in",
            "ls\r",
            "ls\x0b-l",
        ),
        *("echo a\\\nb", 'echo "${x:-`id`}"', "cat <<E\n`id`\nE", "ls !(a)", "echo $((ls); ls)"),
        *(
            "\"${x:-'$(id)'}\"",
            ": ${a['`id`']}",
            "cat <<A <<B\n1\nA\n2\nB",
            "then ls",
            "}",
            "ls" + "|ls" * 3000,
        ),
        *("f(){ :; };" * 200, "env " * 30 + "ls"),
    ],
)
def test_what_the_grammar_cannot_read_is_refused_and_says_so(line: str) -> None:
    error = refused(line)
    assert error.message.startswith("Refused: ")
    assert error.advice


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ("curl http://x", "no network"),
        ("vim x", "cat > FILE"),
        ("sudo ls", "no root"),
        ("pip3 x", "`ls /usr/bin`"),
        ("./x.sh", "`bash FILE`"),
        (". x.sh", "`bash FILE`"),
        ("cat <<E\n`id`\nE", "<<'END'"),
        ('sh -c "ls $x"', "as `$1`"),
    ],
)
def test_a_refusal_says_what_to_do_instead(line: str, advice: str) -> None:
    error = refused(line)
    assert advice in error.advice
    assert "config.toml" not in str(error)


@pytest.mark.parametrize("policy", [STRICT, OPEN])
@pytest.mark.parametrize(
    "line", ["", "  \n", "a\0b", "echo '\0'", "x" * (MAX_COMMAND_BYTES + 1), "\ud800", "echo \ud800"]
)
def test_both_policies_refuse_what_cannot_run(line: str, policy: CommandPolicy) -> None:
    assert refused(line, policy).advice


@pytest.mark.parametrize(
    "filler",
    [
        *(
            "{",
            "{,",
            "}",
            "a ",
            "'a'",
            "\\ ",
            "ls;",
            "ls|",
            "cd a;",
            "(",
            "$",
            "2>",
            "[",
            "ls>a;",
            '""',
            "$(",
            "`",
        ),
        *(
            "((",
            "$((",
            "if a;then ",
            "<<a ",
            "a[",
            "${",
            "case x in ",
            "[[ ",
            "!",
            "<(",
            "a=(",
            '"$(',
            "f()",
            "\n",
        ),
        *(
            "f(){ :;};",
            "time ",
            "coproc ",
            "eval ",
            "sh -c '",
            "env ",
            "xargs ",
            "find -exec ",
            "x=1 ",
            "&&",
            "||",
        ),
    ],
)
def test_long_commands_are_judged_quickly(filler: str) -> None:
    line = "echo " + filler * (MAX_COMMAND_BYTES // 2 // len(filler))
    began = time.process_time()
    for long in (line, line[5:]):
        try:
            STRICT.parse(long)
        except CommandRefused:
            continue
    assert time.process_time() - began < 4


def test_no_character_crashes_the_process_through_the_grammar() -> None:
    code = """if True:
        import random
        from rumi.sandbox.policy import STRICT
        from rumi.sandbox.words import CommandRefused
        chosen = random.Random(1)
        parts = ["{", "a", " ", "$", "<<E\\n", "\\nE", "'", "[[", "=~", "("]
        for _ in range(5000):
            strange = [chr(chosen.randrange(0x10000, 0x110000)), chr(chosen.randrange(0x80, 0xD800))]
            line = "".join(chosen.choice([*parts, *strange]) for _ in range(chosen.randint(1, 14)))
            try:
                STRICT.parse(line)
            except CommandRefused:
                pass
    """
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@given(st.text(max_size=40))
def test_whatever_is_given_is_run_or_refused(text: str) -> None:
    for line in (text, f"sh -c {quoted(text)}", f"ls {text}", f"ls | {text}", f"cat <<E\n{text}\nE"):
        try:
            argv = STRICT.parse(line)
        except CommandRefused:
            continue
        assert argv == in_bash(line) or argv[0]


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0\1"), max_size=8), min_size=1))
def test_single_quoted_text_is_always_text(texts: list[str]) -> None:
    line = "echo " + " ".join(map(quoted, texts))
    assert STRICT.parse(line) == ("echo", *texts)
    assert STRICT.parse(f"sh -c {quoted(line)}") == ("sh", "-c", line)


@pytest.mark.parametrize("program", ["python3", "git", "ffmpeg", "perl"])
def test_selected_programs_are_on_the_list(program: str) -> None:
    assert WORKING.parse(f"{program} --version") == (program, "--version")
    assert may_write((program,))
    assert "not on the list" in refused(f"{program} --version").message


def test_a_selected_program_that_is_not_there_is_told_apart() -> None:
    assert "is missing on this machine" in refused("rg needle", WORKING).message


@pytest.mark.parametrize(
    "line",
    [
        *("sh /skills/a/scripts/x.sh one", "bash /skills/a/x.sh", "/skills/a/scripts/x.py --help"),
        *(
            "python3 /skills/a/x.py",
            "cd /skills/a && bash scripts/x.sh | wc -l",
            "cat f | sh /skills/a/x.sh > out",
        ),
    ],
)
def test_scripts_of_skills_run(line: str) -> None:
    assert WORKING.parse(line)
    assert may_write(in_bash(line))


def test_a_path_only_seems_to_be_a_skills() -> None:
    assert "not on the list" in refused("/skills/../usr/bin/ffmpeg").message
    assert "not on the list" in refused("skills/a/x.py").message


@pytest.mark.parametrize(
    "line",
    [
        *(
            "ls",
            "ls *.py | wc -l",
            "cat f 2>/dev/null",
            "grep x f 2>&1",
            "echo $(cat f)",
            "cd d && ls",
            "/bin/ls -l",
        ),
        *(
            'for i in *; do stat "$i"; done',
            "sh -c 'ls | wc'",
            "timeout 5 ls",
            "xargs cat < f",
            "cat <<E\nx\nE",
        ),
    ],
)
def test_a_line_of_readers_changes_no_file(line: str) -> None:
    assert not may_write(in_bash(line))


@pytest.mark.parametrize(
    "line",
    [
        *(
            "rm x",
            "ls > x",
            "ls >> x",
            "ls &> x",
            "ls >& x",
            "ls 2> x",
            "cat <> x",
            "ls | tee x",
            "echo $(rm x)",
        ),
        *(
            "sh x.sh",
            "sort -o x y",
            "xargs rm",
            "timeout 5 rm x",
            "sh -c 'rm x'",
            "ls | sh",
            "> x",
            "history -w x",
        ),
        *("f() { rm x; }; f", "ls '", "for i in *; do ls; done > x", "ls > $x"),
    ],
)
def test_other_lines_may_change_files(line: str) -> None:
    assert may_write(in_bash(line))


@pytest.mark.parametrize(
    "line", ["rm -rf a", "rm *.log; ls", "true > x", "> x", ": > x", "find . -size +1M | xargs rm"]
)
def test_lines_that_free_space_are_known(line: str) -> None:
    assert only_frees(in_bash(line))


@pytest.mark.parametrize(
    "line", ["ls > x", "cat a > b", "python3 x.py", "sh x.sh", "cp a b; rm a", "rm '", "(ls) > x"]
)
def test_lines_that_may_fill_a_full_disk_are_known(line: str) -> None:
    assert not only_frees(in_bash(line))
