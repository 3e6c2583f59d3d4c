"""The configuration: config.toml, environment variables and flags; keys and tokens; the path of the home.

`load_settings` and the class of its result import pydantic, which takes longer than some complete commands.
Import these names only where they are used.
"""
