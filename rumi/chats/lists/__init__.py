"""Lists that the people of a chat share: the command `/list`, and the tools of the model."""
