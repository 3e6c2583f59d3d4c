"""The journal: `state.db` with received messages, replies and history, and the only actor that writes it.

Each subject has a module with its requests (`inbox`, `outbox`, `history`, `tasks`, …). In these modules, each
request class is followed by the step that executes the request in a transaction.
"""
