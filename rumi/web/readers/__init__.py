"""Readers: convert pages, documents and pictures to what a model can use, each in a confined process."""
