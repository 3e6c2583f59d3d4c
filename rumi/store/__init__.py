"""Storage of messages and facts: SQLite files on one machine, or a PostgreSQL database for many machines."""
