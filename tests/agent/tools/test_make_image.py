"""The make_image tool: what it sends out, and what becomes of the image."""

from dataclasses import dataclass, field

import pytest
import trio

from rumi.agent.breakers import TurnLimits
from rumi.agent.events import ConfirmationAsked
from rumi.agent.tool import ToolResult
from rumi.agent.tools.make_image import MakeImage
from rumi.agent.turn import run_turn
from rumi.agent.turn_input import TurnInput
from rumi.errors import RumiError
from rumi.models.drawing import Image
from rumi.models.model import Emit, Message, ModelRequest, Reply, ToolCall, Usage
from rumi.platform.texts.questions import Verdict

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


@dataclass
class FakeImages:
    host: str = "http://127.0.0.1:8080"
    trouble: RumiError | None = None
    asked: list[tuple[str, str]] = field(default_factory=list)
    saved: list[tuple[str, bytes]] = field(default_factory=list)
    counted: list[Usage] = field(default_factory=list)

    async def make(self, prompt: str, size: str = "") -> tuple[Image, Usage]:
        await trio.lowlevel.checkpoint()
        self.asked.append((prompt, size))
        if self.trouble is not None:
            raise self.trouble
        return Image(PNG, "png"), Usage(10, 20)

    async def save(self, content: bytes, name: str) -> str:
        await trio.lowlevel.checkpoint()
        self.saved.append((name, content))
        return "image-2.png"

    async def count(self, used: Usage) -> None:
        await trio.lowlevel.checkpoint()
        self.counted.append(used)

    @property
    def tool(self) -> MakeImage:
        return MakeImage(self, self.save, self.count)


async def test_an_image_is_stored_and_shown() -> None:
    images, steps = FakeImages(), list[str]()
    made = await images.tool.call_reporting({"prompt": "a red boat"}, steps.append)
    said = f"made /workspace/image-2.png ({len(PNG)} bytes); the user sees it with your answer"
    assert made == ToolResult(True, said, shows=("image-2.png",))
    assert images.saved == [("image.png", PNG)]
    assert images.counted == [Usage(10, 20)]
    assert steps == ["waiting for http://127.0.0.1:8080"]


@pytest.mark.parametrize(
    ("size", "sent"),
    [("512x768", "512x768"), (" 512 X 768px ", "512x768"), ("512×768", "512x768"), ("", ""), (None, "")],
)
async def test_a_size_is_taken_as_models_write_it(size: str | None, sent: str) -> None:
    images = FakeImages()
    assert (await images.tool.call({"prompt": "a boat", "size": size})).ok
    assert images.asked == [("a boat", sent)]


@pytest.mark.parametrize(
    "arguments",
    [{}, {"prompt": 5}, {"prompt": " "}, {"prompt": "x", "size": "large"}, {"prompt": "x", "size": [1]},
     {"prompt": "x" * 4001}, {"prompt": "x", "size": "0x0"}],
    ids=range(7),
)  # fmt: skip
async def test_what_cannot_be_made_is_not_sent(arguments: dict[str, object]) -> None:
    images = FakeImages()
    refused = await images.tool.call(arguments)
    assert not refused.ok
    assert refused.content.startswith("make_image")
    assert images.asked == []


async def test_a_server_in_trouble_is_told_to_the_model_and_its_fix_to_people() -> None:
    images = FakeImages(trouble=RumiError("The server is full.", "Check images.server."))
    failed = await images.tool.call({"prompt": "a boat"})
    assert (failed.ok, failed.content, failed.advice) == (
        False,
        "no image: The server is full.",
        "Check images.server.",
    )
    assert images.saved == []


@pytest.mark.parametrize(
    ("tainted", "verdict", "made"),
    [(False, "no", 1), (True, "no", 0), (True, "yes", 1), (True, "expired", 0)],
)
async def test_a_tainted_turn_asks_and_shows_what_goes_out(
    tainted: bool, verdict: Verdict, made: int
) -> None:
    images, asked = FakeImages(host="https://images.example"), list[str]()

    async def model(request: ModelRequest, emit: Emit) -> Reply:
        await trio.lowlevel.checkpoint()
        if request.messages[-1].role == "tool":
            return Reply("done")
        return Reply("", (ToolCall("c1", "make_image", '{"prompt": "secret 4711 on a wall"}'),))

    async def confirm(question: ConfirmationAsked) -> Verdict:
        await trio.lowlevel.checkpoint()
        asked.append(question.text)
        return verdict

    async def store(*messages: object) -> None:
        await trio.lowlevel.checkpoint()

    class Scripted:
        name = "scripted"
        reply = staticmethod(model)

    begin = TurnInput(
        instructions="",
        history=(Message("user", "make an image: secret 4711 on a wall"),),
        model=Scripted(),
        tools=(images.tool,),
        limits=TurnLimits(5, 3, 3, 60),
        language="en",
        context_tokens=10_000,
        tainted=tainted,
        words="make an image: secret 4711 on a wall",
        confirm=confirm,
    )
    await run_turn(begin, lambda event: None, store)
    assert len(images.asked) == made
    assert len(asked) == tainted
    for question in asked:
        assert "have this image made by a server" in question
        assert "https://images.example" in question
        assert "secret 4711 on a wall" in question
