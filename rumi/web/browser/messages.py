"""The settings of browsers, their errors, and the steps and results of the browser actor."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from actors import Request
from rumi.errors import RumiError
from rumi.platform.redact import Redactor
from rumi.web.browser.snapshot import PageSnapshot
from rumi.web.resolver import Resolver


class BrowserError(RumiError):
    """The browser cannot be used. The advice is for people."""


class BrowserEnded(BrowserError):
    """The browser has ended by itself, with all its pages."""

    def __init__(self) -> None:
        super().__init__("The browser has ended.", "Try again: it is started again.")


class PageError(BrowserError):
    """A step on a page was not done. The model can follow the advice."""

    advises_models = True


@dataclass(frozen=True, slots=True)
class Password:
    """A password that the program types on one host. `fault` is an error if its value could not be read.

    It is typed for `people` only, by their names in the configuration; empty is the owner of the home.
    """

    host: str
    value: str = field(repr=False, default="")
    fault: RumiError | None = None
    people: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BrowserSettings:
    """The section `[browser]`, with the passwords' values.

    `program` is empty if the browser is to be found. `allow` lists the `ip:port` pairs that the address guard
    accepts. `redact` hides all secrets of the installation in what pages say.
    """

    program: str = ""
    idle_s: float = 300.0
    timeout_s: float = 30.0
    max_bytes: int = 1 << 30
    max_pages: int = 5
    allow: tuple[str, ...] = ()
    passwords: Mapping[str, Password] = field(default_factory=dict)
    redact: Redactor = field(default=Redactor(()), repr=False, compare=False)
    resolver: Resolver | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Filling:
    """What is put into one field: a text, an option or a state such as `on`; or a password by its name."""

    ref: str
    text: str = ""
    password: str = ""


@dataclass(frozen=True, slots=True)
class OpenPage:
    """Open a URL in the chat's page."""

    url: str


@dataclass(frozen=True, slots=True)
class GoBack:
    """Go back to the page before."""


@dataclass(frozen=True, slots=True)
class Look:
    """Read the page again; with `scroll`, one screen further down; with `picture`, as a picture too."""

    scroll: bool = False
    picture: bool = False


@dataclass(frozen=True, slots=True)
class Act:
    """Fill in fields, and then press `press`, an element's reference or `enter`; empty to press nothing.

    `approved` means that a person was asked about exactly this or has asked for it: only then may the page
    send anything but GET requests. A confirm dialog with exactly the text `accept` is then accepted.
    """

    fillings: Sequence[Filling] = ()
    press: str = ""
    approved: bool = False
    accept: str = ""


Step: TypeAlias = OpenPage | GoBack | Look | Act


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a step led to: the page as it is now, what happened on the way, and a picture if it was asked for.

    `events` are sentences for the model; they contain words of the page.
    """

    snapshot: PageSnapshot
    events: tuple[str, ...] = ()
    picture: bytes = b""


@dataclass(frozen=True, slots=True)
class DoStep(Request[StepResult]):
    """Request to do a step on the page of a chat. On cancellation, the page is closed.

    Raises:
        BrowserError: The browser cannot be used, or the step was not done.
    """

    chat: str
    step: Step


BrowserMessage: TypeAlias = DoStep

Sending: TypeAlias = Literal["page", "nothing", "approved"]
"""What a page may send besides GET requests: see `rumi.web.browser.sending`."""
