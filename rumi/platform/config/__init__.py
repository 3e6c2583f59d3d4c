"""The configuration: config.toml, the environment and flags; the keys and tokens; and the path of the home.

`load_settings` and its result import pydantic, which takes longer than some commands run: those names are
imported at their first use.
"""
