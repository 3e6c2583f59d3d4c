"""Several workers on one database: which of them serves which chats, and how chats move between them."""
