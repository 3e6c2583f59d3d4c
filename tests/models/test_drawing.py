"""Images made by servers with OpenAI's API, by LocalAI, and by odd ones, on loopback."""

from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

import pytest
import trio

from rumi.errors import RumiError
from rumi.models.drawing import ImageServer
from rumi.models.media_server import MediaAddress
from rumi.models.model import ModelError, Usage
from tests.fakes.media_servers import (
    JPEG,
    NOT_FOUND,
    PAGE,
    PNG,
    MediaAnswer,
    MediaFake,
    MediaRequest,
    OpenAiImages,
    as_json,
    serving_media,
)


@asynccontextmanager
async def drawing(fake: MediaFake, path: str = "/v1", **more: Any) -> AsyncIterator[ImageServer]:
    async with serving_media(fake):
        model = more.pop("model", "flux")
        at = MediaAddress(f"{fake.root}{path}", model, setting="images.server", timeout_s=5.0)
        server = ImageServer(at, **more)
        try:
            yield server
        finally:
            await server.aclose()


async def refusal(answer: MediaAnswer) -> ModelError:
    async with drawing(MediaFake(lambda request: answer)) as server:
        with pytest.raises(ModelError) as caught:
            await server.make("a red boat")
    return caught.value


@pytest.mark.parametrize("kind", ["b64", "url", "strict"])
async def test_an_image_comes_however_the_server_sends_it(kind: Literal["b64", "url", "strict"]) -> None:
    fake = OpenAiImages(kind)
    async with drawing(fake, size="512x512") as server:
        for _ in range(2):
            image, used = await server.make("a red boat")
            assert (image.content, image.ending, used) == (PNG, "png", Usage())
    posts = [request for request in fake.requests if request.method == "POST"]
    assert len(posts) == (3 if kind == "strict" else 2)  # what the server refuses is remembered
    last = posts[-1].json
    assert last.pop("response_format", None) == (None if kind == "strict" else "b64_json")
    assert last == {"model": "flux", "prompt": "a red boat", "size": "512x512", "n": 1}


async def test_a_server_that_cannot_parse_the_format_is_asked_without_it() -> None:
    def old(request: MediaRequest) -> MediaAnswer:
        if "response_format" in request.json:
            said = "json: cannot unmarshal string into Go struct field OpenAIRequest.response_format"
            return as_json({"error": {"code": 500, "message": said}}, 500)
        return as_json({"data": [{"b64_json": b64encode(JPEG).decode()}]})

    async with drawing(MediaFake(old), model="") as server:
        image, _ = await server.make("a red boat", "1024x1024")
    assert image.ending == "jpg"


@pytest.mark.parametrize(
    "answer",
    [
        MediaAnswer(PNG, "image/png"),
        as_json({"data": [{"url": "data:image/png;base64," + b64encode(PNG).decode()}]}),
        as_json({"data": [{"b64_json": "data:image/png;base64," + b64encode(PNG).decode(), "url": None}]}),
        as_json({"data": [{"b64_json": b64encode(PNG).decode().rstrip("=")}, {"b64_json": ""}]}),
        as_json({"data": [{"b64_json": "\n".join(b64encode(PNG).decode()), "revised_prompt": "x"}]}),
    ],
    ids=range(5),
)
async def test_an_image_is_found_in_whatever_form_it_comes(answer: MediaAnswer) -> None:
    async with drawing(MediaFake(lambda request: answer)) as server:
        image, _ = await server.make("a red boat")
    assert image.content == PNG


async def test_tokens_are_counted_where_the_server_says_so() -> None:
    used = {"input_tokens": 12, "output_tokens": 4160, "total_tokens": 4172}
    answer = as_json({"data": [{"b64_json": b64encode(PNG).decode()}], "usage": used})
    async with drawing(MediaFake(lambda request: answer)) as server:
        assert (await server.make("a red boat"))[1] == Usage(12, 4160)
        assert server.model == "custom:flux"


async def test_an_image_at_another_server_is_fetched_with_the_guard() -> None:
    fetched: list[str] = []

    async def elsewhere(url: str) -> bytes:
        await trio.lowlevel.checkpoint()
        fetched.append(url)
        if "internal" in url:
            raise RumiError("The address is private.")
        return PNG

    url = "https://cdn.example.com/made/1.png?sig=x"
    async with drawing(
        MediaFake(lambda request: as_json({"data": [{"url": url}]})), elsewhere=elsewhere
    ) as server:
        assert (await server.make("a red boat"))[0].content == PNG
    private = as_json({"data": [{"url": "http://internal:80/1.png"}]})
    async with drawing(MediaFake(lambda request: private), elsewhere=elsewhere) as server:
        with pytest.raises(RumiError, match="private"):
            await server.make("a red boat")
    assert fetched == [url, "http://internal:80/1.png"]


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (NOT_FOUND, "not_found", "Check images.server: it ends with /v1"),
        (MediaAnswer(PAGE, "text/html"), "malformed", "it sent a web page"),
        (as_json({"error": "out of memory"}), "refused", "refused to make the image: out of memory"),
        (as_json({"error": {"message": "content policy", "code": "x"}}, 400), "refused", "content policy"),
        (as_json({"data": []}), "malformed", "does not answer with an image"),
        (as_json({"data": [{"b64_json": "bm8="}]}), "malformed", "no known image format"),
        (as_json({"data": [{"b64_json": "%%%"}]}), "malformed", "no known image format"),
        (as_json({"data": [{"url": "ftp://x/y"}]}), "malformed", "the image is at another server"),
        (as_json([1, 2]), "malformed", "does not answer with an image"),
        (as_json({"images": ["iVBO"], "parameters": {}}), "malformed", "Check images.server"),
        (as_json({"error": "wait"}, 429), "rate_limited", "rate limit"),
        (MediaAnswer(b"{" + b" " * 30_000_000), "malformed", "it sent more than"),
    ],
    ids=range(12),
)
async def test_an_odd_answer_is_told_with_what_to_do(answer: MediaAnswer, kind: str, words: str) -> None:
    error = await refusal(answer)
    assert error.kind == kind
    assert words in str(error)


async def test_a_stop_closes_the_connection() -> None:
    fake = MediaFake(lambda request: MediaAnswer(wait_s=60))
    async with drawing(fake) as server:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.make, "a red boat")
            with trio.fail_after(10):
                await fake.wait_requests(1)
            nursery.cancel_scope.cancel()
        with trio.fail_after(10):
            await fake.wait_idle()
