"""The mail channel: mails of people in `[people]` are messages to Rumi, and the answers are mails."""
