"""A bot's project: a copy of a user's folder that the bot works on; its changes can be applied to the folder.

The program first copies the user's folder; this copy is called the base (`link`). Then it puts the files of
the base into the bot's workspace (`cloning`). Later the program compares the bot's files with the base, and
applies the changes that a person has seen: `rumi.sandbox.project`, which this package gives the words about
bots.
"""
