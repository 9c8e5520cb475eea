"""Data of the chapters: models, and the files of the book."""
