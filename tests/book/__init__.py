"""The book as it was built: read by programs, and in a browser."""
