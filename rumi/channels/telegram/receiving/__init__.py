"""Receiving updates, by polling or by a webhook: read, judged, stored, and only then confirmed."""
