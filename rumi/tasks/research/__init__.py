"""Research: a model reads sources; the program stores the sources, and checks the model's answer.

The program numbers the sources. All research runs as tasks. A research task gives the instructions and the
tools to a model, and passes the model's answer to `check`.
"""
