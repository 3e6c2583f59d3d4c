"""What a model sees of a file: a picture scaled down, or a document's text, made in a confined process."""
