"""Receipt of updates, by polling or by a webhook: updates are checked, stored, then confirmed."""
