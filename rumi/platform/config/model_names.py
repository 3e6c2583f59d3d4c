"""The names of models: those that the configuration uses, and those that Rumi knows."""

from rumi.platform.config.cascade import Loaded
from rumi.platform.config.providers import OFFLINE, PROVIDERS


def known_names() -> tuple[str, ...]:
    """Return the full names of the models in the provider table, and `offline`."""
    names = (
        f"{scheme}:{model.name}"
        for scheme, row in PROVIDERS.items()
        for model in row.models
        if not model.name.endswith("*")
    )
    return (*names, OFFLINE)


def configured(loaded: Loaded) -> dict[str, tuple[str, ...]]:
    """Return the models that the configuration names, each with its uses, in order of first use."""
    model, research = loaded.settings.model, loaded.settings.research.model
    used: dict[str, tuple[str, ...]] = {}
    for name, use in (
        (model.default, "default"),
        *((name, "fallback") for name in model.fallbacks),
        *([(research, "research")] if research else []),
        *((name, f"alias {alias}") for alias, name in model.aliases.items()),
        *((f"custom:{name}", "custom") for name in model.custom),
    ):
        true = model.aliases.get(name, name)
        used[true] = (*used.get(true, ()), use)
    return used
