"""Say of a wrong answer what it looks like, and where it is wrong."""
