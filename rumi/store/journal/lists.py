"""Steps of the lists that the people of a chat share, such as a shopping list."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias
from unicodedata import normalize

from rumi.platform.unaccented import unaccented
from rumi.store.journal.rows import put_row, row_json
from rumi.store.journal.scopes import of_chat
from rumi.store.journal.transaction import clean
from rumi.store.steps import Transaction, step

MOST_LISTS: Final = 50
"""Maximum number of lists of a chat."""

MOST_ITEMS: Final = 200
"""Maximum number of items of a list."""

NAME_CHARS: Final = 40
"""Maximum length of a person's name beside an item, in characters."""

Full: TypeAlias = Literal["", "lists", "items"]
"""The limit that a change would exceed; empty if it exceeds none."""


@dataclass(frozen=True, slots=True)
class ListItem:
    """An item of a list. `author` and `ticker` are names that people have chosen, empty if unknown.

    `user` is the source's number of the author. `tainted` is True if the text may contain untrusted content.
    """

    id: int
    text: str
    author: str = ""
    ticked: bool = False
    ticker: str = ""
    user: int | None = None
    tainted: bool = False


@dataclass(frozen=True, slots=True)
class ListEntry:
    """A list of a chat: its name, and the numbers of its open items and of all its items."""

    name: str
    open: int
    all: int


@dataclass(frozen=True, slots=True)
class ListChange:
    """A change of a list. Items to change are named by position, by `#` and id, or by their text.

    `clear` removes the ticked items, and `delete` all of them. `by` identifies the message or the turn that
    asks for the change. With `once`, a message that is handled twice changes the list once.
    """

    by: str
    add: tuple[str, ...] = ()
    tick: tuple[str, ...] = ()
    untick: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    clear: bool = False
    delete: bool = False
    user: int | None = None
    tainted: bool = False
    once: bool = True

    def having(self, **fields: Any) -> "ListChange":
        """Return a copy with other fields."""
        return replace(self, **fields)


@dataclass(frozen=True, slots=True)
class ChangedList:
    """A list after a change: its `items`, the texts of `removed` items, and names that fit no item.

    `full` is the limit that prevented the change; then nothing has changed. `position` is that of the item
    that was changed last, from 1; 0 if none was.
    """

    items: tuple[ListItem, ...]
    removed: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    full: Full = ""
    position: int = 0


@step(reads=True)
def lists_of(transaction: Transaction, chat: str) -> tuple[ListEntry, ...]:
    """Return the lists of a chat, by name."""
    rows = transaction.db.execute(
        "SELECT list, count(*) FILTER (WHERE ticked IS NULL), count(*) FROM list_items WHERE chat = ?"
        " GROUP BY list ORDER BY list",
        (chat,),
    )
    return tuple(ListEntry(str(name), open_, all_) for name, open_, all_ in rows)


@step(reads=True)
def items_of(transaction: Transaction, chat: str, name: str) -> tuple[ListItem, ...]:
    """Return the items of a list in the order in which they were added. An unknown list has no items."""
    rows = transaction.db.execute(
        "SELECT id, text, author, ticked, ticker, user, tainted FROM list_items WHERE chat = ? AND list = ?"
        " ORDER BY id",
        (chat, clean(name)),
    )
    return tuple(
        ListItem(id, text, author, ticked is not None, ticker, user, bool(tainted))
        for id, text, author, ticked, ticker, user, tainted in rows
    )


@step(of_chat)
def change_list(transaction: Transaction, chat: str, name: str, change: ListChange) -> ChangedList:
    """Change a list and return it. Several changes at once apply one after the other, so none gets lost.

    An added text that the list has already is not added again; if it is ticked, its tick is removed. A change
    that would exceed a limit has no effect.
    """
    name = clean(name)
    work = _Changing(transaction, chat, name, replace(change, by=clean(change.by)))
    items = items_of.do(transaction, chat, name)
    if change.once and work.done_before():
        return ChangedList(items)
    if full := work.exceeds(items):
        return ChangedList(items, full=full)
    work.apply(items)
    items = items_of.do(transaction, chat, name)
    position = next((at for at, item in enumerate(items, 1) if item.id == work.last), 0)
    return ChangedList(items, tuple(work.removed), tuple(work.unknown), position=position)


@dataclass(slots=True)
class _Changing:
    """Applies one change within a transaction. `last` is the id of the item that was changed last."""

    transaction: Transaction
    chat: str
    name: str
    change: ListChange
    removed: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    last: int = 0

    def done_before(self) -> bool:
        found = self.transaction.db.execute(
            "SELECT EXISTS (SELECT 1 FROM list_changes WHERE turn = ? AND chat = ?)",
            (self.change.by, self.chat),
        )
        return bool(found.fetchone()[0])

    def exceeds(self, items: Sequence[ListItem]) -> Full:
        if not self.change.add:
            return ""
        known = {_same(item.text) for item in items}
        new = len({_same(text) for text in self.change.add} - known)
        if len(items) + new > MOST_ITEMS:
            return "items"
        if items:
            return ""
        (lists,) = self.transaction.db.execute(
            "SELECT count(DISTINCT list) FROM list_items WHERE chat = ?", (self.chat,)
        ).fetchone()
        return "lists" if lists >= MOST_LISTS else ""

    def apply(self, items: Sequence[ListItem]) -> None:
        change = self.change
        # All items are found before the first one goes: positions are those that a person has seen.
        ticked, unticked, gone = (
            self._found(items, named) for named in (change.tick, change.untick, change.remove)
        )
        for item in ticked:
            self._tick(item)
        for item in unticked:
            self._untick(item)
        if change.delete:
            gone = list(items)
        elif change.clear:
            gone += [item for item in items if item.ticked and item not in gone]
        for item in gone:
            self._remove(item)
        for text in change.add:
            self._add(text)

    def _found(self, items: Sequence[ListItem], named: Sequence[str]) -> list[ListItem]:
        found = list[ListItem]()
        for words in named:
            item = found_item(items, words)
            if item is None:
                self.unknown.append(words)
            elif item not in found:
                found.append(item)
        return found

    def _tick(self, item: ListItem) -> None:
        # Who ticked it first stays: of two people who press at once, both did it.
        self._update(
            item.id,
            "UPDATE list_items SET ticked = ?, ticker = ? WHERE id = ? AND ticked IS NULL",
            (self.transaction.now(), self._person()),
        )

    def _untick(self, item: ListItem) -> None:
        self._update(item.id, "UPDATE list_items SET ticked = NULL, ticker = '' WHERE id = ?", ())

    def _remove(self, item: ListItem) -> None:
        self._update(item.id, "DELETE FROM list_items WHERE id = ?", ())
        self.removed.append(item.text)

    def _add(self, text: str) -> None:
        text = clean(text)
        for item in items_of.do(self.transaction, self.chat, self.name):
            if _same(item.text) == _same(text):
                if item.ticked:
                    self._untick(item)
                return
        change = self.change
        (id,) = self.transaction.db.execute(
            "INSERT INTO list_items (chat, list, text, author, added, user, tainted)"
            " VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING id",
            (
                *(self.chat, self.name, text, self._person(), self.transaction.now()),
                *(change.user, change.tainted),
            ),
        ).fetchone()
        self._note(id, None)

    def _update(self, id: int, sql: str, values: tuple[object, ...]) -> None:
        before = row_json(self.transaction, "list_items", id)
        self.transaction.db.execute(sql, (*values, id))
        self._note(id, before)

    def _note(self, id: int, before: str | None) -> None:
        """Record the change of an item, with which an undo restores it."""
        self.last = id
        self.transaction.db.execute(
            "INSERT INTO list_changes (turn, chat, item, before, after, created) VALUES (?, ?, ?, ?, ?, ?)",
            (
                *(self.change.by, self.chat, id, before, row_json(self.transaction, "list_items", id)),
                self.transaction.now(),
            ),
        )

    def _person(self) -> str:
        """Return what the person who makes the change is called in the chat; empty if that is unknown."""
        found = self.transaction.db.execute(
            "SELECT name FROM members WHERE chat = ? AND user = ?", (self.chat, self.change.user)
        ).fetchone()
        return "" if found is None else str(found[0])[:NAME_CHARS]


def found_item(items: Sequence[ListItem], words: str) -> ListItem | None:
    """Return the item that a person or a model names; None if none or several fit."""
    words = words.strip()
    number = words.removeprefix("#")
    if number.isdecimal() and len(number) <= 18:
        if words.startswith("#"):
            return next((item for item in items if item.id == int(number)), None)
        if 1 <= int(number) <= len(items):
            return items[int(number) - 1]
    key = _key(words)
    same = [item for item in items if _same(item.text) == _same(words)]
    same = same or [item for item in items if _key(item.text) == key]
    part = same or [item for item in items if key and key in _key(item.text)]
    return part[0] if len(part) == 1 else None


def _key(text: str) -> str:
    return " ".join(unaccented(text).split())


def _same(text: str) -> str:
    """Return a form that is equal for two spellings of one item.

    Latin letters are often written without their accents. In other scripts a mark makes another letter.
    """
    key = _key(text)
    return key if key.isascii() else " ".join(normalize("NFC", text.casefold()).split())


def restore_items(transaction: Transaction, turn: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Restore the list items that a turn changed, the last change first.

    Return the texts of the restored items, and of those that were changed again after the turn and stay.
    """
    rows = transaction.db.execute(
        "SELECT item, before, after FROM list_changes WHERE turn = ? ORDER BY id DESC", (turn,)
    ).fetchall()
    back, kept = dict[int, str](), dict[int, str]()
    for id, before, after in rows:
        text = str(json.loads(before or after or "{}").get("text", ""))
        if id in kept or row_json(transaction, "list_items", id) != after:
            kept[id] = text
        elif before is None:
            transaction.db.execute("DELETE FROM list_items WHERE id = ?", (id,))
            back[id] = text
        else:
            put_row(transaction, "list_items", id, before)
            back[id] = text
    transaction.db.execute("DELETE FROM list_changes WHERE turn = ?", (turn,))
    return tuple(back[id] for id in sorted(back.keys() - kept.keys())), tuple(kept.values())
