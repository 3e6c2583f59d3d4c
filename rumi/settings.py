"""Converts the configuration for the packages, which do not read it themselves."""

from rumi import texts
from rumi.agent import TurnLimits
from rumi.chats import ChatLimits
from rumi.config import Loaded
from rumi.errors import ConfigError
from rumi.models import CustomServer, ModelSettings, lacks_key
from rumi.web import WebSettings


def model_settings_of(
    loaded: Loaded, language: texts.Language, *, default: str | None = None
) -> ModelSettings:
    """Return the models' part of the configuration, including their keys."""
    given, secrets = loaded.settings.model, loaded.secrets
    custom = {}
    for name, server in given.custom.items():
        wanted = f"custom:{name}" in (default or given.default, *given.fallbacks)
        key = loaded.custom_key(name) if wanted else None
        custom[name] = CustomServer(server.base_url, server.model, key.reveal() if key else None)
    return ModelSettings(
        default=default or given.default,
        fallbacks=given.fallbacks,
        timeout_s=given.timeout_s,
        first_token_timeout_s=given.first_token_timeout_s,
        temperature=given.temperature,
        max_output_tokens=given.max_output_tokens,
        context_tokens=given.context_tokens,
        max_concurrent=given.max_concurrent,
        custom=custom,
        groq_api_key=secrets.groq_api_key.reveal() if secrets.groq_api_key else None,
        groq_base_url=secrets.groq_base_url,
        language=language,
    )


def web_settings_of(loaded: Loaded) -> WebSettings:
    """Return the web's part of the configuration, including its keys."""
    fetch, secrets = loaded.settings.fetch, loaded.secrets
    return WebSettings(
        timeout_s=fetch.timeout_s,
        max_bytes=fetch.max_bytes,
        max_redirects=fetch.max_redirects,
        allow=fetch.allow,
        provider=loaded.settings.search.provider,
        tavily_key=secrets.tavily_api_key.reveal() if secrets.tavily_api_key else "",
        kagi_key=secrets.kagi_api_key.reveal() if secrets.kagi_api_key else "",
    )


def chat_limits_of(loaded: Loaded, context_tokens: int) -> ChatLimits:
    """Return the limits of every chat; `context_tokens` is the budget of its models."""
    settings = loaded.settings
    return ChatLimits(
        turn=TurnLimits(
            max_turns=settings.agent.max_turns,
            repeated_call=settings.agent.repeated_call,
            consecutive_errors=settings.agent.consecutive_errors,
            timeout_s=settings.agent.turn_timeout_s,
        ),
        session_ttl_s=settings.session.ttl_s,
        history_messages=settings.session.history_messages,
        context_tokens=context_tokens,
        command_timeout_s=settings.sandbox.timeout_s,
        confirm_timeout_s=settings.agent.confirm_timeout_s,
        max_facts=settings.memory.max_facts,
        max_skills=settings.skills.max_in_prompt,
        handed_chars=settings.session.handed_chars,
    )


def require_model(loaded: Loaded) -> None:
    """Require a language model, or `offline` if the user chose it explicitly.

    Raises:
        ConfigError: The configured model has no key.
    """
    if lacks_key(model_settings_of(loaded, "en")):
        raise ConfigError(
            f"{loaded.settings.model.default} needs GROQ_API_KEY.",
            'Put it into .env in RUMI_HOME, or choose in config.toml: [model] default = "offline"',
        )


def require_chosen_model(loaded: Loaded) -> None:
    """Require the model that `--model` or the environment names; `offline` does not replace it.

    Raises:
        ConfigError: The model has no key.
    """
    if loaded.is_of_this_run("model.default") and lacks_key(model_settings_of(loaded, "en")):
        raise ConfigError(
            f"The model {loaded.settings.model.default!r} needs GROQ_API_KEY.",
            "Set it in the environment or in .env, or use --model offline.",
        )
