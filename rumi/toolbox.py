"""The tools of a chat besides its sandbox, made once for each chat and bound to it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rumi.chat_ids import ChatIds
from rumi.chats import ChatView
from rumi.memory import Ask as AskMemory
from rumi.models import Message, Model, ModelRequest
from rumi.skills import Ask as AskSkills
from rumi.skills import CodeRunner
from rumi.texts import Language
from rumi.tools import FILE_TOOLS, ForgetTool, RememberTool, Tool, UseSkill, WebFetch, WebSearch
from rumi.web import Web


@dataclass(frozen=True, slots=True)
class Toolbox:
    """The services that tools use, and the additional tools of a channel."""

    web: Web
    ids: ChatIds
    memory: AskMemory
    skills: AskSkills
    runner: CodeRunner
    workspaces: Path
    model_for: Callable[[str, Language, str], Model]
    of_channel: Callable[[str], tuple[Tool, ...]] = lambda chat: ()

    def tools_for(self, view: ChatView) -> tuple[Tool, ...]:
        """Return the tools of one chat."""
        chat, owner = view.chat, self.ids.owner_of(view.chat)
        tools: tuple[Tool, ...] = (
            WebFetch(partial(self.web.fetch, chat)),
            WebSearch(partial(self.web.search, chat)),
            RememberTool(self.memory, owner, chat, view.tainted, view.language),
            ForgetTool(self.memory, owner, view.language),
            *self.of_channel(chat),
        )
        return (*tools, self._use_skill(view, ("bash", *FILE_TOOLS, *(tool.spec.name for tool in tools))))

    def _use_skill(self, view: ChatView, names: tuple[str, ...]) -> Tool:
        async def answer(prompt: str) -> str:
            """Answer a question of a skill's code with the chat's model, without tools."""
            request = ModelRequest((Message("user", prompt),))
            model = self.model_for(view.chat, view.language(), view.model())
            return (await model.reply(request, lambda event: None)).text

        return UseSkill(
            self.skills,
            self.runner,
            chat=view.chat,
            workspace=self.workspaces / view.chat,
            language=view.language,
            tools=lambda: names,
            model=answer,
            outside=view.files_tainted,
            touches=view.touch_files,
        )
