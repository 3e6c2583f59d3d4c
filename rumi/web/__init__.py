"""Access to the web for models: fetches and searches, which connect only to addresses the guard allows."""
