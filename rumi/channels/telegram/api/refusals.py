"""Classification of Telegram's refusals. The sender decides by the reason of a refusal what to do next.

The Bot API gives no error codes for refusals, only sentences. `_FRAGMENTS` contains parts of these sentences,
in lower case.
"""

from enum import Enum, auto

import httpx
from telegram.error import BadRequest, Forbidden, NetworkError, TelegramError, TimedOut

from rumi.channels.telegram.api.guarded import NO_ANSWER


class RefusalReason(Enum):
    """The reason for which Telegram permanently refuses a request."""

    GONE = auto()
    """Nothing can be sent to this chat any more."""
    ENTITIES = auto()
    """The formatting is invalid."""
    TOPIC = auto()
    """The topic no longer exists, or is closed."""
    QUOTED = auto()
    """The message to reply to no longer exists."""
    UNCHANGED = auto()
    """The edit would change nothing."""
    NOT_EDITABLE = auto()
    """The message to edit no longer exists, or cannot be edited."""
    NOT_DELETABLE = auto()
    """The message cannot be deleted, because it is older than 48 hours."""
    OTHER = auto()


_FRAGMENTS: tuple[tuple[RefusalReason, tuple[str, ...]], ...] = (
    (RefusalReason.UNCHANGED, ("message is not modified", "message_not_modified")),
    (
        RefusalReason.NOT_EDITABLE,
        (
            "message to edit not found",
            "message can't be edited",
            "message_id_invalid",
            "message identifier is not specified",
            "message_edit_time_expired",
            "message_author_required",
        ),
    ),
    (RefusalReason.NOT_DELETABLE, ("message can't be deleted", "message_delete_forbidden")),
    (
        RefusalReason.QUOTED,
        (
            *("replied not found", "to reply not found", "reply message not found"),
            *("reply_message_id_invalid", "reply_to_invalid"),
        ),
    ),
    (RefusalReason.TOPIC, ("message thread not found", "topic_deleted", "topic_closed", "topic_id_invalid")),
    (
        RefusalReason.GONE,
        (
            "chat not found",
            "user not found",
            "user is deactivated",
            "user_is_blocked",
            "input_user_deactivated",
            "group chat was deactivated",
            "group chat was deleted",
            "bot was kicked",
            "bot was blocked",
            "bot is not a member",
            "not enough rights to send",
            "have no rights to send",
            "need administrator rights",
            "have no write access",
            "chat_write_forbidden",
            "chat_admin_required",
            "chat_forbidden",
            "chat_guest_send_forbidden",
            "chat_restricted",
            "chat_send_plain_forbidden",
            "chat_id_invalid",
            "peer_id_invalid",
            "user_banned_in_channel",
            "user_deactivated",
            "channel_private",
        ),
    ),
    (RefusalReason.ENTITIES, ("entit", "can't parse", "url_invalid", "custom_emoji", "document_invalid")),
)


def refusal_of(error: TelegramError) -> RefusalReason | None:
    """Return the reason for a refusal; None if the error is a network error or a rate limit."""
    if isinstance(error, Forbidden):
        return RefusalReason.GONE
    if not isinstance(error, BadRequest):
        return None
    said = str(error).lower()
    for kind, fragments in _FRAGMENTS:
        if any(fragment in said for fragment in fragments):
            return kind
    return RefusalReason.OTHER


def never_left(error: TelegramError) -> bool:
    """Return True if the failed request certainly never reached Telegram.

    If the result is False, Telegram may have executed the request already, or may still execute it.
    """
    return isinstance(error.__cause__, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)


def answer_lost(error: TelegramError) -> bool:
    """Return True if Telegram may have executed the failed request, because its answer did not arrive.

    An error that the server reported is an answer, also a server error such as 502.
    """
    if not isinstance(error, NetworkError) or isinstance(error, BadRequest) or never_left(error):
        return False
    return isinstance(error, TimedOut) or error.__cause__ is not None or error.message == NO_ANSWER
