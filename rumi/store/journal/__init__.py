"""The journal: `state.db` with its inbox, outbox and history, and the only actor that writes the file.

Each subject has a module with its requests (`inbox`, `outbox`, `history`, `tasks`, …). In these modules, each
request class is followed by the step that executes the request in a transaction.
"""
