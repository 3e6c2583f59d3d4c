"""The web: fetches pages and searches for a model, and connects only to addresses that the guard allows."""
