"""Work on the files of a user's folder: scan them, compare them with a changed version, apply the changes.

Bots use this for their projects, and chats for the folders that they are linked to.
"""
