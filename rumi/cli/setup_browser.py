"""The question of `rumi setup` about the browser, which is tried."""

from functools import partial

from rumi.cli import run_async
from rumi.cli.setup_asking import Asks
from rumi.texts import Text


def ask_browser(asks: Asks) -> None:
    """Ask whether the assistant may use a browser; try it, and note a changed answer."""
    from rumi.app.parts.browser import browser_settings_of
    from rumi.web.browser.trying import try_browser

    now = asks.loaded.settings.browser.enabled
    choices = [("no", Text("no")), ("yes", Text("yes: questions are asked before anything is sent"))]
    question = Text("May the assistant use a browser, with a profile of its own for each owner?")
    wanted = asks.choose(question, choices, "yes" if now else "no") == "yes"
    if wanted:
        asks.say(Text("Trying the browser…"))
        try:
            found = run_async(partial(try_browser, browser_settings_of(asks.loaded)))
            asks.say(Text("{browser} works.", browser=found))
        except Exception as error:  # noqa: BLE001  # raised again, unless it is expected
            asks.explain(error)
    if wanted != now:
        asks.keys["browser.enabled"] = "true" if wanted else "false"
