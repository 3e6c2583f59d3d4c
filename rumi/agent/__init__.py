"""One turn of the assistant: model calls and tool calls, until the model answers or a circuit breaker ends
the turn.

The package does not depend on chats.
"""
