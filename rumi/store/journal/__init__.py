"""The journal: `state.db` with received messages, replies and history, and the only actor that writes it.

Each subject has a module with its steps (`inbox`, `outbox`, `history`, `tasks`, …): functions that run in a
transaction. Calling a step makes the request that the journal executes: `await journal.ask(begin_task(7))`.
"""
