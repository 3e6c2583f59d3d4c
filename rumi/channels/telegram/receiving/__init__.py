"""Updates in, by polling or by a webhook: received, read, judged, stored, and only then confirmed."""
