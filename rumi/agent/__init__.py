"""The turn: think, act, observe, until there is an answer or a breaker trips. It does not depend on chats."""
