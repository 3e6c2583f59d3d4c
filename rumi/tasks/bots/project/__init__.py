"""A bot's project: a copy of a folder of the user, which the bot works on, and whose changes come back.

The program copies the folder (`link`, `tree`, `ignoring`) and gives the copy to the bot (`cloning`). Later it
compares what the bot has with that copy (`changes`), and applies what people were shown (`applying`).
"""
