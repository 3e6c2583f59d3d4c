"""Tools of other programs, by the Model Context Protocol: this Rumi is their client.

The client library is imported when the first configured server starts, in a thread.
"""
