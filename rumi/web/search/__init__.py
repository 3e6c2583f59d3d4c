"""Searching the web: Tavily and Kagi with a key, ddgs without one; one shape for what they find."""

from rumi.web.search.searching import ProviderName, Searching

__all__ = ["ProviderName", "Searching"]
