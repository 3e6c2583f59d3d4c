"""The configuration: config.toml, environment variables and flags; API keys and tokens; the path of the home.

The modules that define `load_settings` and its result import pydantic. This import takes longer than some
whole commands, so import them only inside the functions that use them.
"""
