"""Documents of all formats as programs really write them, each with something that readers used to lose."""
