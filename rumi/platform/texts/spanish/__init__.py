"""What the program says in English, in Spanish: `SENTENCES`, by the English sentence.

`{names}` stand for values, the same ones on both sides. A test wants every sentence of an error and of the
command line to be here.
"""

from typing import Final

from rumi.platform.texts.spanish.bots import BOTS
from rumi.platform.texts.spanish.commands import COMMANDS
from rumi.platform.texts.spanish.doctor import DOCTOR
from rumi.platform.texts.spanish.mcp import MCP
from rumi.platform.texts.spanish.people import PEOPLE
from rumi.platform.texts.spanish.repositories import REPOSITORIES
from rumi.platform.texts.spanish.research import RESEARCH
from rumi.platform.texts.spanish.running import RUNNING
from rumi.platform.texts.spanish.sandbox import SANDBOX
from rumi.platform.texts.spanish.settings import SETTINGS
from rumi.platform.texts.spanish.skills import SKILLS
from rumi.platform.texts.spanish.web import WEB

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
