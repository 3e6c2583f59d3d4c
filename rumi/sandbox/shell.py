r"""Reads a line the way POSIX `sh` does, and refuses everything that shells could read differently.

There are two readings: `read_words` is for a command that no shell will see, where quotes and backslashes are
the whole syntax; `read_script` is for the script of `sh -c`, where operators are separate tokens. Both read
quotes as dash, bash and BusyBox do; `shlex` does not (it keeps the backslash of `"\$1"`, ends words at `#`,
and glues operators together), so its words would not be the ones that run.
"""

from dataclasses import dataclass
from typing import TypeAlias

from rumi.errors import RumiError

OUTSIDE = (
    "A command is one program and its words; quoted text is text. A line with a pipe, a redirection, `&&`, "
    '`||` or `;` is read as `sh -c` of itself; for globs alone write `sh -c "…"`.'
)
INSIDE = (
    "Inside `sh -c` there are words, quotes, globs, `|`, `&&`, `||`, `;`, `cd`, and `>` `>>` `<` `2>` "
    "`2>&1`. Single-quoted text is always text."
)
POLICY_KEY = 'The owner can allow every line of shell in config.toml (sandbox.policy = "open").'
_QUOTED = "\0"
_NAME_START = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_")
_EXPANDS = _NAME_START | frozenset("0123456789{([@*#?-$!")
# The longest first: the reader takes the first match.
_OPERATORS = (
    *("<<<", "&>>", "&&", "||", ";;", ";&", "|&", "&>", "<<", "<&", "<>", ">>", ">&", ">|"),
    *("|", "&", ";", "<", ">"),
)
CONTROLS = ("|", "&&", "||", ";")
_ALLOWED_OPERATORS = frozenset({*CONTROLS, "<", ">", ">>"})


class CommandRefused(RumiError):
    """A command that is not run: the message names the refused part, the advice the alternatives."""


class NeedsShell(CommandRefused):
    """A line that joins programs or redirects: only `sh -c` can run it."""


@dataclass(frozen=True, slots=True)
class Word:
    """One word after quote removal. `bare` is the same text with a NUL for each character that was quoted."""

    text: str
    bare: str
    quoted: bool

    @property
    def expands(self) -> bool:
        """True if a shell could make other words of it: a glob or a tilde that was not quoted."""
        return self.bare.startswith("~") or (self.bare != "[" and any(c in self.bare for c in "*?["))


@dataclass(frozen=True, slots=True)
class Operator:
    """`|`, `&&`, `||`, `;`, or a redirection (`<`, `>`, `>>`, `2>`, `2>&1`)."""

    text: str


Token: TypeAlias = Word | Operator


def read_words(command: str) -> list[Word]:
    """Return the words of a command that runs without a shell.

    Raises:
        NeedsShell: A pipe, a redirection, `&&`, `||` or `;` is outside quotes; nothing before it is refused.
        CommandRefused: A substitution, a comment, another operator is outside quotes, or quotes do not close.
    """
    return [token for token in _Reader(trimmed(command), inside=False).tokens() if isinstance(token, Word)]


def read_script(script: str) -> list[Token]:
    """Return the words and operators of a script for `sh -c`.

    Raises:
        CommandRefused: The syntax is not allowed by the policy, or quotes do not close.
    """
    return _Reader(script, inside=True).tokens()


def trimmed(command: str) -> str:
    """Return the command without the newline that models like to end it with."""
    short = command.rstrip(" \t\r\n")
    after = command[len(short) :]
    return (short if "\n" in after or "\r" in after else command).lstrip(" \t\r\n")


class _Reader:
    """One pass over `text`. `inside` is True if a shell will read the same text afterwards."""

    def __init__(self, text: str, *, inside: bool) -> None:
        self._text = text
        self._at = 0
        self._inside = inside
        self._advice = INSIDE if inside else OUTSIDE
        self._where = "inside `sh -c`" if inside else "outside `sh -c`"

    def tokens(self) -> list[Token]:
        found: list[Token] = []
        while self._skip_blanks():
            start = self._at
            operator = self._operator()
            if operator is None:
                word = self._word()
                if (redirection := self._numbered(word, start)) is None:
                    found.append(word)
                    continue
                operator = redirection
            found.append(Operator(operator))
        return found

    def _skip_blanks(self) -> bool:
        """Skip blanks. Return True if text is left after them."""
        while (char := self._peek()) != "":
            if char in " \t":
                self._at += 1
            elif char == "\n":
                raise self._refused("a newline", 'Join commands with `&&` or `;` inside one `sh -c "…"`.')
            elif char == "\\" and self._peek(1) == "\n" and not self._inside:
                self._at += 2
            else:
                return True
        return False

    def _operator(self) -> str | None:
        """Return the operator that begins here, if one does; refuse those that are not allowed."""
        if self._peek() in ("(", ")"):
            raise self._refused(f"`{self._peek()}` (a group or subshell)", "Quote it if it is text.")
        found = next((each for each in _OPERATORS if self._text.startswith(each, self._at)), None)
        if found is None:
            return None
        if not self._inside and found in (*_ALLOWED_OPERATORS, ">&"):  # which `2>&1` has
            refusal = self._refused(f"{_kind(found)} `{found}`", "")
            raise NeedsShell(refusal.message, refusal.advice)
        if found not in _ALLOWED_OPERATORS:
            raise self._refused(f"{_kind(found)} `{found}`", "")
        self._at += len(found)
        return found

    def _numbered(self, word: Word, start: int) -> str | None:
        """Return `2>` or `2>&1`, if `word` is the number directly in front of a redirection."""
        if not self._inside or self._peek() not in ("<", ">") or word.quoted:
            return None
        # bash takes `{name}>` as a redirection with a new descriptor; dash takes it as a word.
        if not word.text.isdigit() and not (word.text.startswith("{") and word.text.endswith("}")):
            return None
        if self._text.startswith("2>&1", start) and self._ends_word(start + 4):
            self._at = start + 4
            return "2>&1"
        if self._text.startswith("2>", start) and self._peek(1) not in (">", "&", "|", "("):
            self._at = start + 2
            return "2>"
        raise self._refused(f"the redirection `{self._text[start : self._at + 2].strip()}`", "")

    def _ends_word(self, at: int) -> bool:
        return at >= len(self._text) or self._text[at] in " \t|&;"

    def _word(self) -> Word:
        text: list[str] = []
        bare: list[str] = []
        quoted = False
        if self._peek() == "#":
            raise self._refused("a comment (`#`)", "Leave it out, or quote it if it is text.")
        while (char := self._peek()) != "" and char not in " \t\n|&;<>()":
            if char == "\\":
                piece, mark = self._escaped(), _QUOTED
            elif char == "'":
                piece, mark = self._single_quoted(), _QUOTED
            elif char == '"':
                piece, mark = self._double_quoted(), _QUOTED
            else:
                piece, mark = self._bare_character(char), ""
            quoted = quoted or mark == _QUOTED
            text.append(piece)
            bare.append(mark * len(piece) if mark else piece)
        return Word("".join(text), "".join(bare), quoted)

    def _escaped(self) -> str:
        following = self._peek(1)
        if following == "":
            raise self._refused("a backslash at the end", "Quote it if it is text.")
        self._at += 2
        if following != "\n":
            return following
        if self._inside:
            raise self._refused("a newline", "Write the command on one line.")
        return ""

    def _single_quoted(self) -> str:
        end = self._text.find("'", self._at + 1)
        if end < 0:
            raise self._unbalanced("'")
        piece = self._text[self._at + 1 : end]
        self._at = end + 1
        return piece

    def _double_quoted(self) -> str:
        piece: list[str] = []
        self._at += 1
        while (char := self._peek()) != '"':
            if char == "":
                raise self._unbalanced('"')
            following = self._peek(1)
            if char == "\\" and following != "" and following in '$`"\\\n':
                if following == "\n" and self._inside:
                    raise self._refused("a newline", "Write the command on one line.")
                piece.append("" if following == "\n" else following)
                self._at += 2
                continue
            if self._inside:
                self._refuse_expansion(char, following, "")
            piece.append(char)
            self._at += 1
        self._at += 1
        return "".join(piece)

    def _bare_character(self, char: str) -> str:
        # bash reads $'…' and $"…", dash does not.
        self._refuse_expansion(char, self._peek(1), "'\"")
        if not char.isprintable() and (char.isspace() or ord(char) < 0x20 or 0x7F <= ord(char) < 0xA0):
            raise self._refused(f"the character U+{ord(char):04X} outside quotes", "Use an ordinary space.")
        self._at += 1
        return char

    def _refuse_expansion(self, char: str, following: str, also: str) -> None:
        if char == "`":
            raise self._refused("a substitution with a backtick", _NO_SUBSTITUTION)
        if char == "$" and following != "" and (following in _EXPANDS or following in also):
            shown = self._text[self._at : self._at + 12].split()[0]
            raise self._refused(f"the expansion `{shown}`", _NO_SUBSTITUTION)

    def _peek(self, ahead: int = 0) -> str:
        at = self._at + ahead
        return self._text[at] if at < len(self._text) else ""

    def _unbalanced(self, quote: str) -> CommandRefused:
        return CommandRefused(
            f"Refused: the quote {quote} is never closed.", "Close it, or escape it with a backslash."
        )

    def _refused(self, what: str, advice: str) -> CommandRefused:
        return CommandRefused(
            f"Refused: {what} {self._where}.", f"{advice} {self._advice} {POLICY_KEY}".strip()
        )


_NO_SUBSTITUTION = (
    "Nothing is expanded: run the command on its own and use its output (`printenv NAME` shows a variable), "
    "or put the text into single quotes."
)


def _kind(operator: str) -> str:
    if operator in ("|", "|&"):
        return "the pipe"
    if operator in ("&&", "||", ";", ";;", ";&"):
        return "the operator"
    return "running in the background with" if operator == "&" else "the redirection"
