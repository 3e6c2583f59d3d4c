"""Model settings for tests, with values that the configuration would refuse too."""

from collections.abc import Mapping

from rumi.errors import ConfigError
from rumi.models.settings import ModelSettings
from rumi.platform.config.schema import CustomServerSection, ModelSection
from rumi.platform.config.secrets import Secret, Secrets


def custom_server(base_url: str, model: str, *, pictures: bool = False) -> CustomServerSection:
    """Return the section of a server; its address is not checked."""
    return CustomServerSection.model_construct(base_url=base_url, model=model, pictures=pictures)


def model_settings(
    default: str = ModelSection().default,
    fallbacks: tuple[str, ...] = ModelSection().fallbacks,
    *,
    keys: Mapping[str, str] | None = None,
    base_urls: Mapping[str, str] | None = None,
    faults: Mapping[str, ConfigError] | None = None,
    commands: Mapping[str, str] | None = None,
    **section: object,
) -> ModelSettings:
    """Return model settings; `keys`, `base_urls`, `faults` and `commands` are by the server's name."""
    secrets = Secrets(
        keys={name: Secret(key) for name, key in (keys or {}).items()},
        base_urls=base_urls or {},
        faults=faults or {},
        commands=commands or {},
    )
    return ModelSettings(secrets=secrets).changed(default=default, fallbacks=fallbacks, **section)
