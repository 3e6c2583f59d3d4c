"""Fetching: the actor that is asked for pages and searches, and the one connection that each page takes."""

from rumi.web.fetching.download import FetchLimits
from rumi.web.fetching.fetcher import Fetcher
from rumi.web.fetching.stream import GuardedStreams

__all__ = ["FetchLimits", "Fetcher", "GuardedStreams"]
