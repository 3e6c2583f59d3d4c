"""Tries API keys of models, and stores a key that a person has pasted into the chat."""

from typing import TYPE_CHECKING, Any, Final

import trio

from rumi.texts import Language

if TYPE_CHECKING:
    from rumi.platform.config.cascade import Loaded
    from rumi.platform.home import Home

TRY_S: Final = 30.0
"""Maximum time for a model to answer the test call, in seconds."""


async def try_model(loaded: "Loaded", model: str, key: str = "", custom: Any = None) -> float:
    """Make one short call to a model; return its duration in seconds.

    Raises:
        RumiError: The model did not answer, or the server refused the key.
    """
    from rumi.models.build import build_models
    from rumi.models.settings import ModelSettings
    from rumi.models.trying import try_out
    from rumi.platform.config.providers import key_owner
    from rumi.platform.config.secrets import Secret, Secrets

    keys = {key_owner(model): Secret(key)} if key else {}
    settings = ModelSettings(secrets=Secrets(keys=keys, base_urls=loaded.secrets.base_urls)).changed(
        default=model,
        fallbacks=(),
        timeout_s=TRY_S,
        first_token_timeout_s=TRY_S,
        custom=custom or {},
    )
    models = build_models(settings)
    try:
        return await try_out(models)
    finally:
        await models.aclose()


class PastedKeyStore:
    """Stores keys that a person pastes into a chat. `adopted` is set when a new key is in the files."""

    def __init__(self, home: "Home", loaded: "Loaded", language: Language) -> None:
        self._home = home
        self._loaded = loaded
        self._language: Language = language
        self.adopted = trio.Event()

    def renew(self) -> None:
        """Wait for the next key: the files with the last one have been read again."""
        self.adopted = trio.Event()

    async def adopt(self, scheme: str, key: str) -> str:
        """Try a provider's key with the configured or the suggested model; store both; return a notice.

        On cancellation, nothing is stored.

        Raises:
            RumiError: The server refused the key or does not answer, or the files cannot be written.
        """
        from rumi.errors import single
        from rumi.platform.config.editing import set_keys, set_variables
        from rumi.platform.config.providers import PROVIDERS
        from rumi.platform.texts import models as model_texts

        row, now = PROVIDERS[scheme], self._loaded.settings.model.default
        model = now if now.startswith(f"{scheme}:") else f"{scheme}:{row.first_model}"
        try:
            took_s = await try_model(self._loaded, model, key)
        except Exception as error:  # noqa: BLE001  # raised again, without trio's groups
            raise single(error) from None
        path = self._home.root / ".env"
        set_variables(path, {row.key_variable: key})
        if model != now:
            set_keys(self._home.root / "config.toml", {"model.default": model})
        self.adopted.set()
        return model_texts.key_stored(self._language, model, took_s, str(path))
