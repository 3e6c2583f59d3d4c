"""Updates in: received, read, judged, stored, and only then confirmed."""
