"""The configuration, and what it needs of keys. Nothing is asked of anybody."""

import shlex

from rumi.config import Loaded
from rumi.doctor.check import Check
from rumi.errors import RumiError
from rumi.home import Home
from rumi.texts import Language
from rumi.texts import doctor as words


def settings(home: Home, loaded: Loaded, language: Language) -> list[Check]:
    """What `config.toml`, the environment and `.env` come to. Who may read `.env` is another check's."""
    file = shlex.quote(str(home.root / ".env"))
    model, has_key = _model(loaded, language, file)
    return [
        Check("configuration", "ok", words.VALID.said(language)),
        model,
        _telegram(loaded, language, has_key, file),
        _search(loaded, language, file),
    ]


def _model(loaded: Loaded, language: Language, file: str) -> tuple[Check, bool]:
    """The finding, and whether the model has the key that it needs."""
    from rumi.models import build_models, lacks_key
    from rumi.settings import model_settings_of

    try:
        given = model_settings_of(loaded, language)
        if lacks_key(given):
            found = words.NO_KEY.said(language, model=given.default)
            return Check("model", "warning", found, words.MEND_NO_KEY.said(language, file=file)), False
        return Check("model", "ok", build_models(given).name), True
    except RumiError as error:
        return Check("model", "failure", error.message.rstrip("."), error.advice), True


def _telegram(loaded: Loaded, language: Language, has_key: bool, file: str) -> Check:
    given = loaded.settings.telegram
    if loaded.secrets.telegram_token is None:
        return Check("telegram", "ok", words.NO_TOKEN.said(language))
    if not has_key:
        found = words.NO_MODEL_FOR_BOT.said(language)
        return Check("telegram", "failure", found, words.MEND_NO_KEY.said(language, file=file))
    people = len({*given.allowed_users, *given.admins})
    if not people:
        found, mend = words.NOBODY_MAY.said(language), words.MEND_NOBODY_MAY.said(language)
        return Check("telegram", "warning", found, mend)
    return Check("telegram", "ok", words.TOKEN.said(language, people=people))


def _search(loaded: Loaded, language: Language, file: str) -> Check:
    secrets, wanted = loaded.secrets, loaded.settings.search.provider
    keys = {"tavily": secrets.tavily_api_key, "kagi": secrets.kagi_api_key}
    if wanted in keys and keys[wanted] is None:
        found = words.SEARCH_LACKS_KEY.said(language, provider=wanted)
        mend = words.MEND_SEARCH_KEY.said(language, variable=f"{wanted.upper()}_API_KEY", file=file)
        return Check("search", "failure", found, mend)
    asked = [name for name, key in keys.items() if key and wanted in ("auto", name)]
    return Check("search", "ok", ", ".join([*asked, "ddgs"]))
