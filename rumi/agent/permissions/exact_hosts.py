"""Exact servers, as people and models name them in an approval in advance."""

from rumi.platform.untrusted_text import one_line
from rumi.web.messages import FetchError


def exact_host(text: str) -> tuple[str, str]:
    """Return the host and the origin of a name such as `example.com` or `http://10.0.0.1:8080`.

    A name without a scheme means https.

    Raises:
        ValueError: The text is more than a host, a pattern, or not a host. The error says why.
    """
    from rumi.web.url import parse_target  # the parser is loaded on its first use, not at startup

    try:
        target = parse_target(f"{text if '://' in text else f'https://{text}'}/")
    except FetchError as error:
        raise ValueError(f"cannot name the host {one_line(text, 80)}: {error}") from None
    if target.href != f"{target.origin}/" or "*" in text:
        raise ValueError(f"takes exact hosts, such as example.com, not {one_line(text, 80)}")
    return target.host, target.origin
