"""Conversion of documents to text, one module per format. Each walks the parts of the file itself.

`document.read_document` detects the format from the content, and is the entry for pages and for files.
"""
