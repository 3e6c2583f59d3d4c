"""The journal: `state.db` with its inbox, outbox and history, and the one actor that writes it.

Each subject has a module for its requests (`inbox`, `outbox`, `history`, `tasks`, …). In it, each request
class is followed by the step that executes the request in a transaction.
"""
