"""Services at which people have accounts: their calendars and mailboxes."""
