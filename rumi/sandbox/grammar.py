"""Parser of shell lines, with tree-sitter's grammar: simple commands, functions and redirections.

The grammar differs from bash. If its tree treats text as plain that bash may interpret, the line is refused
instead of guessed: see `_Walk`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from time import monotonic
from typing import TYPE_CHECKING, Final

from rumi.sandbox.words import CommandRefused, ShellWord, literal
from rumi.texts import Text

if TYPE_CHECKING:
    from tree_sitter import Node, Parser, Point

PARSE_S: Final = 0.5
SIMPLER: Final = Text("Write it more simply, or put it into a script file.")
MAX_FUNCTIONS: Final = 100
MAX_PIPES: Final = 2000
"""Maximum number of `|`: after a syntax error, the parser needs time quadratic in it, uninterruptibly."""

_ORDINARY: Final = bytes(byte if byte < 0x80 else 2 for byte in range(256))
_BLANKS: Final = re.compile(rb"(?:[ \t\n]|\\\n)*")
_JOINED: Final = re.compile(rb"\\\n")
_JOINS: Final = b" \t\n;&|()"
_SUBSTITUTION: Final = re.compile(rb"(?<!\\)(?:\\\\)*(?:\$\(|`|[<>]\()")
_QUOTED_SUBSTITUTION: Final = re.compile(rb"(?<!\\)(?:\\\\)*(?:\$\(|`)")
_METACHARACTER: Final = re.compile(rb"(?<!\\)(?:\\\\)*[ \t\n\r\v\f;&|<>()]")
_UNESCAPED: Final = re.compile(rb"\\([$`\\])")
_SPACE: Final = b"\x01"
"""Placeholder for an escaped space, which the grammar mistakes for the end of a word."""
_DASH: Final = re.compile(rb"(?<=[ \t])-(?=[ \t]*<<)")
"""The word `-` before a here-document (`python3 - <<'END'`), which the grammar drops. It gets another word of
the same length; words are read from the line itself."""
_ESCAPED_SPACE: Final = re.compile(rb"(?<!\\)((?:\\\\)*)\\ ")
_ONE_LINE: Final = frozenset(
    ("command", "declaration_command", "unset_command", "file_redirect", "herestring_redirect")
)
_SIMPLE: Final = frozenset(("command", "declaration_command", "unset_command", "test_command"))

_END_WORD: Final = re.compile(rb"[\w.+!-]+|'[\w.+! -]+'|\"[\w.+! -]+\"|\\[\w.+!-]+")
_ARITHMETIC: Final = re.compile(rb"\$\(\([\w \t+*/%<>=!&|^~?:,.$\[\]{}#-]*\)\)")
_DESCRIPTOR: Final = re.compile(r"\{[A-Za-z_]\w*\}")
_GROUPS: Final = frozenset(
    ("program", "compound_statement", "subshell", "do_group", "case_item", "else_clause", "elif_clause")
) | {"command_substitution", "process_substitution"}


@dataclass(frozen=True, slots=True)
class Redirection:
    """A redirection. `target` is None for here-documents and closed descriptors."""

    operator: str
    target: ShellWord | None
    program: str | None
    """The redirected program's name: empty if there is no command, None for a group of commands."""


@dataclass(slots=True)
class SimpleCommand:
    """A simple command: its words without redirections, and its offset in the script.

    `assigns` is True if assignments precede the words.
    """

    words: list[ShellWord]
    at: int
    in_function: bool
    assigns: bool = False
    redirections: list[Redirection] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Function:
    """A function that a script defines. It can be called after its definition, in the same command group."""

    name: str
    at: int
    until: int

    def known_to(self, command: SimpleCommand) -> bool:
        """Return True if the command can call this function; in a function, even before the definition."""
        return command.at < self.until and (command.at >= self.at or command.in_function)


@dataclass(frozen=True, slots=True)
class Script:
    """The parts of a parsed line. `more` holds texts in backticks, which bash unescapes and parses again.

    `plain` is True if the line is a single simple command of literal words. `asynchronous` is True if it
    starts commands with `&`.
    """

    commands: tuple[SimpleCommand, ...]
    functions: tuple[Function, ...]
    redirections: tuple[Redirection, ...]
    more: tuple[str, ...]
    plain: bool
    asynchronous: bool


def read(line: str) -> Script:
    """Parse a shell line.

    Raises:
        CommandRefused: The grammar cannot parse the line, or not reliably.
    """
    if line.count("|") > MAX_PIPES:
        raise CommandRefused(
            "Refused: more than {max_pipes} `|` in one line.",
            "Give long text as `stdin`.",
            max_pipes=MAX_PIPES,
        )
    if _SPACE.decode() in line:  # it would be mistaken for the placeholder
        raise CommandRefused("Refused: the character U+0001 in the line.", r"Write it as `$'\x01'`.")
    source = line.encode()
    if (len(source) - len(source.rstrip(b"\\"))) % 2:
        source += b"\\"  # to bash a backslash at the end is text; the grammar reports an error
    source = _ESCAPED_SPACE.sub(rb"\1\\" + _SPACE, source)
    if b"time" in source or b"coproc" in source:
        source = _without_keywords(source)
    root = _parsed(source)
    return _Walk(source, root).script()


@cache
def _parser() -> "Parser":
    # Imported here, because that takes 15 ms, and most processes check no command.
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


def _parsed(source: bytes) -> "Node":
    until = monotonic() + PARSE_S
    # To bash, all characters beyond ASCII are ordinary. The grammar treats some of them as blanks, and its
    # scanner reads beyond the end of a table for those above U+FFFF, which crashes the process.
    ascii_only = _DASH.sub(b"_", source.translate(_ORDINARY))

    def piece(at: int, _: "Point") -> bytes:
        return ascii_only[at : at + 65536]

    parser = _parser()
    try:
        tree = parser.parse(piece, progress_callback=lambda at, error: monotonic() > until)
    except ValueError:
        parser.reset()  # otherwise the cached parser would resume this line at its next use
        raise CommandRefused(
            "Refused: the line is too complicated to read.", "Split it, or put it into a script file."
        ) from None
    return tree.root_node


_KEYWORD: Final = re.compile(
    rb"(?:time(?:[ \t]+-p)?(?:[ \t]+--)?|coproc(?:[ \t]+[A-Za-z_]\w*(?=[ \t]+[({]))?)"
    rb"(?=[ \t]+[^- \t]|[ \t]*\()"
)


def _without_keywords(source: bytes) -> bytes:
    """Replace the keywords `time` and `coproc`, which the grammar does not know, by blanks.

    Keywords are replaced only at the start of a command, because elsewhere they are ordinary words. Keywords
    that are nested deeper than three levels are treated as programs.
    """
    for _ in range(3):
        starts = {node.start_byte for node in _nodes(_parsed(source)) if node.type == "command_name"}
        found = [match for match in _KEYWORD.finditer(source) if match.start() in starts]
        for match in found:
            source = source[: match.start()] + b" " * len(match[0]) + source[match.end() :]
        if not found:
            break
    return source


def _nodes(root: "Node") -> Iterator["Node"]:
    """Yield every node, without recursion: a line may nest deeper than Python's stack allows."""
    cursor = root.walk()
    while True:
        node = cursor.node
        assert node is not None
        yield node
        if cursor.goto_first_child():
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return


_QUOTE_END: Final = Text("Quote the end word (`<<'END'`), or write $(…) for backticks.")


def _unreadable(
    source: bytes, at: int, why: str = Text("I cannot read the line"), advice: str = SIMPLER
) -> CommandRefused:
    near = _text(source[at : at + 24]).strip().split("\n")[0] or Text("the end")
    return CommandRefused("Refused: {why} near `{near}`.", advice, why=why, near=near)


class _Walk:
    """Collects the parts of a script from its syntax tree, and refuses a script whose tree hides a part.

    Known faults of the grammar: it treats `\\r` and other blanks as spaces, splits a word at a backslash and
    newline, and leaves backticks in here-documents and some expansions as text. Therefore every byte between
    two nodes must be a blank in bash too, and no text may contain the start of a substitution.
    """

    def __init__(self, source: bytes, root: "Node") -> None:
        self._source = source
        self._root = root
        self._commands: dict[int, SimpleCommand] = {}
        self._functions: list[Function] = []
        self._bodies_until = 0
        self._redirections: list[Redirection] = []
        self._more: list[str] = []
        self._asynchronous = False
        self._until = 0
        """End of text in which bash expands nothing, or only arithmetic; nodes before it are skipped."""

    def script(self) -> Script:
        root = self._root
        if root.has_error:
            faulty = next((node for node in _nodes(root) if node.is_error or node.is_missing), root)
            raise _unreadable(self._source, faulty.start_byte)
        self._blanks(0, root.start_byte, "program")
        self._blanks(root.end_byte, len(self._source), "program")
        for node in _nodes(root):
            if node.start_byte >= self._until:
                self._look(node)
        commands = tuple(self._commands.values())
        only = root.named_children
        plain = (
            len(only) == len(commands) == 1
            and only[0].type in _SIMPLE
            and root.child_count == 1
            and not commands[0].assigns
            and not commands[0].redirections
            and all(word.text is not None for word in commands[0].words)
        )
        return Script(
            commands,
            tuple(self._functions),
            tuple(self._redirections),
            tuple(self._more),
            plain,
            self._asynchronous,
        )

    def _look(self, node: "Node") -> None:
        kind = node.type
        if node.child_count:
            self._between(node)
        elif node.is_named:
            self._leaf(node)
        match kind:
            case "&" if node.parent is not None and node.parent.type in (*_GROUPS, "if_statement"):
                self._asynchronous = True
            case "command" | "declaration_command" | "unset_command" | "test_command":
                self._command(node)
            case "function_definition":
                name = node.child_by_field_name("name")
                text = literal(self._text(name)) if name is not None else None
                if text is None:
                    raise _unreadable(self._source, node.start_byte)
                self._bodies_until = max(self._bodies_until, node.end_byte)
                parent, following = node.parent or node, node.next_sibling
                # In the background only a subshell defines it; in a pipe or after `&&`, possibly no shell.
                if parent.type in _GROUPS and (following is None or following.type != "&"):
                    self._functions.append(Function(text, node.end_byte, parent.end_byte))
                if len(self._functions) > MAX_FUNCTIONS:
                    raise CommandRefused(
                        "Refused: too many functions in one line.", "Put them into a script file."
                    )
            case "file_redirect" | "heredoc_redirect" | "herestring_redirect":
                self._redirect(node)
            case "command_substitution":
                if _ARITHMETIC.fullmatch(self._bytes(node)):  # in here-documents
                    self._until = node.end_byte
                elif self._source.startswith(b"$((", node.start_byte):  # bash may read this as arithmetic
                    raise _unreadable(
                        self._source, node.start_byte, advice=Text("Write `$( (` for a subshell.")
                    )
                self._backticks(node)
            case "expansion":
                if b"@P}" in self._bytes(node):
                    raise _unreadable(self._source, node.start_byte, Text("`@P` expands text a second time"))
            case "variable_assignment":
                variable, _, value = self._text(node).partition("=")
                if variable == "BASH_ENV" or (variable == "PS4" and _SUBSTITUTION.search(value.encode())):
                    raise _unreadable(self._source, node.start_byte, "a variable that starts code")
            case "heredoc_body" if self._is_quoted(node):
                self._until = node.end_byte

    # Faults of the grammar

    def _between(self, node: "Node") -> None:
        """Check that the text between the children of a node hides nothing that bash interprets."""
        kind = node.type
        text = kind in ("heredoc_body", "string", "expansion", "simple_expansion")
        check = partial(self._text_between if text else self._blanks, kind=kind)
        before = node.start_byte
        for child in node.children:
            check(before, child.start_byte)
            before = child.end_byte
        check(before, node.end_byte)
        start = self._source[node.start_byte : node.start_byte + 2]
        if kind == "test_command" and start[:1] == b"[" and start != b"[[" and _newline(self._bytes(node)):
            raise _unreadable(self._source, node.start_byte)

    def _text_between(self, start: int, end: int, kind: str) -> None:
        pattern = _SUBSTITUTION if kind == "expansion" else _QUOTED_SUBSTITUTION
        if found := pattern.search(self._source[start:end]):
            advice = _QUOTE_END if kind == "heredoc_body" else SIMPLER
            raise _unreadable(self._source, start + found.start(), advice=advice)

    def _blanks(self, start: int, end: int, kind: str) -> None:
        gap = self._source[start:end]
        if not gap:
            return
        around = self._source[max(start - 1, 0) : start] + self._source[end : end + 1]
        # bash joins the texts on both sides of a backslash and newline.
        joined = not _JOINED.sub(b"", gap) and len(around) == 2 and not any(byte in _JOINS for byte in around)
        wrong = _BLANKS.fullmatch(gap) is None or (kind in _ONE_LINE and _newline(gap))
        if wrong or joined or kind == "concatenation":
            raise _unreadable(self._source, start)

    def _leaf(self, node: "Node") -> None:
        text, kind = self._bytes(node), node.type
        match kind:
            case "comment":
                before = self._source[node.start_byte - 1 : node.start_byte]
                wrong = b"\n" in text or (before != b"" and before not in _JOINS)
            case "raw_string" | "ansi_c_string":
                wrong = _QUOTED_SUBSTITUTION.search(text) is not None and _is_expanded(node)
                wrong = wrong or (kind == "raw_string" and text.count(b"'") != 2)
            case "heredoc_start":
                wrong = _END_WORD.fullmatch(text) is None
            case "heredoc_end":
                wrong = not self._ends(node)
            case "string_content" | "heredoc_content" | "heredoc_body":
                quoted = kind == "heredoc_body" and self._is_quoted(node)
                wrong = not quoted and _QUOTED_SUBSTITUTION.search(text) is not None
            case _:
                wrong = _SUBSTITUTION.search(text) is not None
                wrong = wrong or (kind == "word" and _METACHARACTER.search(text) is not None)
        if wrong:
            advice = _QUOTE_END if kind.startswith("heredoc") else SIMPLER
            raise _unreadable(self._source, node.start_byte, advice=advice)

    def _ends(self, end: "Node") -> bool:
        """Return True if bash ends the here-document at the same line as the grammar."""
        word = (
            next(child for child in end.parent.children if child.type == "heredoc_start")
            if end.parent
            else end
        )
        line = self._source[: end.end_byte].rpartition(b"\n")[2].lstrip(b"\t")
        following = self._source[end.end_byte : end.end_byte + 1]
        return line == self._bytes(word).strip(b"'\"\\") and following in (b"", b"\n", b")", b"`")

    def _is_quoted(self, body: "Node") -> bool:
        redirect = body.parent
        start = (
            next((child for child in redirect.children if child.type == "heredoc_start"), None)
            if redirect
            else None
        )
        return start is not None and any(quote in self._bytes(start) for quote in b"'\"\\")

    def _backticks(self, node: "Node") -> None:
        """Collect the text in backticks if bash removes backslashes from the text before parsing."""
        text = self._bytes(node)
        inside = text[1:-1]
        if text.startswith(b"`") and (unescaped := _UNESCAPED.sub(rb"\1", inside)) != inside:
            # In double quotes, bash also removes the backslashes before quotes.
            self._more += [_text(unescaped), _text(unescaped.replace(b'\\"', b'"'))]

    # Parts

    def _command(self, node: "Node") -> None:
        position = (node.start_byte, node.start_byte < self._bodies_until)
        if node.type == "test_command":
            words = [self._source[node.start_byte : node.start_byte + 2].decode().rstrip()]
            opening = words[0] if words[0] in ("[[", "((") else "["
            text = self._text(node)
            found = SimpleCommand([ShellWord(opening, opening), ShellWord(text, literal(text))], *position)
        else:
            found = SimpleCommand([], *position)
            for child in node.children:
                if child.type == "variable_assignment" and node.type == "command":
                    found.assigns = True
                elif child.type not in (
                    "file_redirect",
                    "herestring_redirect",
                    "heredoc_redirect",
                    "comment",
                ):
                    found.words.append(self._word(child))
        self._commands[node.id] = found

    def _redirect(self, node: "Node") -> None:
        """Record a redirection; append the words after its target to its command, as bash does."""
        targets = [
            child for i, child in enumerate(node.children) if node.field_name_for_child(i) == "destination"
        ]
        words = [child for i, child in enumerate(node.children) if node.field_name_for_child(i) == "argument"]
        operator = next((child.type for child in node.children if not child.is_named), "")
        if node.type == "herestring_redirect" or node.type == "heredoc_redirect":
            target = None
        elif operator in (">&-", "<&-"):
            target, words = None, targets
        else:
            target, words = (self._word(targets[0]) if targets else None), targets[1:]
        command = self._owner(node)
        bare = node.parent is not None and node.parent.child_by_field_name("body") is None
        program = "" if bare else None
        if command is not None:
            program = command.words[0].text if command.words else ""
        redirection = Redirection(operator, target, program)
        self._redirections.append(redirection)
        if command is not None:
            command.redirections.append(redirection)
            last = command.words[-1].raw if command.words else ""
            if _DESCRIPTOR.fullmatch(last) and self._source.endswith(last.encode(), 0, node.start_byte):
                command.words.pop()  # `{fd}> f`
            command.words.extend(map(self._word, words))
        elif words:
            raise _unreadable(self._source, words[0].start_byte)

    def _owner(self, redirect: "Node") -> SimpleCommand | None:
        """Return the simple command to which a redirection belongs; None if it belongs to a group."""
        parent = redirect.parent
        while parent is not None and parent.type == "heredoc_redirect":
            parent = parent.parent
        if parent is None:
            return None
        if parent.type == "redirected_statement":
            body = parent.child_by_field_name("body")
            while body is not None and body.type in (
                "pipeline",
                "list",
                "negated_command",
                "redirected_statement",
            ):
                named = [child for child in body.named_children if not child.type.endswith("redirect")]
                body = named[-1] if named else None
            return None if body is None else self._commands.get(body.id)
        return self._commands.get(parent.id)

    def _word(self, node: "Node") -> ShellWord:
        text = self._text(node)
        return ShellWord(text, literal(text))

    def _bytes(self, node: "Node") -> bytes:
        return self._source[node.start_byte : node.end_byte]

    def _text(self, node: "Node") -> str:
        return _text(self._bytes(node))


def _is_expanded(quoted: "Node") -> bool:
    """Return True for single quotes that don't quote in bash: in `"${x:-'…'}"` and in subscripts."""
    node = quoted.parent
    while node is not None and node.type not in _SIMPLE:
        arithmetic = node.type == "compound_statement" and node.children[0].type == "(("
        if arithmetic or node.type in (
            "expansion",
            "subscript",
            "arithmetic_expansion",
            "c_style_for_statement",
        ):
            return True
        node = node.parent
    return False


def _text(source: bytes) -> str:
    return source.replace(_SPACE, b" ").decode("utf-8", "replace")


def _newline(text: bytes) -> bool:
    """Return True if the text has a newline that is not escaped by a backslash."""
    return b"\n" in _JOINED.sub(b"", text)
