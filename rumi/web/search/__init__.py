"""Searching the web: Tavily and Kagi with a key, ddgs without one; one shape for what they find."""

from rumi.web.search.searching import Searching

__all__ = ["Searching"]
