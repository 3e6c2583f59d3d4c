"""The parts of a prompt: text files, prompt notes, and the attachments of a message."""
