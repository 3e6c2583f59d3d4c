"""Research: a model reads sources, which are numbered and stored, and the program checks its answer.

A research runs as a task: the task gives the instructions and the tools to a model, and the model's answer to
`check`.
"""
