"""Memory: stores long-term facts about users, each with one owner, and extracts them from sessions."""
