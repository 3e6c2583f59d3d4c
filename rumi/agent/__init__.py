"""One turn of the assistant: model calls and tool calls, until an answer or a circuit breaker ends the turn.

The package does not depend on chats.
"""
