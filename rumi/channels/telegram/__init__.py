"""Telegram: receives updates and sends replies. The only package that uses python-telegram-bot.

`receiving` accepts updates, `sending` sends replies, `formatting` converts Markdown to messages, `files`
downloads users' files, and `api` wraps the Bot API. `channel` combines them into the Telegram channel.
"""

import sys

# Libraries that python-telegram-bot and httpcore import if they are installed: for Telegram Passport and for
# HTTP/2, which Rumi does not use. Without them, the process needs 8 MB less.
_UNUSED = {name for name in ("cryptography", "h2") if name not in sys.modules}
sys.modules.update(dict.fromkeys(_UNUSED))  # type: ignore[arg-type]  # None makes an import fail
try:
    from rumi.channels.telegram.api.bot import ask_who
    from rumi.channels.telegram.channel import Telegram
finally:
    for _name in _UNUSED:
        del sys.modules[_name]

__all__ = ["Telegram", "ask_who"]
