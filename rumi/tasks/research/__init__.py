"""Research: a model reads sources, the program numbers and stores them, and checks the model's answer.

Each research runs as a task. The task gives the instructions and the tools to a model, and passes the model's
answer to `check`.
"""
