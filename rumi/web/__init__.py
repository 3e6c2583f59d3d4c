"""Web access for models: fetches and searches, which connect only to addresses that the guard allows."""
