"""Secrets that the process has got since it runs, such as the tokens of a login. All redactors hide them."""

import threading
from collections.abc import Iterable
from typing import Final

MOST_LEARNED: Final = 256
"""Maximum number of learned secrets; those that were learned longest ago are dropped first."""


class LearnedSecrets:
    """The secrets of a process besides those of its configuration. Threads may share it.

    `generation` counts the changes, so that redactors notice them without a lock.
    """

    def __init__(self) -> None:
        self.generation = 0
        self._secrets: dict[str, None] = {}
        self._lock = threading.Lock()

    def learn(self, secrets: Iterable[str]) -> None:
        """Have all redactors of this process hide these secrets from now on."""
        found = [secret for secret in secrets if secret]
        with self._lock:
            if all(secret in self._secrets for secret in found):
                return
            for secret in found:
                self._secrets.pop(secret, None)  # last in the dictionary, whose first entry is dropped
                self._secrets[secret] = None
            while len(self._secrets) > MOST_LEARNED:
                del self._secrets[next(iter(self._secrets))]
            self.generation += 1

    def state(self) -> tuple[int, tuple[str, ...]]:
        """Return the generation and the secrets that belong to it."""
        with self._lock:
            return self.generation, tuple(self._secrets)


LEARNED: Final = LearnedSecrets()
"""The learned secrets of this process. A secret belongs to the process, so there is one for all redactors."""
