"""What a page may send, and what people read about it; without a browser."""

from pathlib import Path

import pytest

from rumi.platform.config.cascade import load_settings
from rumi.platform.redact import Redactor
from rumi.platform.texts.questions import page_action, question, visible
from rumi.web.browser import profile
from rumi.web.browser.finding import find_browser
from rumi.web.browser.messages import BrowserError, Sending
from rumi.web.browser.sending import Mode, strictest
from rumi.web.browser.snapshot import MOST_CHARS, PageSnapshot

SHOP, OTHER = "https://shop.example", "https://other.example"


@pytest.mark.parametrize(
    ("sending", "method", "origin", "document", "is_sent"),
    [
        ("page", "GET", OTHER, True, True),
        ("page", "POST", SHOP, False, True),
        ("page", "POST", SHOP, True, False),
        ("nothing", "GET", OTHER, True, True),
        ("nothing", "post", SHOP, False, False),
        ("nothing", "DELETE", SHOP, False, False),
        ("nothing", "POST", SHOP, True, False),
        ("approved", "POST", SHOP, True, True),
        ("approved", "POST", OTHER, True, False),
        ("approved", "POST", "", True, False),
        ("approved", "PUT", OTHER, False, True),
    ],
)
def test_a_request_is_sent_or_not(
    sending: Sending, method: str, origin: str, document: bool, is_sent: bool
) -> None:
    mode = Mode()
    mode.begin(sending, {SHOP})
    assert mode.allows(method, origin, document=document) is is_sent


def test_an_approved_form_is_sent_once_and_follows_redirects_to_its_origins_only() -> None:
    mode = Mode()
    mode.begin("approved", {SHOP})
    assert mode.allows("POST", SHOP, document=True)
    assert mode.allows("POST", SHOP, document=True, redirected=True)
    assert not mode.allows("POST", OTHER, document=True, redirected=True)
    assert not mode.allows("POST", SHOP, document=True)


def test_a_shared_worker_is_judged_by_the_strictest_page() -> None:
    modes = [Mode("approved"), Mode("nothing"), Mode("page")]
    assert strictest(modes).sending == "nothing"
    assert strictest([]).sending == "page"


def test_a_question_names_what_a_person_sees_and_shows_letters_that_pretend() -> None:
    asked = question(
        "en", "submit", {"host": "shop.example"}, what=page_action("submit", "C\u0430ncel", "shop.example", 3)
    )
    assert "May I submit “C\\u0430ncel” on shop.example, 3 fields?" in asked.text
    assert visible("p\u0430ypal") == "p\\u0430ypal"
    assert visible("привет Ana año 5 kΩ") == "привет Ana año 5 kΩ"  # words of one script stay


def test_a_part_of_a_page_is_bounded_and_names_the_next_line() -> None:
    page = PageSnapshot("https://a.example/", "", tuple(f"line {number} {'x' * 90}" for number in range(500)))
    text, more = page.part()
    assert len(text) <= MOST_CHARS
    following, _ = page.part(more)
    assert following.startswith(f"line {more - 1} ")
    assert page.part(500)[1] == 0
    assert page.part(9999) == ("", 0)


def test_a_missing_browser_is_one_sentence_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rumi.web.browser.finding._PROGRAMS", ())
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(BrowserError, match="apt install chromium"):
        find_browser()
    with pytest.raises(BrowserError, match=r"Correct browser\.program"):
        find_browser("no-such-browser")


def test_a_large_profile_loses_its_caches_first_and_its_cookies_never(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profile, "MOST_BYTES", 100)
    own = profile.profile_of(tmp_path, "local")
    profile.prepare(own)
    for name, size in (("Cache/a", 90), ("IndexedDB/b", 90), ("Cookies", 50)):
        path = own / "Default" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * size)
    profile.prepare(own)
    assert {path.name for path in own.rglob("*") if path.is_file()} == {"Cookies"}
    assert own.stat().st_mode & 0o777 == 0o700
    assert profile.delete(own)
    assert not profile.delete(own)


def test_passwords_are_references_and_are_redacted_everywhere(tmp_path: Path) -> None:
    config = '[browser.passwords.shop]\nhost = "shop.example"\nvalue = "$SHOP"\n'
    (tmp_path / "config.toml").write_text(config)
    loaded = load_settings(tmp_path, {"SHOP": "correct horse"}, {})
    assert loaded.settings.browser.passwords["shop"].host == "shop.example"
    assert "horse" not in Redactor(loaded.secrets.values()).text("it is correct horse, in a log")
    for wrong in (
        'host = "https://shop.example"\nvalue = "$SHOP"',
        'host = "shop.example"\nvalue = "two words"',
    ):
        (tmp_path / "config.toml").write_text(f"[browser.passwords.shop]\n{wrong}\n")
        with pytest.raises(Exception, match=r"browser\.passwords\.shop"):
            load_settings(tmp_path, {"SHOP": "correct horse"}, {})
