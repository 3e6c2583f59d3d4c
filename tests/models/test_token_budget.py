"""How much a model takes, as its settings, its headers and its refusals tell."""

from rumi.models.chain import Chain, ChainStep
from rumi.models.model import Emit, Message, ModelRequest, Reply, TooLarge
from rumi.models.rates import RateLimits, Window
from rumi.models.token_budget import TokenBudget, context_of

FREE = RateLimits(tokens=Window(8000, 6000, 15.0))


class Silent:
    name = "silent"

    async def reply(self, request: ModelRequest, emit: Emit) -> Reply:
        raise NotImplementedError


def test_a_plan_that_allows_less_than_the_model_takes_bounds_its_room() -> None:
    budget = TokenBudget(131_072)
    assert (budget.context_tokens, budget.prompt_tokens, budget.small_plan) == (131_072, 98_304, False)
    budget.saw(FREE)
    assert (budget.context_tokens, budget.prompt_tokens, budget.small_plan) == (8000, 6000, True)
    budget.saw(RateLimits(tokens=Window(250_000, 1, 1.0)))
    assert (budget.context_tokens, budget.small_plan) == (131_072, False)


def test_headers_that_say_nothing_of_tokens_change_nothing() -> None:
    budget = TokenBudget(1000)
    budget.saw(RateLimits(requests=Window(30, 29, 2.0)))
    budget.saw(RateLimits(tokens=Window(0, 0, 0)))
    assert budget == TokenBudget(1000)


def test_what_is_not_known_bounds_nothing() -> None:
    assert TokenBudget().prompt_tokens is None
    assert TokenBudget().context_tokens is None
    budget = TokenBudget()
    budget.saw(FREE)
    assert budget.prompt_tokens == 6000


def test_a_refusal_tells_the_limit_and_by_how_much_our_count_is_too_low() -> None:
    budget = TokenBudget(131_072)
    assert budget.refused(20_000, TooLarge(8000, 12_000, a_minute=True)) == 6000
    assert (budget.prompt_tokens, budget.small_plan) == (6000, True)
    assert budget.refused(5000, TooLarge(8000, 10_000, a_minute=True)) == 3000


def test_a_refusal_without_figures_is_followed_by_less() -> None:
    budget = TokenBudget(8192)
    assert budget.refused(5000, None) == 3000
    assert budget.context_tokens == 8192
    assert budget.refused(5000, TooLarge(32_768)) == 3000


def test_a_refusal_counts_until_the_plan_is_another() -> None:
    budget = TokenBudget(131_072)
    paid = RateLimits(tokens=Window(250_000, 1, 1.0))
    budget.saw(paid)
    budget.refused(50_000, TooLarge(30_000, 50_000, a_minute=True))
    budget.saw(paid)
    assert budget.context_tokens == 30_000
    budget.saw(RateLimits(tokens=Window(300_000, 1, 1.0)))
    assert budget.context_tokens == 131_072


def test_a_chain_takes_what_its_first_model_takes_and_never_more_than_is_wished() -> None:
    budget = TokenBudget(131_072)
    chain = Chain([ChainStep(Silent(), budget=budget), ChainStep(Silent(), budget=TokenBudget(10))], chat="c")
    assert context_of(chain, 100_000) == 100_000
    budget.saw(FREE)
    assert context_of(chain, 100_000) == 8000
    assert context_of(Silent(), 500) == 500
    assert Message("user").reasoning == ""
