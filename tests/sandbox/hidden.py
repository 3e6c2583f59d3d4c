"""Lines of bash in which a program called `evil` hides: in quotes, substitutions, documents, wrappers."""

import random
from collections.abc import Callable, Iterator

PLAIN = (
    *(
        "a",
        "b",
        "1",
        "-n",
        "x=1",
        "'q w'",
        '"d q"',
        "*",
        "~",
        "{a,b}",
        "$x",
        "${x}",
        "\\;",
        "{}",
        "a#b",
        "$'t\\n'",
    ),
    *("é", "\\ ", "a\\ b", "#", "]", "=", "[a]", "!", "%d", "--", "'$(evil)'", "'`evil`'", "\\$\\(evil\\)"),
)
WRAPPERS = (
    *(
        "env",
        "env X=1",
        "xargs",
        "xargs -n1",
        "xargs -I{}",
        "timeout 1",
        "timeout -k 1 1",
        "nice",
        "nice -n 1",
    ),
    *(
        "find . -maxdepth 0 -exec",
        "time",
        "time -p",
        "coproc",
        "exec",
        "command",
        "builtin",
        "command -p",
        "!",
    ),
)
REDIRECTIONS = ("> f", "2>&1", ">> f", "< /dev/null", "&> f", ">&2", "3>&1", "<&-", ">| f", "<> f", "{fd}> f")
EVALUATE = (
    "eval",
    "trap",
    "alias x=a",
    "mapfile -C",
    "let",
    "test -v",
    "unset",
    "unset -f",
    "export -f",
    "read",
)


def hidden_lines(chosen: random.Random, number: int, evil: float = 0.2) -> Iterator[str]:
    """Yield lines; about one of two is accepted by a policy that does not allow `evil`."""
    for _ in range(number):
        lines = _Lines(chosen, evil)
        line = lines.command(chosen.randint(1, 3))
        while lines.documents:
            line += lines.documents.pop()
        if chosen.random() < 0.05:
            at = chosen.randint(0, len(line))
            line = (
                line[:at]
                + chosen.choice(["\\\n", "\n", "'", '"', "`", "\\", "(", ")", "\r", "#"])
                + line[at:]
            )
        if "vil" in line:
            yield line


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _double_quoted(text: str) -> str:
    return '"' + "".join(f"\\{char}" if char in '\\"`$' else char for char in text) + '"'


class _Lines:
    def __init__(self, chosen: random.Random, evil: float) -> None:
        self.documents: list[str] = []
        self._chosen = chosen
        self._evil = evil

    def _one(self, *choices: Callable[[], str]) -> str:
        return self._chosen.choice(choices)()

    def _of(self, *texts: str) -> str:
        return self._chosen.choice(texts)

    def _name(self) -> str:
        if self._chosen.random() < self._evil:
            return self._of("evil", "evil", "e'v'il", '"evil"', "e\\vil", "$'evil'")
        return self._of("cat", "echo", "wc", "true", "f", "g", ":", "printf", "tr")

    def _blank(self) -> str:
        return self._of(*[" "] * 8, "  ", "\t", " \\\n", "\\\n ")

    def _backticks(self, text: str) -> str:
        escaped = text.replace("\\", "\\\\").replace("`", "\\`").replace("$", self._of("$", "\\$"))
        return f"`{escaped}`"

    def _words(self, depth: int, most: int = 3) -> str:
        return "".join(self._blank() + self.word(depth) for _ in range(self._chosen.randint(0, most)))

    def word(self, depth: int) -> str:
        if depth <= 0 or self._chosen.random() < 0.3:
            return self._of(*PLAIN)
        depth -= 1
        return self._one(
            lambda: f"$({self.command(depth)})",
            lambda: self._backticks(self.command(depth)),
            lambda: f'"a $({self.command(depth)}) b"',
            lambda: '"' + self._backticks(self.command(depth)).replace('"', self._of('"', '\\"')) + '"',
            lambda: f"{self._of('<', '>')}({self.command(depth)})",
            lambda: f"${{x:-{self.word(depth)}}}",
            lambda: f'"${{x:-{self.word(depth)}}}"',
            lambda: f"$((1+$({self.command(depth)})))",
            lambda: f"${{x/{self.word(depth)}/{self.word(depth)}}}",
            lambda: f"${{x{self._of('#', '##', '%', '+', '=', '?', ':0:', '^^')}{self.word(depth)}}}",
            lambda: self.word(depth) + self.word(depth),
            lambda: f"$[1+$({self.command(depth)})]",
            lambda: _quoted(self.command(depth)),
            lambda: _double_quoted(self.command(depth)),
            lambda: f"${{a[{self.word(depth)}]}}",
            lambda: f'$"x$({self.command(depth)})"',
        )

    def simple(self, depth: int) -> str:
        name, blank = self._name, self._blank
        if depth <= 0 or self._chosen.random() < 0.4:
            return name() + self._words(depth - 1)
        depth -= 1
        return self._one(
            lambda: self._of(*WRAPPERS) + blank() + self.simple(depth) + self._of("", "", " \\;"),
            lambda: self._of("sh", "bash") + self._of(" -c", " -ec", " -x -c") + blank() + self.word(depth),
            lambda: self._of(*EVALUATE) + self._words(depth, 2) + self._of("", " EXIT", " 'a[$(evil)]'"),
            lambda: f"{self._of('x', 'x+', 'a[0]')}=({self.word(depth)} {self.word(depth)})",
            lambda: f"x={self.word(depth)} {name()}",
            lambda: (
                f"[[{blank()}{self.word(depth)}{blank()}{self._of('==', '=~', '<')} {self.word(depth)} ]]"
            ),
            lambda: f"[ {self._of('-n', 'a =')}{blank()}{self.word(depth)} ]",
            lambda: f"(( x = a[{self.word(depth)}] ))",
            lambda: (
                name() + self._words(depth, 1) + blank() + self._of(*REDIRECTIONS) + self._words(depth, 1)
            ),
            lambda: self._of(*REDIRECTIONS) + blank() + name() + self._words(depth, 1),
            lambda: self._here(depth),
        )

    def _here(self, depth: int) -> str:
        body = " ".join(self.word(depth) for _ in range(2)).replace("E", "e")
        self.documents.append(f"\n{body}\nE\n")
        end = self._of("E", "'E'", "-E", "\\E", '"E"')
        return f"{self._name()} <<{end}" + self._of(
            "", f" {self._name()}", f" | {self._name()}", f"|{self._name()}"
        )

    def _ended(self, command: str) -> str:
        return command + self.documents.pop() if self.documents else command

    def command(self, depth: int) -> str:
        if depth <= 0:
            return self.simple(0)
        depth -= 1
        one, then = lambda: self.command(depth), self._of("; ", "\n", " & ", " ;")
        return self._one(
            lambda: one() + self._of(" | ", "|", " |& ", " |\n", " && ", " || ", "&&") + one(),
            lambda: self._ended(one()) + then + one(),
            lambda: "{ " + self._ended(one()) + self._of("; }", "\n}"),
            lambda: f"( {self._ended(one())})",
            lambda: f"if {one()}; then {one()}; else {one()}; fi",
            lambda: f"while false && {one()}; do {one()}; done {self._of('', *REDIRECTIONS)}",
            lambda: f"for x in {self.word(depth)}; do {one()}; done",
            lambda: f"case {self.word(depth)} in {self._of('a', '*', '(a')}) {one()} ;; esac",
            lambda: self._of("f() { ", "function f { ", "evil() { ", "cat() { ") + one() + "; }",
            lambda: self.simple(depth) + f" #{self.word(0)} evil\n",
            lambda: self._of("time ", "time { ", "coproc { ", "coproc X { ") + one() + self._of("", "; }"),
            lambda: self._ended(self.simple(depth)),
            lambda: self._ended(self.simple(depth + 1)),
        )
