"""One turn of the assistant: model calls and tool calls, until there is an answer or a circuit breaker trips.

The package does not depend on chats.
"""
