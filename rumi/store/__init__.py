"""Where facts are stored: SQLite files on one machine, or one PostgreSQL database for many."""
