"""Web search with Tavily or Kagi, if there is a key, or with ddgs. All results have the same format."""
