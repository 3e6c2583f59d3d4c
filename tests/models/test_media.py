"""The configured servers for recordings, speech and images, as config.toml names them."""

from pathlib import Path

import pytest

from rumi.cli.doctor.settings import voice
from rumi.errors import ConfigError
from rumi.models.media import build_media, images_at, speech_at, transcription_at
from rumi.platform.config.cascade import Loaded, load_settings

OWN = """
[voice]
server = "http://127.0.0.1:8080/inference"
language = "es"
timeout_s = 30
speech_server = "http://127.0.0.1:5000"
speech_api = "piper"
[images]
server = "http://10.0.0.5:8080/v1"
model = "flux"
api_key = "$IMAGES_KEY"
size = "512x512"
"""


def loaded(path: Path, text: str, **variables: str) -> Loaded:
    (path / "config.toml").write_text(text)
    return load_settings(path, variables, {})


def test_without_anything_nothing_hears_speaks_or_draws(tmp_path: Path) -> None:
    nothing = loaded(tmp_path, "")
    media = build_media(nothing)
    assert (media.transcriber, media.speaker, media.images) == (None, None, None)
    assert voice(nothing).verdict == "ok"


def test_groq_hears_where_its_key_is_set(tmp_path: Path) -> None:
    for base in ("", "http://127.0.0.1:9", "http://127.0.0.1:9/openai/v1/"):
        at = transcription_at(loaded(tmp_path, "", GROQ_API_KEY="gsk_key", GROQ_BASE_URL=base))
        assert at is not None
        assert at.url == f"{base[:18] or 'https://api.groq.com'}/openai/v1"
        assert (at.model, at.key, at.key_setting) == ("whisper-large-v3-turbo", "gsk_key", "GROQ_API_KEY")


def test_a_server_of_ones_own_comes_before_groq_and_gets_no_key_of_others(tmp_path: Path) -> None:
    own = loaded(tmp_path, OWN, GROQ_API_KEY="gsk_key", IMAGES_KEY="sk-images")
    hears, speaks, draws = transcription_at(own), speech_at(own), images_at(own)
    assert hears is not None
    assert speaks is not None
    assert draws is not None
    assert (hears.url, hears.key, hears.timeout_s) == ("http://127.0.0.1:8080/inference", "", 30)
    assert (speaks.url, speaks.key, speaks.model) == ("http://127.0.0.1:5000", "", "")
    assert (draws.url, draws.key, draws.model) == ("http://10.0.0.5:8080/v1", "sk-images", "flux")
    assert "sk-images" not in f"{own!r} {draws!r} {build_media(own)!r} {own.rows()}"
    assert "sk-images" in tuple(own.secrets.values())  # so that no text of a server shows it


def test_a_key_that_is_not_set_is_named_by_the_doctor_and_ends_no_start(tmp_path: Path) -> None:
    without = loaded(tmp_path, OWN)
    assert build_media(without).images is not None
    check = voice(without)
    assert check.verdict == "failure"
    assert str(check.found) == "images.api_key refers to $IMAGES_KEY, which is not set."
    assert str(voice(loaded(tmp_path, OWN, IMAGES_KEY="x")).found) == (
        "recordings: http://127.0.0.1:8080; speech: http://127.0.0.1:5000; images: http://10.0.0.5:8080"
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[voice]\nserver = "127.0.0.1:8080"', "voice.server"),
        ('[voice]\nserver = "http://user:pw@host/v1"', "voice.server"),
        ('[voice]\napi_key = "sk-0123456789abcdef"', "voice.api_key"),
        ('[voice]\nlanguage = "Spanish"', "voice.language"),
        ('[voice]\nspeech_api = "espeak"', "voice.speech_api"),
        ('[voice]\nanswer = "sometimes"', "voice.answer"),
        ('[images]\nsize = "large"', "images.size"),
    ],
)
def test_a_value_that_cannot_work_is_refused_with_its_setting(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        loaded(tmp_path, text)
    assert "sk-0123456789abcdef" not in str(caught.value)


def test_a_key_with_a_line_end_is_refused_without_showing_it(tmp_path: Path) -> None:
    broken = loaded(tmp_path, OWN, IMAGES_KEY="sk two words")
    with pytest.raises(ConfigError, match=r"images\.api_key") as caught:
        build_media(broken)
    assert "two words" not in str(caught.value)
