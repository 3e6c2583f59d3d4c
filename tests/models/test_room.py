"""How much a model takes, as its settings, its headers and its refusals tell."""

from rumi.models.chain import Chain, Step
from rumi.models.rates import RateLimits, Window
from rumi.models.room import Room, context_of
from rumi.models.types import Emit, Message, ModelRequest, Reply, TooLarge

FREE = RateLimits(tokens=Window(8000, 6000, 15.0))


class Silent:
    name = "silent"

    async def reply(self, request: ModelRequest, emit: Emit) -> Reply:
        raise NotImplementedError


def test_a_plan_that_allows_less_than_the_model_takes_bounds_its_room() -> None:
    room = Room(131_072)
    assert (room.context_tokens, room.prompt_tokens, room.small_plan) == (131_072, 98_304, False)
    room.saw(FREE)
    assert (room.context_tokens, room.prompt_tokens, room.small_plan) == (8000, 6000, True)
    room.saw(RateLimits(tokens=Window(250_000, 1, 1.0)))
    assert (room.context_tokens, room.small_plan) == (131_072, False)


def test_headers_that_say_nothing_of_tokens_change_nothing() -> None:
    room = Room(1000)
    room.saw(RateLimits(requests=Window(30, 29, 2.0)))
    room.saw(RateLimits(tokens=Window(0, 0, 0)))
    assert room == Room(1000)


def test_what_is_not_known_bounds_nothing() -> None:
    assert Room().prompt_tokens is None
    assert Room().context_tokens is None
    room = Room()
    room.saw(FREE)
    assert room.prompt_tokens == 6000


def test_a_refusal_tells_the_limit_and_by_how_much_our_count_is_too_low() -> None:
    room = Room(131_072)
    assert room.refused(20_000, TooLarge(8000, 12_000, a_minute=True)) == 6000
    assert (room.prompt_tokens, room.small_plan) == (6000, True)
    assert room.refused(5000, TooLarge(8000, 10_000, a_minute=True)) == 3000


def test_a_refusal_without_figures_is_followed_by_less() -> None:
    room = Room(8192)
    assert room.refused(5000, None) == 3000
    assert room.context_tokens == 8192
    assert room.refused(5000, TooLarge(32_768)) == 3000


def test_a_refusal_counts_until_the_plan_is_another() -> None:
    room = Room(131_072)
    paid = RateLimits(tokens=Window(250_000, 1, 1.0))
    room.saw(paid)
    room.refused(50_000, TooLarge(30_000, 50_000, a_minute=True))
    room.saw(paid)
    assert room.context_tokens == 30_000
    room.saw(RateLimits(tokens=Window(300_000, 1, 1.0)))
    assert room.context_tokens == 131_072


def test_a_chain_takes_what_its_first_model_takes_and_never_more_than_is_wished() -> None:
    room = Room(131_072)
    chain = Chain([Step(Silent(), room=room), Step(Silent(), room=Room(10))], chat="c")
    assert context_of(chain, 100_000) == 100_000
    room.saw(FREE)
    assert context_of(chain, 100_000) == 8000
    assert context_of(Silent(), 500) == 500
    assert Message("user").reasoning == ""
