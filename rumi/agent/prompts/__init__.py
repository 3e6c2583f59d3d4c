"""What a prompt consists of: the text files, notes of the program, and what a message hands on."""
