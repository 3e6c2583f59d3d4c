"""All texts that people read, in Spanish and English."""
