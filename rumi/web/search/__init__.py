"""Searches the web: with Tavily and Kagi if there is a key, or with ddgs; all results have one form."""
