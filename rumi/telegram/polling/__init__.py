"""Updates in: asked for, read, judged, stored, and only then confirmed."""
