"""From settings to models, and what must be refused on the way."""

import subprocess
import sys
from pathlib import Path

import pytest

from rumi.errors import ConfigError
from rumi.models.build import ModelSet, build_models
from rumi.models.model import Message, ModelRequest
from rumi.models.settings import context_tokens_of, lacks_key
from rumi.platform.config.providers import CHOICES
from tests.fakes.groq_server import KEY, Answer, Fail, serve_groq
from tests.models.made import custom_server, model_settings

ROOT = Path(__file__).parents[2]
HELLO = ModelRequest((Message("user", "hola"),))


def names(models: ModelSet) -> list[str]:
    return [step.model.name for step in models.steps]


def test_the_default_and_its_fallbacks_stand_in_order_and_share_one_server() -> None:
    models = build_models(model_settings(keys={"groq": KEY}))
    assert names(models) == ["groq:openai/gpt-oss-120b", "groq:openai/gpt-oss-20b"]
    assert len(models.servers) == 1
    assert next(iter(models.servers)).base_url == "https://api.groq.com"
    assert models.context_tokens == 131_072


def test_a_model_named_twice_is_there_once() -> None:
    settings = model_settings("groq:a", ("groq:b", "groq:a", "groq:b"), keys={"groq": KEY})
    assert names(build_models(settings)) == ["groq:a", "groq:b"]


def test_another_model_can_be_chosen_and_shares_servers_and_fallbacks() -> None:
    fault = ConfigError("model.custom.closed.api_key refers to $NO_KEY, which is not set.")
    custom = {
        "mine": custom_server("http://127.0.0.1:9/v1", "m"),
        "closed": custom_server("http://127.0.0.1:9/v1", "m"),
    }
    faults = {"custom:closed": fault}
    models = build_models(
        model_settings("groq:a", ("groq:b",), keys={"groq": KEY}, faults=faults, custom=custom)
    )
    assert [step.model.name for step in models.steps_of("groq:c")] == ["groq:c", "groq:b"]
    assert len(models.servers) == 1
    first, *_ = models.steps_of("custom:mine")
    assert (first.budget.context_tokens, len(models.servers)) == (8192, 2)
    assert models.steps_of("custom:mine")[0] is first, "what is known of its room lasts"
    assert [step.model.name for step in models.steps_of("offline")] == ["offline"]
    with pytest.raises(ConfigError, match="NO_KEY"):
        models.bind("cli", chosen="custom:closed")
    with pytest.raises(ConfigError, match="GROQ_API_KEY"):
        build_models(model_settings("offline")).bind("cli", chosen="groq:a")
    assert names(models) == ["groq:a", "groq:b"]


def test_offline_needs_no_key_no_server_and_no_fallback() -> None:
    models = build_models(model_settings("offline"))
    assert names(models) == ["offline"]
    assert not models.servers
    assert models.steps[0].server is None


def test_a_missing_key_is_an_error_for_the_default_and_leaves_out_a_fallback() -> None:
    assert lacks_key(model_settings())
    with pytest.raises(ConfigError, match="GROQ_API_KEY"):
        build_models(model_settings())
    custom = {"mine": custom_server("http://127.0.0.1:11434/v1", "qwen3:4b")}
    settings = model_settings("custom:mine", custom=custom)
    assert not lacks_key(settings)
    assert names(build_models(settings)) == ["custom:mine"]


@pytest.mark.parametrize(
    "name", ["gpt-4", "bard:1", "groq:", "groq", "custom:", "", "offline:x", "OFFLINE", "anthropic:"]
)
def test_an_unknown_model_is_refused_with_what_is_allowed(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build_models(model_settings(name, keys={"groq": KEY}))
    assert repr(name) in str(caught.value)
    assert f"Allowed are {CHOICES}." in str(caught.value)
    with pytest.raises(ConfigError):
        build_models(model_settings("groq:a", (name,), keys={"groq": KEY}))


def test_a_custom_model_without_its_section_names_the_section() -> None:
    with pytest.raises(ConfigError, match=r"\[model\.custom\.mine\]"):
        build_models(model_settings("custom:mine"))


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:11434",
        "ftp://a/v1",
        "http://",
        "http://a:99999/v1",
        "http://user:secret@a/v1",
        "http://a/?key=secret",
    ],
)
def test_an_address_that_cannot_work_or_would_leak_is_refused(url: str) -> None:
    custom = {"mine": custom_server(url, "m")}
    with pytest.raises(ConfigError) as caught:
        build_models(model_settings("custom:mine", custom=custom))
    assert "model.custom.mine.base_url" in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("key", ["gsk_a b", "gsk_ñandú", "gsk_a\nb"])
def test_a_key_that_no_header_can_carry_is_refused_unseen(key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build_models(model_settings(keys={"groq": key}))
    assert "GROQ_API_KEY" in str(caught.value)
    assert key not in str(caught.value)


def test_no_key_in_what_settings_and_models_look_like() -> None:
    custom = {"mine": custom_server("http://a/v1", "m")}
    keys = {"groq": KEY, "custom:mine": "sk-secret-key-1"}
    settings = model_settings(fallbacks=("custom:mine",), keys=keys, custom=custom)
    models = build_models(settings)
    assert KEY not in repr((settings, models))
    assert "sk-secret-key-1" not in repr((settings, models))


def test_context_sizes_are_known_configured_or_careful() -> None:
    assert context_tokens_of("groq:openai/gpt-oss-20b") == 131_072
    assert context_tokens_of("groq:unheard/of") == 8192
    assert context_tokens_of("custom:mine") == 8192
    settings = model_settings(keys={"groq": KEY}, context_tokens=5000)
    assert build_models(settings).context_tokens == 5000


@pytest.mark.parametrize("suffix", ["", "/", "/openai/v1", "/openai/v1/"])
async def test_groqs_address_may_be_the_root_or_the_api(suffix: str) -> None:
    async with serve_groq(Answer("hola")) as fake:
        settings = model_settings(keys={"groq": f" {KEY}\n"}, base_urls={"groq": fake.base_url + suffix})
        models = build_models(settings)
        reply = await models.bind("c1").reply(HELLO, lambda _: None)
        await models.aclose()
    assert reply.text == "hola"
    assert reply.model == "groq:openai/gpt-oss-120b"


async def test_the_chain_falls_back_from_groq_to_a_server_of_ones_own() -> None:
    async with (
        serve_groq(Fail(404, code="model_not_found")) as groq,
        serve_groq(Answer("mine"), key=None) as mine,
    ):
        settings = model_settings(
            fallbacks=("custom:mine",),
            custom={"mine": custom_server(mine.openai_url, "qwen3:4b")},
            keys={"groq": KEY},
            base_urls={"groq": groq.base_url},
        )
        models = build_models(settings)
        reply = await models.bind("c1").reply(HELLO, lambda _: None)
        await models.aclose()
    assert (reply.text, reply.model) == ("mine", "custom:mine")
    assert len(groq.requests) == 1


async def test_a_short_retry_after_is_waited_out_against_a_real_server() -> None:
    limited = Fail(429, code="rate_limit_exceeded", headers={"retry-after": "0.05"})
    async with serve_groq([limited, Answer("hola")]) as fake:
        models = build_models(model_settings(keys={"groq": KEY}, base_urls={"groq": fake.base_url}))
        reply = await models.bind("c1").reply(HELLO, lambda _: None)
        await models.aclose()
    assert reply.text == "hola"
    first, second = fake.requests
    assert second.time - first.time >= 0.05


def test_importing_the_models_imports_neither_the_sdk_nor_an_http_client() -> None:
    code = "import sys, rumi.models; print(sys.modules.keys() & {'groq', 'httpx', 'pydantic', 'anyio'})"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_the_server_runs_as_a_program_and_prints_its_address_first() -> None:
    command = [sys.executable, "-m", "tests.fakes.groq_server", "--script", "echo"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdout.readline().startswith("http://127.0.0.1:")
        server.terminate()
    assert server.returncode == 0


def first_word_limits(**settings: object) -> list[float]:
    custom = {"mine": custom_server("http://127.0.0.1:1/v1", "m")}
    models = build_models(
        model_settings(fallbacks=("custom:mine",), custom=custom, keys={"groq": KEY}, **settings)  # type: ignore[arg-type]
    )
    return [step.model._first_s for step in models.steps]  # type: ignore[attr-defined]


def test_a_server_of_ones_own_may_take_longer_to_read_a_prompt_than_groq() -> None:
    assert first_word_limits() == [60.0, 300.0]
    assert first_word_limits(timeout_s=400.0) == [400.0, 400.0]
    assert first_word_limits(first_token_timeout_s=90.0) == [90.0, 90.0]


def test_each_model_has_its_own_room_and_an_unknown_fallback_is_not_cut() -> None:
    custom = {"mine": custom_server("http://127.0.0.1:1/v1", "m")}
    settings = model_settings(
        "custom:mine", ("groq:openai/gpt-oss-20b", "groq:new"), custom=custom, keys={"groq": KEY}
    )
    assert [step.budget.context_tokens for step in build_models(settings).steps] == [8192, 131_072, None]
