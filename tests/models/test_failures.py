import pytest

from rumi.models.failures import MAX_DETAIL_CHARS, scrub, shown_url
from rumi.platform.redact import HIDDEN, Redactor


@pytest.mark.parametrize("key", ["plain-secret-of-mine", "gsk_abcdefghijkl", "x" * 30])
@pytest.mark.parametrize("before", [0, MAX_DETAIL_CHARS - 10, MAX_DETAIL_CHARS])
def test_no_part_of_a_key_is_left_wherever_it_stands(key: str, before: int) -> None:
    said = scrub("." * before + key + " and more", Redactor((key,)))
    assert key[:5] not in said
    assert len(said) <= MAX_DETAIL_CHARS + 1


@pytest.mark.parametrize("said", ["sk-proj-abc***xyz", "Bearer abc.def", "gsk_other_key_123"])
def test_what_looks_like_another_key_goes_too(said: str) -> None:
    assert scrub(f"wrong key: {said}", Redactor(())) == f"wrong key: {HIDDEN}"


def test_a_url_is_shown_without_what_may_be_secret() -> None:
    assert shown_url("https://user:pass@host:8443/v1?key=1") == "https://host:8443"
    assert shown_url("http://[::1]/v1") == "http://[::1]"
