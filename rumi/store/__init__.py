"""Storage of messages and facts: SQLite files on one machine, or one PostgreSQL database for many."""
