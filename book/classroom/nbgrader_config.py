c = get_config()

c.Execute.timeout = 120  # seconds for a cell; some train a model
c.CourseDirectory.ignore.extend([".attn", "kept answers"])  # progress, work
