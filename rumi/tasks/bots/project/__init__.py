"""A bot's project: a copy of a user's folder that the bot works on; its changes can be applied to the folder.

The program copies the folder as the base (`link`, `tree`, `ignoring`) and puts the copy into the bot's
workspace (`cloning`). Later the program compares the bot's files with the base (`changes`), and applies the
changes that a person has seen (`applying`).
"""
