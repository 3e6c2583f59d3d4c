"""A browser for the assistant: Chromium in a sandbox of its own, which reaches the web through the guard."""
