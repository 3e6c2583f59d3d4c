"""Language models: one streaming interface, and its implementations.

A turn gets a `Model` from `ModelSet.bind`: a fallback chain (`chain`) of models at servers. A server speaks
OpenAI's chat completions (`chat_completions`, with `wire` and `stream`) or another protocol (`native`:
`anthropic`, `ollama`). `reading` reads the servers' answers, with the help of `rates` (rate limits) and
`failures` (errors). The offline model (`offline`) needs no server. The `models` actor (`actor`, `limits`)
grants permits for model calls, shared fairly between chats. `registry` creates the models from `settings` and
the table in `rumi.platform.config.providers`; `build` is the entry point. `transcription` transcribes voice
messages; `trying` tests servers. Importing this package does not import the groq SDK, because only the first
call needs the SDK.
"""
