"""English words and sentences that other processes, stored rows and status figures contain as codes."""

from collections.abc import Mapping
from typing import Final

from rumi.texts import Language, Text, translate


def known(code: str) -> str:
    """Return the `Text` for a code of ours, and any other string unchanged."""
    return _WORDS.get(code.replace("_", " "), code)


def in_words(language: Language, code: str) -> str:
    """Return a code of ours in the language, and any other string unchanged."""
    return translate(language, known(code))


_WORDS: Final[Mapping[str, Text]] = {
    str(text): text
    for text in (
        # States of actors, tasks, workers and servers of tools, and the titles of the counts of workers.
        Text("running"),
        Text("starting"),
        Text("stopping"),
        Text("stopped"),
        Text("restarting"),
        Text("suspended"),
        Text("failed"),
        Text("leaving"),
        Text("ended"),
        Text("queued"),
        Text("sleeping"),
        Text("succeeded"),
        Text("out of budget"),
        Text("interrupted"),
        Text("ready"),
        Text("not running"),
        Text("partitions"),
        Text("turns"),
        Text("undelivered"),
        Text("lease"),
        Text("lag"),
        # Rights of servers of tools, and of their tools.
        Text("sandbox"),
        Text("no sandbox"),
        Text("network"),
        Text("closed"),
        Text("trusted"),
        Text("fault"),
        Text("address"),
        Text("only reads"),
        Text("only reads, outside too"),
        Text("may change things"),
        Text("destroys"),
        # Uses of models, and states of their keys.
        Text("default"),
        Text("fallback"),
        Text("research"),
        Text("custom"),
        Text("set"),
        Text("not needed"),
        Text("cannot be read"),
        Text("command"),
        # Sources of skills.
        Text("project"),
        Text("home"),
        # What a chat or another actor does.
        Text("answering"),
        Text("thinking"),
        Text("acting"),
        Text("asking"),
        Text("waiting"),
        Text("waiting for a yes or a no"),
        Text("fetching what came with the message"),
        Text("ending what still runs"),
        Text("resetting"),
        Text("learning from the session"),
        # Why the store cannot be written.
        Text("the disk is full; no message is taken, make room"),
        Text("another program has locked state.db"),
        Text("the disk refuses to write"),
        Text("the database does not answer; no message is taken, start it or look at the network"),
        Text("state.db was deleted or replaced; end this process, restore the file, start again"),
        # What an engine cannot limit.
        # What readers of files and pages, which are processes of their own, could not do.
        Text("it takes too much memory"),
        Text("it is nested too deeply"),
        Text("it is not a picture in a known format"),
        Text("it does not become small enough"),
        # Why a document cannot be read; `rumi.web.readers.pages.documents` says it.
        Text("it is broken"),
        Text("its main part is broken"),
        Text("its pages are broken"),
        Text("it is encrypted and needs a password"),
        Text("it is encrypted in a way that Rumi does not know"),
        Text("it is encrypted by its shop (DRM)"),
        Text("it unpacks to too much"),
        Text("its XML declares entities, which no office program writes"),
        Text("it has no sheets that can be read"),
        Text("it has no chapters that can be read"),
        Text("it has no text that can be read"),
        Text("it has no text; its pages may be images, as of a scan; send pictures of the pages instead"),
        Text("it is a form that only Adobe's reader shows (XFA)"),
        Text("Rumi does not read Word files of before 2007 (doc); save it as docx or PDF"),
        Text("Rumi does not read PowerPoint files of before 2007 (ppt); save it as pptx or PDF"),
        Text("it is an OLE file of no known kind"),
        Text("it is a ZIP archive, not a document"),
        Text("Rumi does not read files of this format"),
        # What trying out a skill found.
        Text("it ended its process (SystemExit)"),
    )
}
