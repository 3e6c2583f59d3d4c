"""Fetching: the actor that is asked for pages and searches, and the one connection that each page takes."""

from rumi.web.fetching.fetcher import CONCURRENT_MESSAGES, USER_AGENT, Fetcher
from rumi.web.fetching.limits import FetchLimits

__all__ = ["CONCURRENT_MESSAGES", "USER_AGENT", "FetchLimits", "Fetcher"]
