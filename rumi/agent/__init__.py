"""The turn: think, act, observe, until there is an answer or a breaker trips. Independent of chats."""
