"""Mailboxes of people: they are read by IMAP, and their mails are sent by SMTP."""
