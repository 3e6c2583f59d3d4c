"""Names of built-in tools that several parts of the program treat alike."""

from typing import Final

BASH_TOOLS: Final = ("bash", "bash_output", "bash_stop")
"""`bash`, and the tools that look after its background commands."""

CHANGING_FILES: Final = ("edit_file", "write_file")
FILE_TOOLS: Final = ("read_file", *CHANGING_FILES)
NOTHING_NEW: Final = "nothing_new"
