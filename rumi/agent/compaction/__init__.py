"""Compaction: a text of bounded size takes the place of the beginning of a conversation in prompts.

The text has two parts. The first is a summary that a model writes under fixed headings (`summaries`, whose
form `form` defines and checks). The second is the record (`record`): what the program knows exactly from the
calls and their results, namely files, the todo list and errors. Chats compact the history between turns
(`rumi.chats.summing`), and a long turn compacts its own steps (`rumi.agent.fitting`, `rumi.agent.turn`).
"""
