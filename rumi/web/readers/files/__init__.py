"""Conversion of files for models, in a confined process: scaled pictures, and the text of documents."""
