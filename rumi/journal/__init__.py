"""The journal: `state.db` with its inbox, outbox and history, and the one actor that writes it."""

from rumi.journal.actor import Journal, Offload, OneThread
from rumi.journal.messages import (
    Accept,
    Append,
    Begin,
    ChatRecord,
    Count,
    Delivered,
    Entry,
    Figures,
    JournalMessage,
    Load,
    NewSession,
    OpenChats,
    OpenMessage,
    Retriable,
    Settle,
    StoredReply,
    Undelivered,
)
from rumi.journal.store import JournalError

__all__ = [
    "Accept",
    "Append",
    "Begin",
    "ChatRecord",
    "Count",
    "Delivered",
    "Entry",
    "Figures",
    "Journal",
    "JournalError",
    "JournalMessage",
    "Load",
    "NewSession",
    "Offload",
    "OneThread",
    "OpenChats",
    "OpenMessage",
    "Retriable",
    "Settle",
    "StoredReply",
    "Undelivered",
]
