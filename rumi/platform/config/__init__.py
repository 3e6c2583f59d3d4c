"""The configuration: config.toml, environment variables and flags; keys and tokens; the path of the home.

`load_settings` and its result import pydantic, which takes longer than some whole commands. Import those
names at their first use.
"""
