"""Python programs in confined child processes: readers of pages and documents, searches, code of skills."""
