"""What a turn begins with: instructions, what is known about the user, skills, tools, and the history.

A prompt begins with all of the one before. Only a summary, or a cut where there is none, makes a new
beginning; see `rumi.chats.session`.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial

import trio

from actors import ActorError
from rumi.agent.breakers import TurnLimits
from rumi.agent.fitting import complete
from rumi.agent.permissions.consent import own_words
from rumi.agent.permissions.gate import Confirm, Parking
from rumi.agent.permissions.intent import declaring
from rumi.agent.prompts.prompt_notes import PromptNotes, next_note, whole_note
from rumi.agent.prompts.prompt_notes import shown as shown_entries
from rumi.agent.prompts.prompts import Prompts, built_in
from rumi.agent.skills.actor import AskSkills
from rumi.agent.skills.command import skills_command
from rumi.agent.skills.messages import ForPrompt
from rumi.agent.skills.prompt import skills_block
from rumi.agent.tool import Tool
from rumi.agent.turn import TurnInput
from rumi.chats.people.people import People
from rumi.chats.session import ChatSession, HistoryBudget
from rumi.chats.summing import shown
from rumi.errors import RumiError
from rumi.memory.actor import AskMemory
from rumi.memory.block import Block, memory_block
from rumi.memory.command import memory_command
from rumi.memory.messages import Fact, Facts, Shared
from rumi.models.fitting import request_tokens
from rumi.models.model import Message, Model, ModelRequest
from rumi.models.token_budget import context_of, prompt_share, takes_pictures
from rumi.platform.chat_ids import ChatIds
from rumi.platform.config.providers import OFFLINE
from rumi.platform.texts import replies as reply_texts
from rumi.platform.texts.language import Language
from rumi.platform.texts.translation import error_text, translate
from rumi.store.journal.records import Attachment, Incoming
from rumi.web.readers.files.viewer import Seen

logger = logging.getLogger(__name__)

FACTS_S = SKILLS_S = 5.0
"""How long a turn waits for the memory, and for the skills. Without them it is as on the first day."""

FACTS_TOKENS = 2000
FACTS_SHARE = 1 / 8
"""How much the facts may take: so many tokens, and no more than that of a small model's context."""

SKILLS_SHARE = 1 / 6
"""How much of a model's context the skills may take: one that takes little gets shorter descriptions."""


@dataclass(frozen=True, slots=True)
class ChatLimits:
    """What holds for every chat. Times in seconds. `history_messages` bounds nothing where it is None.

    `turn_of` has the limits of turns by the name of the channel that their message came through; `turn` are
    those of all other turns.
    """

    turn: TurnLimits
    session_ttl_s: float
    history_messages: int | None
    context_tokens: int
    confirm_timeout_s: float = 600.0
    max_facts: int = 50
    max_skills: int = 20
    handed_chars: int = 50_000
    """How much of what a message hands on, in others' words, is kept."""
    turn_of: Mapping[str, TurnLimits] = field(default_factory=dict)
    max_queued: int = 0
    """How many messages wait while a turn runs; 0: each is told that the chat is busy."""


@dataclass(frozen=True, slots=True)
class ChatView:
    """What tools may know of the chat that they act for; they are made for a turn, and ask when called.

    `tainted`: something from outside has been read in the session; `files_tainted`: something in the chat's
    files may be. `language` is that of the turn's message.
    """

    chat: str
    tainted: Callable[[], bool]
    language: Callable[[], Language]
    files_tainted: Callable[[], bool] = lambda: False
    model: Callable[[], str] = lambda: ""
    """The model that was chosen for it; empty: the process's own."""
    project: Callable[[], str] = lambda: ""
    """The folder whose skills count for it as well; empty: none."""
    messages: Callable[[], Sequence[Message]] = lambda: ()
    """What prompts of its session hold so far, of its users only what they wrote themselves."""
    mark_files_tainted: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint
    """Called before something from outside is put into its files: they are marked when it returns."""
    touch_files: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint
    """Called around what may change the chat's files and is not a command: they may take on the mark."""
    user: Callable[[], int | None] = lambda: None
    """What the chat's source calls the person who asks."""
    sender_model: Callable[[], Model] | None = None
    """Returns the model whose calls the person who asks pays for."""
    turn: str = ""
    """The turn's id: what tools note as changed by it can be taken back."""


@dataclass(frozen=True, slots=True)
class PromptNote:
    """A note for the prompt on the date, facts about the user, and skills; empty where all of it is told.

    `tainted`: the prompt shows words of strangers, in this note or in one before.
    """

    note: str
    tainted: bool


@dataclass(frozen=True, slots=True)
class ChatContext:
    """What turns of all chats work with, and what they are told."""

    model_for: Callable[[str, Language, str], Model]
    """Returns the model for a chat, of the name that was chosen, or the process's own for an empty one. A
    `RumiError` if it cannot be used."""
    limits: ChatLimits
    language: Language
    """The configured one, for messages that say none."""
    ids: ChatIds
    now: Callable[[], float]
    bring: Callable[[str, Attachment], Awaitable[str]]
    """Fetches what came with a message: what the model reads of it. A `RumiError` if it cannot be had."""
    seen_of: Callable[[str, str, int], Awaitable[Seen]] | None = None
    """Returns what a model sees of a file that came with a message, by the text about it, within so many
    characters. Without, the text is all."""
    view: Callable[[str, str], Awaitable[Seen | None]] | None = None
    """Looks at a file of a chat's workspace, by its path there."""
    load: Callable[[str, Sequence[Message], bool], Awaitable[Sequence[Message]]] | None = None
    """Returns a chat's messages with the bytes of their pictures, where the model takes them."""
    show: Callable[[str, Sequence[str]], Awaitable[None]] | None = None
    """Shows files of a chat's workspace to its people, where its channel has a way of its own."""
    sighted: tuple[str, ...] = ()
    """Names of configured models that take pictures."""
    tools_for: Callable[[ChatView], tuple[Tool, ...]] = field(default=lambda view: ())
    """The tools that a chat has besides its sandbox."""
    tools_ready: Callable[[], Awaitable[None]] = field(default=trio.lowlevel.checkpoint)
    """Waits, within bounds, for tools that are starting."""
    memory: AskMemory | None = None
    """Facts that last. Without, turns know none."""
    choose: Callable[[str, Sequence[Fact], float], Sequence[Fact]] | None = None
    """Returns the facts that matter for a text, the best first; asked where not all have room."""
    skills: AskSkills | None = None
    """Ways of working that somebody has written down. Without, turns know none."""
    channel_of: Callable[[str], str] = lambda chat: ""
    """The name of the channel that a chat belongs to."""
    instructions: str = ""
    """What every prompt of every chat begins with, for as long as the process runs."""
    prompts: Prompts = field(default_factory=lambda: Prompts(built_in()))
    thinks: bool = False
    """Whether the process's own model thinks: otherwise nothing is learned from sessions."""
    own_model: str = ""
    """Its name."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Other names of models; messages carry the models' own."""
    people: People = field(default_factory=People)
    """Who speaks, and what they may do."""
    sender_model: Callable[[Incoming, Language], Model] | None = None
    """Returns the model for a message, whose calls its speaker pays for; by default that of the chat."""

    def model_of(self, message: Incoming, language: Language) -> Model:
        """Return the model that works on a message: one that its speaker's role allows.

        Raises:
            RumiError: It cannot be used.
        """
        if self.sender_model is not None:
            return self.sender_model(message, language)
        chosen = self.people.of(message).rights.model(message.model, self.own_model)
        return self.model_for(message.chat, language, chosen)

    def sums_up(self, model: str) -> bool:
        """Return True if this model, or for an empty name the process's own, makes summaries: it thinks."""
        return model != OFFLINE if model else self.thinks

    async def what_is_known(
        self, message: Incoming, model: Model, language: Language, noted: PromptNotes
    ) -> PromptNote:
        """Return what a turn about a message is told, besides what it is `told` already. Never raises.

        What does not answer is left out, and told when it does.
        """
        channel = self._channel(message)
        tokens = context_of(model, self.limits.context_tokens)
        facts = await self._facts(message, language, tokens, noted)
        skills, skills_tainted = await self._skills(message, tokens, noted)
        today = datetime.fromtimestamp(self.now()).astimezone().date()
        form = self.prompts.form(channel) if channel != noted.channel else ""
        return PromptNote(next_note(noted, today, form, skills, facts.text), facts.tainted or skills_tainted)

    async def _facts(
        self, message: Incoming, language: Language, context_tokens: int, noted: PromptNotes
    ) -> Block:
        chat = message.chat
        if self.memory is None:
            return Block()
        try:
            with trio.move_on_after(FACTS_S):
                facts = await self.memory(Facts(self.ids.owner_of(chat)))
                facts += await self._shared(chat)
                most = min(FACTS_TOKENS, int(context_tokens * FACTS_SHARE))
                most_facts = self.limits.max_facts
                first = None
                if self.choose is not None and len(facts) > most_facts:
                    first = self.choose(message.text, facts, self.now())
                return memory_block(
                    language, facts, max_facts=most_facts, max_tokens=most, noted=noted.facts, first=first
                )
            logger.warning("chat %s: a turn without facts: the memory is silent", chat)
        except RumiError as error:
            logger.warning("chat %s: a turn without facts: %s", chat, error)
        return Block()

    async def _shared(self, chat: str) -> tuple[Fact, ...]:
        """Return the facts that people have shared with a group, each with its owner's name."""
        if self.memory is None or not self.ids.may_be_group(chat):
            return ()
        shared = await self.memory(Shared(self.ids.owner_of(chat)))
        names = ((self.people.name_of(owner), fact) for owner, fact in shared)
        return tuple(replace(fact, key=f"{name}: {fact.key}") for name, fact in names if name)

    async def _skills(self, message: Incoming, context_tokens: int, noted: PromptNotes) -> tuple[str, bool]:
        chat, limit = message.chat, self.limits.max_skills
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
        """Do what stands behind `/memory`; the reply, in Markdown. It waits no longer than a turn would."""
        if self.memory is None:
            return reply_texts.not_yet(language, "/memory")
        try:
            with trio.move_on_after(FACTS_S):
                return await memory_command(self.memory, self.ids.owner_of(chat), language, rest)
        except RumiError as error:
            return f"❌ {error_text(language, error)}"
        return f"❌ {translate(language, 'The memory does not answer. Try again in a moment.')}"

    async def about_skills(self, message: Incoming, language: Language, rest: str) -> str:
        """Do what stands behind `/skills`; the reply, in Markdown."""
        if self.skills is None:
            return reply_texts.not_yet(language, "/skills")
        try:
            with trio.move_on_after(SKILLS_S):
                return await skills_command(self.skills, language, rest, message.project)
        except (RumiError, ActorError) as error:
            logger.warning("the skills do not answer: %s", error)
        return f"❌ {translate(language, 'The skills do not answer. Try again in a moment.')}"

    def turn_limits(self, message: Incoming) -> TurnLimits:
        """Return the limits of the turn that a message begins: those of the channel that it came through."""
        return self.limits.turn_of.get(self._channel(message), self.limits.turn)

    def _channel(self, message: Incoming) -> str:
        return message.channel or self.channel_of(message.chat)

    async def fit_history(self, chat_session: ChatSession, tools: Sequence[Tool], model: Model) -> None:
        """Cut the history where no summary came in time, so that the turn has room; otherwise do nothing."""
        chat_session.budget = self._history_budget(*self._beginning(chat_session), tools, model)
        gone = chat_session.budget.too_long(chat_session.entries)
        if gone:
            chat = chat_session.chat
            logger.info("chat %s: %d entries of its history are left out of prompts", chat, len(gone))
            await chat_session.cut(gone)

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
    ) -> TurnInput:
        """Everything that the turn works with whose question is the history's last message."""
        instructions, before = self._beginning(chat_session)
        chat_session.budget = self._history_budget(instructions, before, tools, model)
        return TurnInput(
            instructions=instructions,
            history=(*before, *complete(shown_entries(chat_session.entries))),
            model=model,
            tools=tools,
            limits=limits,
            language=language,
            context_tokens=self.limits.context_tokens,
            tainted=chat_session.tainted,
            known_urls=chat_session.known_urls,
            words=own_words(chat_session.said_in_turn),
            declare_for=declaring(model, self.prompts.words["intent"]),
            confirm=confirm,
            parking=parking,
            withheld=withheld or {},
            shortened=chat_session.shorten,
            look=partial(self._look, chat_session.chat, model),
        )

    async def _look(self, chat: str, model: Model, messages: Sequence[Message]) -> Sequence[Message]:
        """Return a prompt's messages with the bytes of their pictures."""
        if self.load is None:
            return messages
        return await self.load(chat, messages, takes_pictures(model))

    def _history_budget(
        self, instructions: str, before: tuple[Message, ...], tools: Sequence[Tool], model: Model
    ) -> HistoryBudget:
        """The room for prompts, and what of it is taken before any history."""
        first = ModelRequest((Message("system", instructions), *before), tuple(tool.spec for tool in tools))
        prompt_tokens = prompt_share(context_of(model, self.limits.context_tokens))
        return HistoryBudget(prompt_tokens, request_tokens(first), self.limits.history_messages)

    def _beginning(self, chat_session: ChatSession) -> tuple[str, tuple[Message, ...]]:
        """Return the instructions with the note on what holds, and the summary if there is one."""
        parts = (self.instructions, whole_note(chat_session.entries))
        before = (shown(chat_session.summary),) if chat_session.summary is not None else ()
        return "\n\n".join(filter(None, parts)), before
