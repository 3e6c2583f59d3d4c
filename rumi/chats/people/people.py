"""Lookup of the person behind a message, a task or a schedule, and of their current rights."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from rumi.agent.permissions.rights import ADMIN, MEMBER, NOBODY, Rights, RightsError, may_do
from rumi.agent.tool import MaySave, Tool
from rumi.models.metering import Account
from rumi.platform.chat_ids import LOCAL, VIA, ChatIds
from rumi.store.journal.records import Incoming, ScheduleRecord, TaskRecord
from rumi.texts import Language, gettext

T = TypeVar("T", bound=Tool)

CHAT_TOOLS: Final = frozenset(
    {
        *("bash", "read_file", "edit_file", "write_file", "web_search", "web_fetch", "use_skill"),
        *("research", "research_repo", "delegate"),
    }
)
"""Chat tools that bots may also have; a bot gets only those that the person who started it may use."""


@dataclass(frozen=True, slots=True)
class Principal:
    """A person and their rights. `users` are the person's ids in a channel; budgets use the `name`."""

    name: str
    rights: Rights
    users: tuple[int, ...] = ()


OWNER: Final = Principal(LOCAL, ADMIN)
"""The owner of the home, who uses the terminal and the page."""


@dataclass(frozen=True, slots=True)
class People:
    """All people, found by their ids or names in channels. Without `ids`, all chats are the owner's.

    Rights are looked up when they are needed, so that the current rights also apply to messages stored
    earlier.
    """

    ids: ChatIds = field(default_factory=lambda: ChatIds(()))
    persons: Mapping[int, Principal] = field(default_factory=dict)
    named: Mapping[str, Principal] = field(default_factory=dict)
    """The people of channels whose chats have the names of people, by these names."""
    via: Mapping[str, Rights] = field(default_factory=dict)
    """The rights of the people on plugins' channels, by the prefix of the channel's chat ids."""

    @property
    def all(self) -> tuple[Principal, ...]:
        """Return everybody who may write through a channel, each person once."""
        return tuple({one.name: one for one in (*self.persons.values(), *self.named.values())}.values())

    def of(self, message: Incoming) -> Principal:
        """Return the person who sent a message, with current rights."""
        return OWNER if message.unattended else self._principal(message.chat, message.user)

    def decides_for_all(self, chat: str, user: int | None) -> bool:
        """Return True if the person with a user id in a chat may decide for all chats, and is alone there."""
        return not self.ids.may_be_group(chat) and self._principal(chat, user).rights.admin

    def of_schedule(self, schedule: ScheduleRecord) -> Principal:
        """Return the person who asked for a schedule."""
        return self._principal(schedule.owner, schedule.user)

    def of_task(self, task: TaskRecord) -> Principal:
        """Return the person who asked for a task."""
        return self._principal(task.owner, task.user)

    def _principal(self, chat: str, user: int | None) -> Principal:
        """Return the person with a user id in a chat.

        Without an id, a private chat belongs to its Telegram user. People on the channel of a plugin that is
        not enabled have no rights. A message has the rights of a member if an
        earlier version stored it, or if its channel has no users.
        """
        owner_id = self.ids.owner_of(chat)
        if owner_id == LOCAL:
            return OWNER
        if VIA.owns(chat):
            found = (rights for prefix, rights in self.via.items() if owner_id.startswith(prefix))
            return Principal(owner_id, next(found, NOBODY))
        if user is None:
            if name := self.ids.person_of(chat):
                return self.named.get(name) or Principal(name, NOBODY)
            owner = self.ids.user_of(chat)
            return Principal("", MEMBER) if owner is None else self.persons.get(owner, Principal("", MEMBER))
        return self.persons.get(user) or Principal(f"#{user}", NOBODY, (user,))

    def name_of(self, owner: str) -> str:
        """Return the name of the person whose facts are stored under `owner`; empty if unknown."""
        if name := self.ids.person_of(owner):
            return name if name in self.named else ""
        user = self.ids.user_of(owner)
        found = None if user is None else self.persons.get(user)
        return found.name if found is not None else ""

    # Messages

    def current(self, message: Incoming) -> Incoming:
        """Return a stored message with its `admin` flag updated to the current rights of the sender."""
        if not message.admin or self.of(message).rights.admin:
            return message
        return replace(message, admin=False)

    def refusal(
        self,
        message: Incoming,
        language: Language,
        name: str = "",
        rest: str = "",
        *,
        has_handler: bool = False,
    ) -> str:
        """Return the reason why a message is refused, or an empty text if it is allowed.

        With a `name`, the message is treated as the command of that name with the arguments `rest`; otherwise
        as a request to the model.
        """
        rights = self.of(message).rights
        group = self.ids.may_be_group(message.chat)
        if name:
            allowed = may_do(rights, name, rest, group=group, has_handler=has_handler)
        else:
            allowed = rights != NOBODY and not (message.schedule and rights.schedules == 0)
        if allowed:
            return ""
        if rights == NOBODY:
            return gettext(
                language,
                "🔒 You are not on the list any more, so I do not do what you asked for. Ask the owner.",
            )
        what = f"/{name}" if name else gettext(language, "scheduled work")
        return gettext(
            language,
            "🔒 Your role ({role}) does not allow {what}. /whoami says what you may do.",
            role=rights.role,
            what=what,
        )

    def may_retry(self, message: Incoming, earlier: Incoming) -> bool:
        """Return True if the sender of a message may retry an `earlier` message with the sender's rights.

        The earlier message must come from the same person, or from a person with the same rights. So a
        retried message has neither more rights nor fewer than before.
        """
        one, other = self.of(message), self.of(earlier)
        return one.name == other.name or one.rights == other.rights

    def may_approve(self, approver: Principal, schedule: ScheduleRecord) -> bool:
        """Return True if a person may approve calls for all runs of a schedule: its person, or an admin."""
        rights, person = approver.rights, self._principal(schedule.chat, schedule.user)
        return rights != NOBODY and (rights.admin or approver.name == person.name)

    def approver(self, chat: str, user: int | None) -> Principal:
        """Return the person with a user id in a chat, with current rights."""
        return self._principal(chat, user)

    def distrusts(self, message: Incoming) -> bool:
        """Return True if a message counts as untrusted for the other members of its group.

        It does if its sender has no right to change files.
        """
        return self.ids.may_be_group(message.chat) and not self.of(message).rights.changes_files

    # Turns and tasks

    def tools(self, message: Incoming, tools: Sequence[Tool]) -> tuple[tuple[Tool, ...], dict[str, str]]:
        """Return the tools that a turn may use, and the refusals that the model gets for all other tools.

        A role that may not change files gets tools that may save some in a form that only reads.
        """
        rights = self.of(message).rights
        if not rights.changes_files:
            tools = [tool.reading() if isinstance(tool, MaySave) else tool for tool in tools]
        mine = tuple([tool for tool in tools if rights.may_use(tool.spec.name)])
        if len(mine) == len(tools):
            return mine, {}
        others = {tool.spec.name for tool in tools} - {tool.spec.name for tool in mine}
        return mine, {name: rights.refusal(name) for name in others}

    def tools_of_task(self, task: TaskRecord, tools: Sequence[T]) -> tuple[T, ...]:
        """Return the tools of a task.

        A research task has separate tools. A bot gets only those chat tools that the person who started the
        bot may use.
        """
        rights = self.of_task(task).rights
        return tuple(
            tool
            for tool in tools
            if not task.bot or tool.spec.name not in CHAT_TOOLS or rights.may_use(tool.spec.name)
        )

    def account(self, message: Incoming) -> Account:
        """Return the account that pays for the model calls of a message's turn: that of the sender."""
        principal = self.of(message)
        owner = self.ids.owner_of(message.chat)
        return Account(message.chat, owner, person=principal.name, limits=principal.rights.limits)

    def account_of_task(self, task: TaskRecord, account: Account) -> Account:
        """Return the account that pays for a task's model calls, with the limits of the task's person.

        Raises:
            RightsError: the person's role does not allow such a task, or no longer does.
        """
        principal = self.of_task(task)
        rights = principal.rights
        tool = "research_repo" if task.kind == "repo" else "research"
        if not (rights.bots != 0 if task.bot else rights.may_use(tool)):
            what = "bots" if task.bot else tool
            raise RightsError(
                "The role {role} does not allow {what}.", "Ask an admin.", role=rights.role, what=what
            )
        return replace(account, person=principal.name, limits=(*account.limits, *rights.limits))

    def most_schedules(self, schedule: ScheduleRecord) -> tuple[int | None, tuple[int, ...]]:
        """Return how many schedules a schedule's person may have (None: no limit), and the person's ids."""
        principal = self.of_schedule(schedule)
        return principal.rights.schedules, principal.users

    def check_bots(self, task: TaskRecord, open_tasks: Sequence[TaskRecord]) -> None:
        """Check that the person who asked for a task may start one more bot than `open_tasks` has.

        Raises:
            RightsError: the person's role does not allow that many bots.
        """
        principal = self.of_task(task)
        most = principal.rights.bots
        if most is None:
            return
        theirs = [
            open_task
            for open_task in open_tasks
            if open_task.bot and self.of_task(open_task).name == principal.name
        ]
        if len(theirs) >= most:
            raise RightsError(
                "The role {role} allows {most} bots at once.",
                "Stop one first: /bots",
                role=principal.rights.role,
                most=most,
            )
