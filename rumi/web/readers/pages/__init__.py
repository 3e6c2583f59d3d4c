"""Conversion of pages to text for models, in processes that can be killed."""
