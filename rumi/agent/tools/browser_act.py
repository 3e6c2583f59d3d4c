"""The tools `browser_click` and `browser_fill`: press an element of the open page, and fill in its fields.

A reference stands for an element and its effect (`rumi.web.browser.snapshot`). The question shows that
effect, and the browser presses the element only if the reference still stands for it.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from rumi.agent.tool import Question, Tool, ToolResult
from rumi.agent.tools.browser_page import ChatPage, bare, unreadable
from rumi.models.model import ToolSpec
from rumi.platform.texts.questions import ActionKind, Detail, Value, page_action
from rumi.web.browser.acting import ENTER
from rumi.web.browser.messages import Act, Filling
from rumi.web.browser.snapshot import FIELDS, Element, ElementEffect, FieldValue

MOST_FILLINGS: Final = 40
MOST_TEXT_CHARS: Final = 20_000

_HIDDEN: Final = "•" * 8

_ACCEPT: Final = {
    "type": "string",
    "description": "The text of a dialog of the page that asked before: it is then accepted",
}

CLICK_SPEC = ToolSpec(
    name="browser_click",
    description="Click a link or button of the open page. For buttons, the user is asked.",
    parameters={
        "type": "object",
        "properties": {"ref": {"type": "string", "description": "Such as abc7"}, "accept": _ACCEPT},
        "required": ["ref"],
    },
)

FILL_SPEC = ToolSpec(
    name="browser_fill",
    description=(
        "Fill in fields of the open page, all of a form at once, and submit it with `submit`: the user is "
        "asked once. Passwords are typed by their name."
    ),
    parameters={
        "type": "object",
        "properties": {
            "fields": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "ref": {"type": "string"},
                        "text": {"type": "string", "description": "Text, an option, or on/off"},
                        "password": {"type": "string", "description": "Name of a password, in place of text"},
                    },
                    "required": ["ref"],
                },
            },
            "submit": {"type": "string", "description": f"Button to press then, or `{ENTER}`"},
            "accept": _ACCEPT,
        },
        "required": ["fields"],
    },
)


class _Acts(Tool):
    """What both tools share: a step is approved only if there was a question about exactly this call."""

    concurrent = False
    always_asks = True

    def __init__(self, page: ChatPage) -> None:
        self._page = page
        self._asked: set[str] = set()

    def question(self, arguments: Mapping[str, object], known_urls: Collection[str]) -> Question | None:
        """Return the question about a call, with what a person sees on the page; None for plain links."""
        step = self._read(arguments)
        question = None if step is None else self._question(step)
        self._asked.discard(_key(arguments))  # an earlier question may have got a no
        if question is not None:
            self._asked.add(_key(arguments))
        return question

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Do it. On cancellation, the page is closed."""
        step = self._read(arguments)
        if step is None:
            return unreadable(self.spec.name, self._needs)
        key = _key(arguments)
        approved = key in self._asked
        self._asked.discard(key)
        return await self._page.result(Act(step.fillings, step.press, approved, step.accept))

    _needs = ""

    def _read(self, arguments: Mapping[str, object]) -> Act | None:
        raise NotImplementedError

    def _question(self, step: Act) -> Question | None:
        """Return the question about a step; None for a step that cannot be done, or that only reads."""
        elements = [self._page.element(filling.ref) for filling in step.fillings]
        pressed = self._page.element(step.press) if step.press not in ("", ENTER) else None
        if None in elements or (step.press not in ("", ENTER) and pressed is None):
            return None
        filled = [
            (element, filling)
            for element, filling in zip(elements, step.fillings, strict=True)
            if element is not None
        ]
        if not step.press:
            return self._about_filling(filled)
        if pressed is not None and not filled and pressed.effect.kind in ("link", "expander"):
            return None
        if pressed is None and not filled:
            return None
        effect = pressed.effect if pressed is not None else filled[-1][0].effect
        return self._about_press(effect, filled, step)

    def _about_filling(self, filled: Sequence[tuple[Element, Filling]]) -> Question | None:
        texts = [(element, filling) for element, filling in filled if not filling.password]
        if not texts:
            return None  # a password is typed only where its owner has allowed it, and submitting it asks
        host = _hosts(*(element.effect for element, _ in texts))
        values = [Value(element.effect.name, filling.text, content=True) for element, filling in texts]
        details: dict[str, Detail] = {"host": host, "page": self._url(), "fields": values}
        consent = (*host.split(", "), *(filling.text for _, filling in texts))
        return Question("fill_in", details, consent, what=page_action("fill_in", "", host, len(values)))

    def _about_press(
        self, effect: ElementEffect, filled: Sequence[tuple[Element, Filling]], step: Act
    ) -> Question:
        there = effect.fields if effect.kind not in FIELDS else self._all_fields()
        fields = {one.node: Value(one.label, _HIDDEN if one.hidden else one.value, True) for one in there}
        fields |= {
            element.node: Value(element.effect.name, _given(filling), True) for element, filling in filled
        }
        submits = effect.kind == "submit" or step.press == ENTER
        action: ActionKind = "submit" if submits else "press"
        control = "Enter" if step.press == ENTER else effect.name
        host = _hosts(effect, *(element.effect for element, _ in filled))
        details: dict[str, Detail] = {"host": host, "control": control, "page": self._url()}
        if effect.sends_to:
            details["sends_to"] = f"{effect.sends_to} ({effect.method})"
        if step.accept:
            details["accept"] = step.accept
        if fields:
            details["fields"] = [*fields.values()]
        return Question(action, details, what=page_action(action, control, host, len(fields)))

    def _all_fields(self) -> list[FieldValue]:
        snapshot = self._page.seen()
        elements = () if snapshot is None else snapshot.elements.values()
        return [
            FieldValue(one.node, one.effect.name, one.value, one.effect.kind == "password")
            for one in elements
            if one.effect.kind in FIELDS and one.value
        ]

    def _url(self) -> str:
        snapshot = self._page.seen()
        return "" if snapshot is None else snapshot.url.partition("?")[0]


class BrowserClick(_Acts):
    """The `browser_click` tool of one chat and one turn."""

    spec = CLICK_SPEC
    _needs = "`ref`, such as abc7"

    def _read(self, arguments: Mapping[str, object]) -> Act | None:
        ref, accept = arguments.get("ref"), arguments.get("accept") or ""
        if not isinstance(ref, str) or not bare(ref) or bare(ref) == ENTER or not isinstance(accept, str):
            return None
        return Act(press=bare(ref), accept=accept)


class BrowserFill(_Acts):
    """The `browser_fill` tool of one chat and one turn."""

    spec = FILL_SPEC
    _needs = "`fields`, each with `ref` and with `text` or `password`"

    def _read(self, arguments: Mapping[str, object]) -> Act | None:
        fields, submit = arguments.get("fields"), arguments.get("submit") or ""
        accept = arguments.get("accept") or ""
        if not isinstance(fields, list) or not 0 < len(fields) <= MOST_FILLINGS:
            return None
        fillings = [_filling(one) for one in fields]
        if not isinstance(submit, str) or not isinstance(accept, str):
            return None
        found = tuple(one for one in fillings if one is not None)
        return Act(found, bare(submit), accept=accept) if len(found) == len(fillings) else None


def _filling(field: object) -> Filling | None:
    if not isinstance(field, Mapping):
        return None
    ref, text, password = field.get("ref"), field.get("text"), field.get("password") or ""
    text = {True: "on", False: "off"}.get(text, text) if isinstance(text, bool) else text
    if not isinstance(ref, str) or not isinstance(password, str):
        return None
    if password:
        return Filling(bare(ref), password=password)
    return Filling(bare(ref), text) if isinstance(text, str) and len(text) <= MOST_TEXT_CHARS else None


def _hosts(*effects: ElementEffect) -> str:
    """Return the hosts of elements: frames of a page may be of other hosts."""
    return ", ".join(dict.fromkeys(effect.host for effect in effects))


def _given(filling: Filling) -> str:
    return f"{_HIDDEN} ({filling.password})" if filling.password else filling.text


def _key(arguments: Mapping[str, object]) -> str:
    return json.dumps(arguments, sort_keys=True, ensure_ascii=False)
