"""Answer an exercise on the book's page: PyTorch's stand-in and the judge."""
