"""The journal: `state.db` with its inbox, outbox and history, and the one actor that writes it.

The requests stand in a module for each subject (`inbox`, `outbox`, `history`, `tasks`, …), each above the
step that executes it in a transaction.
"""
