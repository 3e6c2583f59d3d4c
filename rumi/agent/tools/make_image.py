"""The `make_image` tool: has an image made by the configured server, and stores it in the workspace."""

import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Final, Protocol

from rumi.agent.tool import Progress, Question, Tool, ToolResult
from rumi.errors import RumiError
from rumi.models.drawing import Image
from rumi.models.model import ToolSpec, Usage
from rumi.texts import Text

MOST_PROMPT_CHARS: Final = 4000
"""Maximum length of a prompt: servers take at most about so many characters."""

_SIZE: Final = re.compile(r"\s*([1-9][0-9]{1,3})\s*[xX×*]\s*([1-9][0-9]{1,3})\s*(?:px)?\s*")

SPEC = ToolSpec(
    name="make_image",
    description=(
        "Make one new image from a description and show it to the user, only if they ask for an image. "
        "The description alone says everything: what, style, colours, text in it."
    ),
    parameters={
        "type": "object",
        "properties": {
            "prompt": {"type": "string"},
            "size": {"type": "string", "description": "WIDTHxHEIGHT, if the user wants one"},
        },
        "required": ["prompt"],
    },
)


class MakesImages(Protocol):
    """Makes images; see `rumi.models.drawing.ImageServer`. `host` names the server for people."""

    @property
    def host(self) -> str:
        """Scheme, host and port of the server."""
        ...

    async def make(self, prompt: str, size: str = "") -> tuple[Image, Usage]:
        """Return an image, and what it has used as far as the server says so. Raises a `RumiError`."""
        ...


class MakeImage(Tool):
    """The `make_image` tool, bound to one chat.

    `save` stores a file with the given name in the chat's workspace and returns its path there. `count`
    records what an image has used.
    """

    spec = SPEC
    concurrent = False

    def __init__(
        self,
        server: MakesImages,
        save: Callable[[bytes, str], Awaitable[str]],
        count: Callable[[Usage], Awaitable[None]],
    ) -> None:
        self._server = server
        self._save = save
        self._count = count

    def question(self, arguments: Mapping[str, object], known_urls: Collection[str]) -> Question | None:
        """Return a question with the server and the whole prompt, which leaves the machine.

        In a tainted turn, a page could otherwise have the prompt carry data to the server.
        """
        prompt = arguments.get("prompt")
        if not isinstance(prompt, str) or not prompt.strip():
            return None
        return Question("make_image", {"host": self._server.host, "prompt": prompt})

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Have the image made, and store it. On cancellation, nothing is stored."""
        return await self.call_reporting(arguments, lambda step: None)

    async def call_reporting(self, arguments: Mapping[str, object], progress: Progress) -> ToolResult:
        """Have the image made, and store it; report that the server works, which may take minutes."""
        prompt, size = arguments.get("prompt"), arguments.get("size")
        if not isinstance(prompt, str) or not prompt.strip():
            return ToolResult(False, Text("make_image needs `prompt`, a text"))
        if len(prompt) > MOST_PROMPT_CHARS:
            return ToolResult(
                False,
                Text("make_image takes a `prompt` of at most {most} characters", most=MOST_PROMPT_CHARS),
            )
        wanted = size.strip() if isinstance(size, str) else size
        found = _SIZE.fullmatch(wanted) if isinstance(wanted, str) else None
        if found is None and wanted not in (None, ""):
            return ToolResult(False, Text("make_image takes `size` as WIDTHxHEIGHT, such as 1024x1024"))
        progress(Text("waiting for {host}", host=self._server.host))
        try:
            image, used = await self._server.make(prompt, f"{found[1]}x{found[2]}" if found else "")
            await self._count(used)
            path = await self._save(image.content, f"image.{image.ending}")
        except RumiError as error:
            return ToolResult(
                False, Text("no image: {error}", error=error.for_model), advice=error.for_people
            )
        said = f"made /workspace/{path} ({len(image.content)} bytes); the user sees it with your answer"
        return ToolResult(True, said, shows=(path,))
