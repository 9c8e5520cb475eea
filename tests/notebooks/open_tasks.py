"""Answers to the open tasks: as different as they come, all of them right.

A task has two cells: the learner's, tagged ``open-task``, and below it the
one with the goals. Before them a learner has run the chapter's imports and
has written its exercises.
"""

CIRCLE = """
def positions(length):
    angle = 2 * math.pi / 64 * torch.arange(length)
    return 40 * torch.stack([angle.cos(), angle.sin()], -1)


step = torch.tensor(2 * math.pi / 64)
W_q = torch.tensor([[step.cos(), step.sin()], [-step.sin(), step.cos()]])
W_k = torch.eye(2)
"""

PARABOLA = """
def positions(length):
    i = torch.arange(length, dtype=torch.float32)
    return torch.stack([i, i**2, torch.ones(length)], -1)


W_q = torch.tensor([[1.0, 0.0, -1.0], [0.0, 0.0, 1.0]])
W_k = 10 * torch.tensor([[1.0, 0.0, 0.0], [0.0, -0.5, 0.0]])
"""

STRIDES = """
back = torch.arange(64)[:, None] - torch.arange(64)
mask = causal(64, 64) & ((back < 8) | (back % 8 == 0))
"""

BLOCKS = """
block = torch.arange(64) // 8
own = block[:, None] == block
last = torch.arange(64) % 8 == 7
mask = causal(64, 64) & (own | last)
"""

ANSWERS = {"sdp": [CIRCLE, PARABOLA], "mask": [STRIDES, BLOCKS]}
