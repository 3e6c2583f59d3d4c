"""Web search with Tavily or Kagi, if a key is configured, or with ddgs. All results have one format."""
