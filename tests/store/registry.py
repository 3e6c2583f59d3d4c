"""Finds the steps of a package."""

import pkgutil
from importlib import import_module
from types import ModuleType
from typing import Any

from rumi.store.steps import Step


def steps_in(package: ModuleType) -> tuple[Step[Any, ..., Any], ...]:
    """Return all steps that the modules of a package define, each once."""
    names = (module.name for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."))
    found = (value for name in names for value in vars(import_module(name)).values())
    return tuple(dict.fromkeys(value for value in found if isinstance(value, Step)))
