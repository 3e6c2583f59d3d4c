"""Fills in fields of a page and presses its elements."""

from collections.abc import Mapping
from typing import Any, Final

from rumi.web.browser.messages import Act, BrowserSettings, Filling, PageError
from rumi.web.browser.page import BrowserPage
from rumi.web.browser.snapshot import FIELDS, Element, PageSnapshot

ENTER: Final = "enter"

_LOOPBACK: Final = ("127.0.0.1", "[::1]")

# The setter of the prototype, in a world of its own: the page cannot replace it, and frameworks that keep a
# copy of the value notice the change. The focus is not used: another frame could take it away meanwhile.
_SET: Final = """function(text) {
  if (this.isContentEditable) { this.textContent = text; }
  else {
    const kind = this instanceof HTMLTextAreaElement ? HTMLTextAreaElement : HTMLInputElement;
    Object.getOwnPropertyDescriptor(kind.prototype, 'value').set.call(this, text);
  }
  this.dispatchEvent(new InputEvent('input', {bubbles: true, data: text, inputType: 'insertText'}));
  this.dispatchEvent(new Event('change', {bubbles: true}));
  return this.isContentEditable || this.value === text;
}"""
_CHOOSE: Final = """function(text) {
  const wanted = text.trim();
  const option = [...this.options].find(one => one.text.trim() === wanted) ||
    [...this.options].find(one => one.value === wanted);
  if (!option) return false;
  option.selected = true;
  this.dispatchEvent(new Event('input', {bubbles: true}));
  this.dispatchEvent(new Event('change', {bubbles: true}));
  return true;
}"""
_TYPE_HIDDEN: Final = """function(text) {
  if (!(this instanceof HTMLInputElement) || this.type !== 'password') return false;
  Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set.call(this, text);
  this.dispatchEvent(new InputEvent('input', {bubbles: true, inputType: 'insertText'}));
  this.dispatchEvent(new Event('change', {bubbles: true}));
  return true;
}"""
# Where the element is, if it is what a mouse would meet there.
_POINT: Final = """function() {
  this.scrollIntoView({block: 'center', inline: 'center', behavior: 'instant'});
  const box = this.getBoundingClientRect();
  const x = box.x + box.width / 2, y = box.y + box.height / 2;
  const met = this.getRootNode().elementFromPoint(x, y);
  if (window !== top || !met || !(this === met || this.contains(met))) return null;
  return [x, y];
}"""


def check(step: Act, snapshot: PageSnapshot, settings: BrowserSettings) -> None:
    """Check that a step fits to a page.

    Raises:
        PageError: An element is not there or cannot be used so, or a password is not for this page.
    """
    for filling in step.fillings:
        element = element_of(snapshot, filling.ref)
        if element.effect.kind not in FIELDS:
            raise PageError("[{ref}] is not a field.", "Press it, or fill in another one.", ref=filling.ref)
        if filling.password:
            password_for(filling, element, snapshot, settings)
        elif element.effect.kind == "password":
            raise PageError(
                "[{ref}] takes a password: give its name with `password`, and never the password itself.",
                ref=filling.ref,
            )
        if element.effect.kind == "check" and filling.text not in ("on", "off"):
            raise PageError("[{ref}] takes on or off.", ref=filling.ref)
    if step.press == ENTER:
        if not step.fillings:
            raise PageError("Enter is pressed in the last field that was filled in.", "Fill in a field.")
    elif step.press:
        element_of(snapshot, step.press)
    if not step.approved and not _needs_no_yes(step, snapshot):
        raise PageError("The page has changed, so the user was not asked about this.", "Read the page again.")


def _needs_no_yes(step: Act, snapshot: PageSnapshot) -> bool:
    """Return True for a step that nobody is asked about: a link, what unfolds, or passwords by name."""
    if not step.press:
        return all(filling.password for filling in step.fillings)
    return not step.fillings and element_of(snapshot, step.press).effect.kind in ("link", "expander")


def element_of(snapshot: PageSnapshot, ref: str) -> Element:
    """Return the element that a reference stands for.

    Raises:
        PageError: It is not there, or it is not any more what it was when it got the reference.
    """
    element = snapshot.elements.get(ref.strip().strip("[]"))
    if element is None:
        raise PageError(
            "[{ref}] is not on the page, or it has changed since.", "Read the page again.", ref=ref[:20]
        )
    return element


def password_for(
    filling: Filling, element: Element, snapshot: PageSnapshot, settings: BrowserSettings
) -> str:
    """Return the password for a field: on exactly its host, and not in a frame of another site.

    Raises:
        PageError: There is no such password, or this is not its field.
    """
    password = settings.passwords.get(filling.password)
    if password is None:
        names = ", ".join(settings.passwords) or "-"
        raise PageError(
            "There is no password {name}. There are: {names}", name=filling.password[:60], names=names
        )
    if password.fault is not None:
        raise PageError(password.fault.message)
    effect = element.effect
    loopback = effect.host.rpartition(":")[0] in _LOOPBACK or effect.host in _LOOPBACK
    main = snapshot.url.partition("://")[2].partition("/")[0]
    if effect.kind != "password" or effect.host != password.host or main != effect.host:
        raise PageError(
            "The password {name} is only typed into a password field of {host}.",
            name=filling.password,
            host=password.host,
        )
    if not effect.secure and not loopback:
        raise PageError("Passwords are only typed into pages with https.")
    return password.value


async def act(page: BrowserPage, step: Act, settings: BrowserSettings) -> None:
    """Fill in the fields and press the element. The page must have been read just before.

    Raises:
        PageError: See `check`; or a field does not take its text.
    """
    check(step, page.snapshot, settings)
    before = page.snapshot
    for filling in step.fillings:
        element = element_of(before, filling.ref)
        if not await _fill(page, element, filling, before, settings):
            raise PageError("[{ref}] does not take this.", "Read the page again.", ref=element.ref)
    if not step.press:
        return
    if step.press == ENTER:
        await page.call("DOM.focus", {"backendNodeId": element_of(before, step.fillings[-1].ref).node})
        key = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"}
        await page.call("Input.dispatchKeyEvent", {"type": "keyDown", **key})
        await page.call("Input.dispatchKeyEvent", {"type": "keyUp", **key})
        return
    await _press(page, element_of(before, step.press))


async def _fill(
    page: BrowserPage, element: Element, filling: Filling, snapshot: PageSnapshot, settings: BrowserSettings
) -> bool:
    kind = element.effect.kind
    if filling.password:
        value = password_for(filling, element, snapshot, settings)
        return bool(await _run(page, element, _TYPE_HIDDEN, value))
    if kind == "check":
        if element.value != filling.text:
            await _run(page, element, "function() { this.click(); }")
        return True
    return bool(await _run(page, element, _CHOOSE if kind == "select" else _SET, filling.text))


async def _press(page: BrowserPage, element: Element) -> None:
    """Press an element with the mouse; if something lies over it, by a script: nothing else is met."""
    point = await _run(page, element, _POINT)
    if point is None:
        await _run(page, element, "function() { this.click(); }")
        return
    mouse: Mapping[str, Any] = {"x": point[0], "y": point[1], "button": "left", "clickCount": 1}
    await page.call("Input.dispatchMouseEvent", {"type": "mouseMoved", "x": point[0], "y": point[1]})
    await page.call("Input.dispatchMouseEvent", {"type": "mousePressed", **mouse})
    await page.call("Input.dispatchMouseEvent", {"type": "mouseReleased", **mouse})


async def _run(page: BrowserPage, element: Element, function: str, *arguments: str) -> Any:
    """Run a function on an element, in a world that the page's scripts cannot change."""
    world = await page.world(element.frame)
    resolved = await page.call(
        "DOM.resolveNode", {"backendNodeId": element.node, "executionContextId": world}
    )
    answer = await page.call(
        "Runtime.callFunctionOn",
        {
            "functionDeclaration": function,
            "objectId": resolved["object"]["objectId"],
            "arguments": [{"value": one} for one in arguments],
            "returnByValue": True,
            "userGesture": True,
        },
    )
    if "exceptionDetails" in answer:
        raise PageError("The element cannot be used.", "Read the page again.")
    return answer["result"].get("value")
