"""People: who speaks, the role that they have, and what it allows."""
