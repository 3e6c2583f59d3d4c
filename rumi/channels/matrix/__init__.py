"""Matrix: receives events of rooms and sends replies. The only package that uses matrix-nio."""
