"""What the program says in English, in Spanish: `SENTENCES`, by the English sentence.

`{names}` stand for values, the same ones on both sides. A test wants every sentence of an error and of the
command line to be here.
"""

from typing import Final

from rumi.texts.spanish.bots import BOTS
from rumi.texts.spanish.commands import COMMANDS
from rumi.texts.spanish.doctor import DOCTOR
from rumi.texts.spanish.mcp import MCP
from rumi.texts.spanish.people import PEOPLE
from rumi.texts.spanish.repositories import REPOSITORIES
from rumi.texts.spanish.research import RESEARCH
from rumi.texts.spanish.running import RUNNING
from rumi.texts.spanish.sandbox import SANDBOX
from rumi.texts.spanish.settings import SETTINGS
from rumi.texts.spanish.skills import SKILLS
from rumi.texts.spanish.web import WEB

SENTENCES: Final[dict[str, str]] = {
    **SETTINGS,
    **RUNNING,
    **SANDBOX,
    **SKILLS,
    **MCP,
    **PEOPLE,
    **WEB,
    **RESEARCH,
    **REPOSITORIES,
    **COMMANDS,
    **BOTS,
    **DOCTOR,
}
