"""Web search with Tavily and Kagi, if there is a key, or with ddgs; all results have the same form."""
