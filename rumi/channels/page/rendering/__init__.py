"""Markdown of answers as blocks for the page: sanitised HTML, or ranges of code with their colours."""
