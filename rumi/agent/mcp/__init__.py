"""Client of the Model Context Protocol: tools that other programs (MCP servers) provide.

The library for the protocol is imported in a thread when the first configured server starts.
"""
