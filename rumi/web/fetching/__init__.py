"""Fetching: the actor that is asked for pages and searches, and the one connection that each page takes."""

from rumi.web.fetching.download import FetchLimits
from rumi.web.fetching.fetcher import USER_AGENT, Fetcher

__all__ = ["USER_AGENT", "FetchLimits", "Fetcher"]
