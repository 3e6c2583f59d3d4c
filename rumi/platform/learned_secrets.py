"""Secrets that the process has got since it runs, such as the tokens of a login. All redactors hide them."""

import threading
from collections.abc import Iterable
from typing import Final


class LearnedSecrets:
    """The secrets of a process besides those of its configuration, by where they are from.

    Each source has its secrets and those before them, because texts may still have these. `generation` counts
    the changes, so that redactors notice them without a lock. Threads may share it.
    """

    def __init__(self) -> None:
        self.generation = 0
        self._current: dict[str, tuple[str, ...]] = {}
        self._before: dict[str, tuple[str, ...]] = {}
        self._lock = threading.Lock()

    def learn(self, source: str, secrets: Iterable[str]) -> None:
        """Have all redactors of this process hide the secrets of a source from now on."""
        found = tuple(secret for secret in secrets if secret)
        with self._lock:
            if found == self._current.get(source, ()):
                return
            self._before[source] = self._current.get(source, ())
            self._current[source] = found
            self.generation += 1

    def state(self) -> tuple[int, tuple[str, ...]]:
        """Return the generation and the secrets that belong to it."""
        with self._lock:
            known = (*self._current.values(), *self._before.values())
            return self.generation, tuple(secret for secrets in known for secret in secrets)


LEARNED: Final = LearnedSecrets()
"""The learned secrets of this process. A secret belongs to the process, so there is one for all redactors."""
