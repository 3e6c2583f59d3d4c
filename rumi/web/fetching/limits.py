"""The bounds of fetching."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """How long, how much, how many.

    `timeout_s` covers everything that is done over the network, from the name's lookup to the last byte, all
    redirects included; it begins when the fetch gets its turn. `wait_s` is the longest wait for that turn,
    `reading_s` what making text of the bytes may take afterwards, the wait for a process included.
    `max_bytes` counts the body after decompression; `text_chars` is how long a page's text gets.

    `at_once` fetches run, `per_host` of them from one host and `per_chat` for one chat. Pages are read, and
    searches made, `…_at_once` and for one chat `…_per_chat`. `waiting_per_chat` may wait for each of these.
    """

    timeout_s: float = 10
    max_bytes: int = 1_000_000
    max_redirects: int = 5
    text_chars: int = 40_000
    reading_s: float = 20
    at_once: int = 32
    per_host: int = 4
    per_chat: int = 8
    reading_at_once: int = 2
    reading_per_chat: int = 1
    searches_at_once: int = 16
    searches_per_chat: int = 4
    waiting_per_chat: int = 64
    wait_s: float = 60
