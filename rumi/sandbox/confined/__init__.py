"""Confined child processes for Python programs: page and document readers, searches, code of skills."""
