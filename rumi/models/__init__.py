"""Models: one streaming interface, and its implementations.

A turn gets a `Model` from `ModelSet.bind`: a chain of attempts (`chain`) at servers that speak OpenAI's chat
completions (`chat_completions`, with `wire` and `stream`) or a protocol of their own (`native`: `anthropic`,
`ollama`), read by `reading` with `rates` and `failures`; or the offline model (`offline`). The `models` actor
shares permits fairly between chats (`actor`, `limits`). `registry` makes all that from the settings in
`build` and the table in `rumi.platform.config.providers`. `transcription` transcribes voice messages,
`trying` tries servers out. Importing this does not import the groq SDK: the first call does.
"""
