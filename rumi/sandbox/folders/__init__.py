"""Folders of a person's machine that chats work on: each chat sees its folder, which only an apply changes.

`links` says which chat works on which folder; `views` shows a folder with a chat's changes above it; `layer`
reads the changes; `copied` is the copy where no view is possible; `linked` puts the parts together. Other
packages use `rumi.sandbox.chat_files`.
"""
