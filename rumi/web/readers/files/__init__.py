"""Conversion of files for models in a confined process: pictures are scaled, other files become text."""
