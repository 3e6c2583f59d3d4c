"""The input of a turn: instructions, facts about the user, skills, tools, and the history.

Each prompt begins with the complete previous one. The beginning changes only when old messages are
summarized, or cut because no summary could be written; see `rumi.chats.session`.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import trio

from actors import ActorError
from rumi.agent.breakers import TurnLimits
from rumi.agent.fitting import complete
from rumi.agent.permissions.consent import own_words
from rumi.agent.permissions.gate import Confirm, Parking
from rumi.agent.permissions.intent import declaring
from rumi.agent.prompts.prompt_notes import PromptNotes, group_block, next_note, whole_note
from rumi.agent.prompts.prompt_notes import shown as shown_entries
from rumi.agent.prompts.prompts import Prompts, built_in
from rumi.agent.skills.actor import AskSkills
from rumi.agent.skills.command import skills_command
from rumi.agent.skills.messages import ForPrompt
from rumi.agent.skills.prompt import skills_block
from rumi.agent.tool import Tool
from rumi.agent.turn_input import KeepOutput, TurnInput, without_keeping
from rumi.chats.people.people import People
from rumi.chats.session import ChatSession, HistoryBudget
from rumi.chats.summing import shown
from rumi.chats.surroundings import Surroundings, SurroundingsNote
from rumi.errors import RumiError
from rumi.memory.actor import AskMemory
from rumi.memory.block import Block, memory_block
from rumi.memory.command import memory_command
from rumi.memory.messages import Fact
from rumi.memory.rows import facts_of, shared_with
from rumi.models.fitting import request_tokens
from rumi.models.model import Message, Model, ModelRequest
from rumi.models.token_budget import context_of, prompt_share, takes_pictures
from rumi.platform.chat_ids import ChatIds
from rumi.platform.config.providers import OFFLINE
from rumi.platform.config.schema import GroupSection, Settings
from rumi.platform.file_kinds import is_viewable
from rumi.platform.texts import replies as reply_texts
from rumi.platform.texts.translation import error_text
from rumi.platform.zones import local_at
from rumi.store.journal.records import Attachment, Incoming
from rumi.texts import Language, Text, gettext
from rumi.web.readers.files.viewer import Seen

logger = logging.getLogger(__name__)

FACTS_S = SKILLS_S = 5.0
"""Maximum wait of a turn for the memory, and for the skills, in seconds; then the turn runs without them."""

FACTS_TOKENS = 2000
FACTS_SHARE = 1 / 8
"""Maximum size of the facts in a prompt: a number of tokens and, for small models, a share of the context."""

SKILLS_SHARE = 1 / 6
"""Maximum share of a model's context for skills: small models get shorter descriptions."""


@dataclass(frozen=True, slots=True)
class ChatView:
    """The state of a chat as its tools see it. Tools are created for one turn and read the state when called.

    `tainted` is true if the session has read untrusted content, `files_tainted` if the chat's files may
    contain untrusted content. `language` is the language of the turn's message.
    """

    chat: str
    tainted: Callable[[], bool]
    language: Callable[[], Language]
    files_tainted: Callable[[], bool] = lambda: False
    model: Callable[[], str] = lambda: ""
    """Returns the name of the model chosen for the turn; empty for the default model."""
    project: Callable[[], str] = lambda: ""
    """Returns the project folder whose skills are also available to the turn; empty for none."""
    messages: Callable[[], Sequence[Message]] = lambda: ()
    """Returns the session's messages so far, without tainted user messages, which others wrote."""
    mark_files_tainted: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint
    """Taints the chat's files. Await it before untrusted content is written to them."""
    touch_files: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint
    """Await it before and after a change of the chat's files by anything but a command; it may taint them."""
    user: Callable[[], int | None] = lambda: None
    """Returns the id of the sender in the chat's source."""
    sender_model: Callable[[], Model] | None = None
    """Returns the model whose calls are charged to the sender."""
    turn: str = ""
    """The turn's id: changes that tools record under it can be undone."""
    said_at: Callable[[], float] = lambda: 0.0
    """Returns the time when the turn's message was written, in seconds since 1970; 0 if it is unknown."""
    zone: Callable[[], str] = lambda: ""
    """Returns the time zone of the chat's owner; empty if it is unknown."""


@dataclass(frozen=True, slots=True)
class PromptNote:
    """A note in the prompt with the date, the surroundings, facts about the user, and skills.

    The note is empty if earlier notes in the prompt already contain all of this. `tainted` is true if this
    note or an earlier one shows text that strangers wrote.
    """

    note: str
    tainted: bool


@dataclass(frozen=True, slots=True)
class ChatContext:
    """Everything that the turns of all chats need: models, limits, tools, memory, skills and prompts."""

    model_for: Callable[[str, Language, str], Model]
    """Returns a chat's model by chat id, language and model name; an empty name means the default model.
    Raises a `RumiError` if the model cannot be used."""
    settings: Settings
    context_tokens: int
    """The size of the first model's context, in tokens."""
    language: Language
    """The configured language, for messages without one."""
    ids: ChatIds
    now: Callable[[], float]
    bring: Callable[[str, Attachment], Awaitable[str]]
    """Fetches an attachment and returns the text about it for the model. Raises a `RumiError` if it fails."""
    seen_of: Callable[[str, str, int], Awaitable[Seen]] | None = None
    """Returns the text and pictures that a model gets of an attached file.

    Its arguments are the chat, the text from `bring`, and the maximum number of characters. If None, the
    model gets only the text from `bring`.
    """
    view: Callable[[str, str], Awaitable[Seen | None]] | None = None
    """Reads a file by its path in a chat's workspace; returns text and pictures for the model."""
    can_view: Callable[[bytes, str], bool] = is_viewable
    """Returns True if `view` can view a file with these first bytes and this path."""
    load: Callable[[str, Sequence[Message], bool], Awaitable[Sequence[Message]]] | None = None
    """Returns a chat's messages with the bytes of their pictures, if the model takes pictures."""
    show: Callable[[str, Sequence[str]], Awaitable[None]] | None = None
    """Shows files of a chat's workspace to its users, if its channel has a way to do that."""
    sighted: tuple[str, ...] = ()
    """Names of configured models that accept pictures."""
    tools_for: Callable[[ChatView], tuple[Tool, ...]] = field(default=lambda view: ())
    """Returns the tools of a chat, except the tools of its sandbox."""
    tools_ready: Callable[[str, str], Awaitable[Sequence[Text]]] | None = None
    """Waits, for a limited time, for tools that are starting and that a message may need.

    Its arguments are the text of the message and the chat. Returns what the chat's users have to know.
    """
    memory: AskMemory | None = None
    """The memory actor; None if turns get no facts."""
    choose: Callable[[str, Sequence[Fact], float, str], Sequence[Fact]] | None = None
    """Returns the facts that are relevant to a text, the best first; called only if not all facts fit.

    Its other arguments are the present time and the owner's time zone.
    """
    skills: AskSkills | None = None
    """The skills actor; None if turns get no skills."""
    channel_of: Callable[[str], str] = lambda chat: ""
    """Returns the name of the channel that a chat belongs to."""
    group_of: Callable[[str], GroupSection] = lambda chat: GroupSection()
    """Returns the settings of the group that a chat belongs to; the defaults for other chats."""
    instructions: str = ""
    """The beginning of every prompt of every chat, constant while the process runs."""
    prompts: Prompts = field(default_factory=lambda: Prompts(built_in()))
    thinks: bool = False
    """True unless the default model is the offline stand-in, which cannot extract facts from sessions."""
    own_model: str = ""
    """The name of the default model of this process."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Aliases of models; messages carry the real names."""
    surroundings: Surroundings | None = None
    """Looks at a chat's time zone, files and budgets; None if turns are told only the date."""
    people: People = field(default_factory=People)
    """The senders and their rights."""
    sender_model: Callable[[Incoming, Language], Model] | None = None
    """Returns a message's model, whose calls are charged to the sender. If None, the chat's model is used."""

    def model_of(self, message: Incoming, language: Language) -> Model:
        """Return the model to use for a message: one that the role of the message's sender allows.

        Raises:
            RumiError: the model cannot be used.
        """
        if self.sender_model is not None:
            return self.sender_model(message, language)
        chosen = self.people.of(message).rights.model(message.model, self.own_model)
        return self.model_for(message.chat, language, chosen)

    def sums_up(self, model: str) -> bool:
        """Return True if the model of this name can write summaries, and answer requests of the program.

        An empty name is the default model.
        """
        return model != OFFLINE if model else self.thinks

    async def zone(self, chat: str) -> str:
        """Return the time zone of a chat's owner; empty if it is unknown."""
        return "" if self.surroundings is None else await self.surroundings.zone(chat)

    async def what_is_known(
        self,
        message: Incoming,
        model: Model,
        language: Language,
        noted: PromptNotes,
        *,
        zone: str = "",
        tainted: bool = False,
        files_tainted: bool = False,
    ) -> PromptNote:
        """Return the prompt note for a turn, with all information that the notes in `noted` lack.

        `zone` is the owner's time zone; `tainted` and `files_tainted` are the taint of the session and of the
        chat's files.

        Never raise an expected error: if the memory or the skills service does not answer, the note omits the
        facts or skills, and a later note contains them.
        """
        channel = self._channel(message)
        tokens = context_of(model, self.context_tokens)
        facts = await self._facts(message, language, tokens, noted, zone)
        skills, skills_tainted = await self._skills(message, tokens, noted)
        around = SurroundingsNote()
        if self.surroundings is not None:
            around = await self.surroundings.note(
                message.chat,
                self.turn_limits(message),
                noted.environment,
                context_tokens=tokens,
                tainted=tainted,
                files_tainted=files_tainted,
            )
        form = self.prompts.form(channel) if channel != noted.channel else ""
        now = local_at(self.now(), zone)
        group = group_block(noted, self.group_of(message.chat).note)
        note = next_note(noted, now, zone, form, group, skills, facts.text, *around.blocks)
        return PromptNote(note, facts.tainted or skills_tainted or around.tainted)

    async def _facts(
        self, message: Incoming, language: Language, context_tokens: int, noted: PromptNotes, zone: str
    ) -> Block:
        chat = message.chat
        if self.memory is None:
            return Block()
        try:
            with trio.move_on_after(FACTS_S):
                facts = await self.memory(facts_of(self.ids.owner_of(chat)))
                facts += await self._shared(chat)
                most = min(FACTS_TOKENS, int(context_tokens * FACTS_SHARE))
                most_facts = self.settings.memory.max_facts
                first = None
                if self.choose is not None and len(facts) > most_facts:
                    first = self.choose(message.text, facts, self.now(), zone)
                return memory_block(
                    language, facts, max_facts=most_facts, max_tokens=most, noted=noted.facts, first=first
                )
            logger.warning("chat %s: a turn without facts: the memory is silent", chat)
        except RumiError as error:
            logger.warning("chat %s: a turn without facts: %s", chat, error)
        return Block()

    async def _shared(self, chat: str) -> tuple[Fact, ...]:
        """Return the facts that people have shared with a group, each with its owner's name in the key."""
        if self.memory is None or not self.ids.may_be_group(chat):
            return ()
        shared = await self.memory(shared_with(self.ids.owner_of(chat)))
        names = ((self.people.name_of(owner), fact) for owner, fact in shared)
        return tuple(replace(fact, key=f"{name}: {fact.key}") for name, fact in names if name)

    async def _skills(self, message: Incoming, context_tokens: int, noted: PromptNotes) -> tuple[str, bool]:
        chat, limit = message.chat, self.settings.skills.max_in_prompt
        if self.skills is None or limit < 1:
            return "", False
        try:
            with trio.move_on_after(SKILLS_S):
                names = tuple(noted.skills or ())
                found = await self.skills(ForPrompt(message.text, limit, names, message.project))
                most = int(context_tokens * SKILLS_SHARE)
                return skills_block(found, most, noted.skills), found.tainted
            logger.warning("chat %s: a turn without skills: nobody says which there are", chat)
        except (RumiError, ActorError) as error:
            logger.warning("chat %s: a turn without skills: %s", chat, error)
        return "", False

    async def about_memory(self, chat: str, language: Language, rest: str) -> str:
        """Run a `/memory` command with the arguments `rest`; return the reply in Markdown.

        Wait for the memory at most `FACTS_S` seconds.
        """
        if self.memory is None:
            return reply_texts.not_yet(language, "/memory")
        try:
            with trio.move_on_after(FACTS_S):
                zone = await self.zone(chat)
                return await memory_command(self.memory, self.ids.owner_of(chat), language, rest, zone)
        except RumiError as error:
            return f"❌ {error_text(language, error)}"
        return f"❌ {gettext(language, 'The memory does not answer. Try again in a moment.')}"

    async def about_skills(self, message: Incoming, language: Language, rest: str) -> str:
        """Run a `/skills` command with the arguments `rest`; return the reply in Markdown.

        Wait for the skills service at most `SKILLS_S` seconds.
        """
        if self.skills is None:
            return reply_texts.not_yet(language, "/skills")
        try:
            with trio.move_on_after(SKILLS_S):
                return await skills_command(self.skills, language, rest, message.project)
        except (RumiError, ActorError) as error:
            logger.warning("the skills do not answer: %s", error)
        return f"❌ {gettext(language, 'The skills do not answer. Try again in a moment.')}"

    def turn_limits(self, message: Incoming) -> TurnLimits:
        """Return the limits on a message's turn. They depend on the message's channel."""
        agent, channel = self.settings.agent, self._channel(message)
        # A turn that may go on by itself needs no closing answer at the first limit, and keeps its running
        # calls: its limits are so much higher.
        times = 1 + self.settings.limits.continuations
        return TurnLimits(
            agent.max_turns_of(channel) * times,
            agent.repeated_call,
            agent.consecutive_errors,
            agent.timeout_s_of(channel) * times,
        )

    def _channel(self, message: Incoming) -> str:
        return message.channel or self.channel_of(message.chat)

    async def fit_history(self, chat_session: ChatSession, tools: Sequence[Tool], model: Model) -> None:
        """Cut the history if it would not fit the prompt, because no summary was ready in time."""
        gone = self.measure(chat_session, tools, model).too_long(chat_session.entries)
        if gone:
            chat = chat_session.chat
            logger.info("chat %s: %d entries of its history are left out of prompts", chat, len(gone))
            await chat_session.cut(gone)

    def measure(self, chat_session: ChatSession, tools: Sequence[Tool], model: Model) -> HistoryBudget:
        """Set and return the budget of a session's history, for prompts with these tools."""
        budget = self._history_budget(*self._beginning(chat_session), tools, model)
        chat_session.budget = budget
        return budget

    def turn_input(
        self,
        chat_session: ChatSession,
        tools: Sequence[Tool],
        model: Model,
        language: Language,
        confirm: Confirm | None,
        limits: TurnLimits,
        parking: Parking | None = None,
        withheld: Mapping[str, str] | None = None,
        keep: KeepOutput = without_keeping,
        *,
        checks: bool = False,
    ) -> TurnInput:
        """Return the input of a turn whose question is the last message of the history.

        With `checks`, an answer after an unchecked change is asked for once more.
        """
        # Calculate the budget again: a cut in `fit_history` or a new prompt note may have changed the
        # beginning.
        instructions, before = self._beginning(chat_session)
        chat_session.budget = self._history_budget(instructions, before, tools, model)
        words = own_words(chat_session.said_in_turn)
        return TurnInput(
            instructions=instructions,
            history=(*before, *complete(shown_entries(chat_session.entries))),
            model=model,
            tools=tools,
            limits=limits,
            language=language,
            context_tokens=self.context_tokens,
            tainted=chat_session.tainted,
            known_urls=chat_session.known_urls,
            words=words,
            checks=words if checks else None,
            declare_for=declaring(model, self.prompts.words["intent"]),
            confirm=confirm,
            parking=parking,
            withheld=withheld or {},
            shortened=chat_session.shorten,
            keep=keep,
            look=partial(self._look, chat_session.chat, model),
        )

    async def _look(self, chat: str, model: Model, messages: Sequence[Message]) -> Sequence[Message]:
        """Return a prompt's messages, after adding the image data to their pictures."""
        if self.load is None:
            return messages
        return await self.load(chat, messages, takes_pictures(model))

    def _history_budget(
        self, instructions: str, before: tuple[Message, ...], tools: Sequence[Tool], model: Model
    ) -> HistoryBudget:
        """Return the token budget of prompts and the part that instructions and tools use."""
        first = ModelRequest((Message("system", instructions), *before), tuple(tool.spec for tool in tools))
        prompt_tokens = prompt_share(context_of(model, self.context_tokens))
        return HistoryBudget(prompt_tokens, request_tokens(first), self.settings.session.history_messages)

    def _beginning(self, chat_session: ChatSession) -> tuple[str, tuple[Message, ...]]:
        """Return the instructions with the full prompt note, and the summary as messages, if any."""
        parts = (self.instructions, whole_note(chat_session.entries))
        before = (shown(chat_session.summary),) if chat_session.summary is not None else ()
        return "\n\n".join(filter(None, parts)), before
