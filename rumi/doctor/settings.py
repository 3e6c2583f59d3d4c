"""The configuration, and what it needs of keys. Nothing is asked of anybody."""

from rumi.config import Loaded
from rumi.doctor.check import Check
from rumi.errors import RumiError


def settings(loaded: Loaded) -> list[Check]:
    """What `config.toml`, the environment and `.env` come to."""
    checks = [Check("configuration", "ok", "config.toml, environment and .env are valid")]
    for note in loaded.notes:
        found, _, mend = note.partition(": ")
        checks.append(Check("configuration", "warning", found, mend))
    return [*checks, _model(loaded), _telegram(loaded), _search(loaded)]


def _model(loaded: Loaded) -> Check:
    from rumi.models import build_models, lacks_key
    from rumi.settings import model_settings_of

    try:
        given = model_settings_of(loaded, "en")
        if lacks_key(given):
            return Check(
                "model",
                "warning",
                f"{given.default} needs GROQ_API_KEY; without it the offline model is used",
                "Put GROQ_API_KEY=… into .env in RUMI_HOME, or into the environment.",
            )
        return Check("model", "ok", build_models(given).name)
    except RumiError as error:
        return Check("model", "failure", error.message, error.advice)


def _telegram(loaded: Loaded) -> Check:
    given = loaded.settings.telegram
    if loaded.secrets.telegram_token is None:
        return Check("telegram", "ok", "no token, so no bot; the terminal needs none")
    people = len({*given.allowed_users, *given.admins})
    if not people:
        mend = "Put their ids into config.toml: [telegram] allowed_users = [11111111]"
        return Check("telegram", "warning", "there is a token, and nobody may talk to the bot", mend)
    return Check("telegram", "ok", f"a token is set; {people} may talk to the bot")


def _search(loaded: Loaded) -> Check:
    secrets, wanted = loaded.secrets, loaded.settings.search.provider
    keys = {"tavily": secrets.tavily_api_key, "kagi": secrets.kagi_api_key}
    if wanted in keys and keys[wanted] is None:
        mend = f"Put {wanted.upper()}_API_KEY=… into .env in RUMI_HOME, or set search.provider to auto."
        return Check("search", "failure", f"search.provider is {wanted}, and there is no key for it", mend)
    asked = [name for name, key in keys.items() if key and wanted in ("auto", name)]
    return Check("search", "ok", ", then ".join([*asked, "ddgs"]))
