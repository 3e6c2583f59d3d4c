"""The configuration: config.toml, environment variables and flags; keys and tokens; the path of the home.

`load_settings` and the class of its result import pydantic. This import takes longer than some complete
commands, so import the two names only in functions that use them.
"""
