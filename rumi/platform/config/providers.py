"""The table of model providers: URLs, key variables, protocols, and facts about their models.

The facts come from the providers' public pages. `Provider.model` returns the facts about a model.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from rumi.platform.secret_forms import only_secret, only_word

Dialect: TypeAlias = Literal["groq", "openai", "anthropic", "ollama"]
"""The protocol of a provider: Groq's own API, OpenAI's chat completions API as many providers implement it,
Anthropic's messages API, or Ollama's own API. Ollama's chat completions API cannot set the context length."""

SchemaRules: TypeAlias = Literal["open", "gemini", "grammar"]
"""What a provider accepts in the schemas of tools; see `rumi.models.schema_rules`."""

OFFLINE: Final = "offline"
CUSTOM: Final = "custom"
PLUGIN: Final = "plugin"
"""The schemes of a configured server, and of an adapter that a plugin brings: `plugin:NAME:MODEL`."""


@dataclass(frozen=True, slots=True)
class KnownModel:
    """Facts about a model, or about all models with a common prefix if the name ends with `*`.

    `context` is the context length in tokens. `pictures`, `temperature` and `effort` say whether the model
    accepts pictures, a temperature and a reasoning effort. `schema` says whether the model's server enforces
    a JSON schema. `tools` says what the model's server accepts in the schemas of tools.
    """

    name: str
    context: int | None = None
    pictures: bool = False
    schema: bool = True
    effort: bool = False
    temperature: bool = True
    tools: SchemaRules = "open"

    def fits(self, model: str) -> bool:
        """Return True if these facts apply to the model."""
        return model.startswith(self.name[:-1]) if self.name.endswith("*") else model == self.name


@dataclass(frozen=True, slots=True)
class Provider:
    """A model provider, such as OpenAI or a local server: one row of the table of providers.

    `key` is the name of the variable that contains the API key; None if the server usually needs no key.
    `optional_key` is the name of a variable whose key is sent only if it is set. If `strict`, the server
    refuses requests with unknown fields. `max_tokens` is the name of the request field that limits the length
    of a reply. `call_ids` is the length of tool call ids, for a server that only accepts ids of letters and
    digits with this exact length. If `signs`, the server signs tool calls and later refuses calls that lack
    their signature. If `local`, the server runs on the user's machine and costs nothing. `context` is the
    context length that Rumi requests from a server whose default length differs.
    """

    scheme: str
    title: str
    url: str
    key: str | None = None
    dialect: Dialect = "openai"
    models: tuple[KnownModel, ...] = ()
    optional_key: str = ""
    strict: bool = False
    max_tokens: str = "max_tokens"
    call_ids: int | None = None
    signs: bool = False
    local: bool = False
    context: int | None = None
    unknown: KnownModel = field(default=KnownModel("*"))
    """The facts to assume for a model that is not listed."""
    key_form: str = ""
    """A regular expression that matches the provider's API keys completely; those of others may match too."""
    suggested: str = ""
    """The model to suggest for a new key; if empty, the first one of `models` with a complete name."""

    @property
    def first_model(self) -> str:
        """The model to suggest to a user who has only a key."""
        return self.suggested or next((m.name for m in self.models if not m.name.endswith("*")), "")

    @property
    def base_url_variable(self) -> str:
        """The name of the environment variable that overrides the provider's URL."""
        return f"{self.scheme.upper()}_BASE_URL"

    @property
    def key_variable(self) -> str:
        """The name of the variable that contains the API key, whether the key is required or optional."""
        return self.key or self.optional_key

    def model(self, name: str) -> KnownModel:
        """Return the facts about a model: its own entry, or the entry with the longest matching prefix."""
        for model in self.models:
            if model.name == name:
                return model
        found = [model for model in self.models if model.fits(name)]
        return max(found, key=lambda model: len(model.name), default=self.unknown)


def _claude(name: str, context: int, *, effort: bool = True) -> KnownModel:
    # Newer models refuse a temperature.
    return KnownModel(name, context, pictures=True, schema=False, effort=effort, temperature=not effort)


_MILLION: Final = 1_000_000
_OSS: Final = KnownModel("openai/gpt-oss-*", 131_072, effort=True)

_ROWS: Final = (
    Provider(
        "groq",
        "Groq",
        "https://api.groq.com",
        "GROQ_API_KEY",
        "groq",
        (
            KnownModel("openai/gpt-oss-120b", 131_072, effort=True),
            KnownModel("openai/gpt-oss-20b", 131_072, effort=True),
            _OSS,
            KnownModel("meta-llama/llama-4-*", 131_072, pictures=True, schema=False),
            KnownModel("llama-3.1-*", 131_072, schema=False),
            KnownModel("llama-3.3-*", 131_072, schema=False),
            KnownModel("qwen/qwen3*", 131_072, schema=False),
            KnownModel("moonshotai/kimi-k2*", 131_072, schema=False),
        ),
        max_tokens="max_completion_tokens",
        unknown=KnownModel("*", schema=False),
        key_form=r"gsk_[\w-]{8,}",
    ),
    Provider(
        "openai",
        "OpenAI",
        "https://api.openai.com/v1",
        "OPENAI_API_KEY",
        models=(
            KnownModel("gpt-5", 400_000, pictures=True, effort=True, temperature=False),
            KnownModel("gpt-5-mini", 400_000, pictures=True, effort=True, temperature=False),
            KnownModel("gpt-5-nano", 400_000, pictures=True, effort=True, temperature=False),
            KnownModel("gpt-5.1", 400_000, pictures=True, effort=True, temperature=False),
            KnownModel("gpt-5-chat*", 128_000, pictures=True),
            KnownModel("gpt-5*", 400_000, pictures=True, effort=True, temperature=False),
            KnownModel("gpt-4.1", 1_047_576, pictures=True),
            KnownModel("gpt-4.1-mini", 1_047_576, pictures=True),
            KnownModel("gpt-4.1-nano", 1_047_576, pictures=True),
            KnownModel("gpt-4.1*", 1_047_576, pictures=True),
            KnownModel("gpt-4o", 128_000, pictures=True),
            KnownModel("gpt-4o-mini", 128_000, pictures=True),
            KnownModel("gpt-4o*", 128_000, pictures=True),
            KnownModel("o3", 200_000, pictures=True, effort=True, temperature=False),
            KnownModel("o4-mini", 200_000, pictures=True, effort=True, temperature=False),
            KnownModel("o3*", 200_000, effort=True, temperature=False),
            KnownModel("o4*", 200_000, effort=True, temperature=False),
        ),
        max_tokens="max_completion_tokens",
        key_form=r"sk-(?!ant-|or-)[\w-]{16,}",
    ),
    Provider(
        "anthropic",
        "Anthropic",
        "https://api.anthropic.com",
        "ANTHROPIC_API_KEY",
        "anthropic",
        (
            _claude("claude-opus-5-5", _MILLION),
            _claude("claude-sonnet-5-5", _MILLION),
            _claude("claude-haiku-5-5", _MILLION),
            _claude("claude-opus-5", _MILLION),
            _claude("claude-opus-4-6", _MILLION),
            _claude("claude-sonnet-4-6", _MILLION),
            _claude("claude-opus-4-5*", 200_000),
            _claude("claude-opus-4-5", 200_000),
            _claude("claude-sonnet-4-5", 200_000, effort=False),
            _claude("claude-haiku-4-5", 200_000, effort=False),
        ),
        unknown=KnownModel("*", 200_000, pictures=True, schema=False, temperature=False),
        key_form=r"sk-ant-[\w-]{8,}",
    ),
    Provider(
        "gemini",
        "Google Gemini",
        "https://generativelanguage.googleapis.com/v1beta/openai",
        "GEMINI_API_KEY",
        models=(
            KnownModel("gemini-2.5-flash", 1_048_576, pictures=True, effort=True, tools="gemini"),
            KnownModel("gemini-2.5-flash-lite", 1_048_576, pictures=True, effort=True, tools="gemini"),
            KnownModel("gemini-2.5-pro", 1_048_576, pictures=True, effort=True, tools="gemini"),
            KnownModel("gemini-*", 1_048_576, pictures=True, effort=True, tools="gemini"),
        ),
        signs=True,
        unknown=KnownModel("*", tools="gemini"),
        key_form=r"AIza[\w-]{30,}",
    ),
    Provider(
        "mistral",
        "Mistral",
        "https://api.mistral.ai/v1",
        "MISTRAL_API_KEY",
        models=(
            KnownModel("mistral-large-*", 128_000, pictures=True),
            KnownModel("mistral-medium-2508", 128_000, pictures=True),
            KnownModel("mistral-medium-*", 128_000, pictures=True),
            KnownModel("mistral-small-*", 128_000, pictures=True),
            KnownModel("pixtral-*", 128_000, pictures=True),
            KnownModel("codestral-*", 128_000),
            KnownModel("devstral-*", 128_000),
        ),
        strict=True,
        call_ids=9,
        key_form=r"(?=\w*[a-z])(?=\w*[A-Z])(?=\w*\d)[A-Za-z0-9]{32}",
    ),
    Provider(
        "deepseek",
        "DeepSeek",
        "https://api.deepseek.com",
        "DEEPSEEK_API_KEY",
        models=(
            KnownModel("deepseek-chat", 128_000, schema=False),
            KnownModel("deepseek-reasoner", 128_000, schema=False),
        ),
        unknown=KnownModel("*", schema=False),
        key_form=r"sk-[0-9a-f]{32}",
    ),
    Provider(
        "xai",
        "xAI",
        "https://api.x.ai/v1",
        "XAI_API_KEY",
        models=(
            KnownModel("grok-4-0709", 256_000, pictures=True),
            KnownModel("grok-4*", 256_000, pictures=True),
            KnownModel("grok-3-mini", 131_072, effort=True),
            KnownModel("grok-3", 131_072),
            KnownModel("grok-code-fast-1", 256_000),
        ),
        key_form=r"xai-[\w-]{16,}",
    ),
    Provider(
        "openrouter",
        "OpenRouter",
        "https://openrouter.ai/api/v1",
        "OPENROUTER_API_KEY",
        models=(
            KnownModel("anthropic/claude-*", 200_000, pictures=True, schema=False),
            KnownModel("openai/gpt-5*", 400_000, pictures=True, effort=True),
            KnownModel("openai/gpt-4*", 128_000, pictures=True),
            _OSS,
            KnownModel("google/gemini-*", 1_048_576, pictures=True, tools="gemini"),
            KnownModel("deepseek/*", 128_000, schema=False),
        ),
        key_form=r"sk-or-[\w-]{8,}",
        suggested="openai/gpt-oss-120b",
    ),
    Provider(
        "ollama",
        "Ollama",
        "http://127.0.0.1:11434",
        dialect="ollama",
        models=(
            KnownModel("gpt-oss*", effort=True),
            *(
                KnownModel(f"{name}*", pictures=True)
                for name in ("gemma3", "llava", "bakllava", "llama3.2-vision", "qwen2.5vl", "qwen3-vl")
            ),
            *(KnownModel(f"{name}*", pictures=True) for name in ("minicpm-v", "moondream", "llama4")),
        ),
        optional_key="OLLAMA_API_KEY",
        local=True,
        context=16_384,
    ),
    Provider(
        "llamacpp",
        "llama.cpp",
        "http://127.0.0.1:8080/v1",
        optional_key="LLAMACPP_API_KEY",
        local=True,
        unknown=KnownModel("*", tools="grammar"),
    ),
)

PROVIDERS: Final[Mapping[str, Provider]] = {row.scheme: row for row in _ROWS}

SCHEMES: Final = (*PROVIDERS, CUSTOM, PLUGIN)
"""The allowed schemes. The scheme is the part of a model's name before the colon."""

CHOICES: Final = f"{', '.join(f'{scheme}:NAME' for scheme in SCHEMES)} and {OFFLINE}"
"""The allowed formats of model names, for error messages."""


def known(name: str) -> KnownModel | None:
    """Return the facts about model `PROVIDER:NAME`; None for `custom:`, `offline` and unknown providers."""
    scheme, _, model = name.partition(":")
    return PROVIDERS[scheme].model(model) if scheme in PROVIDERS else None


def is_local(name: str) -> bool:
    """Return True if the model's server runs on the user's machine, so that tokens cost nothing."""
    scheme = name.partition(":")[0]
    return scheme in PROVIDERS and PROVIDERS[scheme].local


def key_owner(name: str) -> str:
    """Return the name under which a model's key is stored: the provider's scheme, or `custom:NAME`."""
    scheme = name.partition(":")[0]
    return name if scheme == CUSTOM else scheme


def key_owners(key: str) -> tuple[str, ...]:
    """Return the schemes of the providers whose API keys have this form; most often one or none."""
    return tuple(
        scheme for scheme, row in PROVIDERS.items() if row.key_form and re.fullmatch(row.key_form, key)
    )


def pasted_secret(text: str) -> str:
    """Return the secret or the possible API key if a text is nothing else; otherwise an empty text."""
    word = only_word(text)
    return word if word and (only_secret(word) or key_owners(word)) else ""
