"""What the chapters read: models and the files of the book."""
