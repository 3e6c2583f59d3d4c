"""API keys that a person pastes into the chat: they configure a model, and are never sent as messages."""

from collections.abc import Awaitable, Callable
from typing import Final

from rumi.channels.terminal.options import KeyAdopter
from rumi.channels.terminal.words import Reader
from rumi.errors import RumiError
from rumi.platform.config.providers import PROVIDERS, key_owners, pasted_secret
from rumi.platform.redact import Redactor
from rumi.platform.secret_forms import only_secret
from rumi.platform.texts import models as model_texts
from rumi.platform.texts.translation import error_text

SHOWN_CHARS: Final = 4
"""Number of characters of a pasted key that are shown: its provider's prefix."""


class PastedKeys:
    """Takes typed lines that are nothing but a secret, and the answers to the question whose key it is.

    The secret is kept in memory only, until the question is answered.
    """

    def __init__(
        self, adopter: KeyAdopter | None, reader: Reader, notice: Callable[[str], Awaitable[None]]
    ) -> None:
        self._adopter = adopter
        self._reader = reader
        self._notice = notice
        self._key = ""
        self._owners: tuple[str, ...] = ()

    def shown(self, text: str) -> str:
        """Return a typed line as it may be shown and stored: without the secret, if it is one."""
        secret = pasted_secret(text)
        return f"{secret[:SHOWN_CHARS]}…" if secret else text

    async def take(self, text: str) -> str | None:
        """Handle a typed line; return the message to send, or None if the line was handled here.

        The message differs from the line if the person has said that a pasted word is not a key.
        """
        language = self._reader.language
        if self._key:
            key, owners, self._key = self._key, self._owners, ""
            owner = _chosen(text, owners)
            if owner is not None:
                await self._adopt(owner, key)
                return None
            if text.strip() == str(len(owners) + 1) and not only_secret(key):
                return key  # the person says that it is none
            await self._notice(model_texts.key_dropped(language))
            return None if text.strip().isdecimal() else await self.take(text)
        secret = pasted_secret(text)
        if not secret:
            return text
        owners = key_owners(secret)
        if self._adopter is None or not owners:
            await self._notice(model_texts.secret_not_sent(language))
        elif len(owners) == 1 and only_secret(secret):
            await self._adopt(owners[0], secret)
        else:
            self._key, self._owners = secret, owners
            titles = [PROVIDERS[owner].title for owner in owners]
            await self._notice(model_texts.whose_key(language, titles, sure=bool(only_secret(secret))))
        return None

    async def _adopt(self, owner: str, key: str) -> None:
        language = self._reader.language
        assert self._adopter is not None
        await self._notice(model_texts.trying_key(language, PROVIDERS[owner].title))
        try:
            said = await self._adopter.adopt(owner, key)
        except RumiError as error:
            # A server may quote the key in its error.
            reason = Redactor((key,)).text(error_text(language, error))
            said = model_texts.key_not_used(language, reason)
        await self._notice(said)


def _chosen(text: str, owners: tuple[str, ...]) -> str | None:
    """Return the provider that an answer names, by number or name; None if it names none."""
    answer = text.strip().casefold()
    for number, owner in enumerate(owners, 1):
        if answer in (str(number), owner, PROVIDERS[owner].title.casefold()):
            return owner
    return None
