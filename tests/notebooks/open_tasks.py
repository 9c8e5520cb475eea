"""Answers to the open tasks: as different as they come, all of them right.

A task has two cells: the learner's, tagged ``open-task``, and below it the
one with the goals. Before them a learner has run the chapter's imports and
has written its exercises and run the cells tagged ``open-task-setup``.
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

# Only the tiles below the diagonal; and these once for each group of heads.
ENDS = """
@triton.jit
def lean_kernel(
    Q, K, V, OUT, scale, L, S, q_offset,
    q_h, q_l, k_h, k_s, v_h, v_s, o_h, o_l,
    GROUP: tl.constexpr, IS_CAUSAL: tl.constexpr, D: tl.constexpr,
    BLOCK_L: tl.constexpr, BLOCK_S: tl.constexpr,
):
    first, head = tl.program_id(0) * BLOCK_L, tl.program_id(1)
    row, d = first + tl.arange(0, BLOCK_L), tl.arange(0, D)
    place = Q + head * q_h + row[:, None] * q_l + d[None, :]
    q = tl.load(place, mask=row[:, None] < L, other=0.0)
    K += head // GROUP * k_h
    V += head // GROUP * v_h
    m_i = tl.full([BLOCK_L], -1.0e30, tl.float32)
    l_i = tl.zeros([BLOCK_L], tl.float32)
    out = tl.zeros([BLOCK_L, D], tl.float32)
    for start in range(0, tl.minimum(S, first + BLOCK_L + q_offset), BLOCK_S):
        s_ = start + tl.arange(0, BLOCK_S)
        inside = s_[:, None] < S
        k = tl.load(K + s_[:, None] * k_s + d[None, :], inside, 0.0)
        v = tl.load(V + s_[:, None] * v_s + d[None, :], inside, 0.0)
        scores = tl.dot(q, tl.trans(k)) * scale
        seen = s_[None, :] <= tl.minimum(row[:, None] + q_offset, S - 1)
        scores = tl.where(seen, scores, -float("inf"))
        m_new = tl.maximum(m_i, tl.max(scores, 1))
        w, alpha = tl.exp(scores - m_new[:, None]), tl.exp(m_i - m_new)
        l_i = l_i * alpha + tl.sum(w, 1)
        out = out * alpha[:, None] + tl.dot(w, v)
        m_i = m_new
    place = OUT + head * o_h + row[:, None] * o_l + d[None, :]
    tl.store(place, out / l_i[:, None], mask=row[:, None] < L)
"""

GROUPED = """
@triton.jit
def lean_kernel(
    Q, K, V, OUT, scale, L, S, q_offset,
    q_h, q_l, k_h, k_s, v_h, v_s, o_h, o_l,
    GROUP: tl.constexpr, IS_CAUSAL: tl.constexpr, D: tl.constexpr,
    BLOCK_L: tl.constexpr, BLOCK_S: tl.constexpr,
):
    first, head = tl.program_id(0) * BLOCK_L, tl.program_id(1)
    if head % GROUP != 0:
        return  # the first head of the group computes for all of them
    both, d = tl.arange(0, GROUP * BLOCK_L), tl.arange(0, D)
    row, h = first + both % BLOCK_L, head + both // BLOCK_L
    place = Q + h[:, None] * q_h + row[:, None] * q_l + d[None, :]
    q = tl.load(place, mask=row[:, None] < L, other=0.0)
    lse = tl.full([GROUP * BLOCK_L], -1.0e30, tl.float32)
    out = tl.zeros([GROUP * BLOCK_L, D], tl.float32)
    start = 0
    while start < tl.minimum(S, first + BLOCK_L + q_offset):
        s_ = start + tl.arange(0, BLOCK_S)
        at = s_[:, None] * k_s + d[None, :]
        k = tl.load(K + head // GROUP * k_h + at, s_[:, None] < S, 0.0)
        at = s_[:, None] * v_s + d[None, :]
        v = tl.load(V + head // GROUP * v_h + at, s_[:, None] < S, 0.0)
        scores = tl.dot(q, tl.trans(k)) * scale
        seen = (s_[None, :] <= row[:, None] + q_offset) & (s_[None, :] < S)
        scores = tl.where(seen, scores, -float("inf"))
        m_new = tl.maximum(lse, tl.max(scores, 1))
        new = tl.log(
            tl.exp(lse - m_new) + tl.sum(tl.exp(scores - m_new[:, None]), 1)
        ) + m_new
        out = out * tl.exp(lse - new)[:, None]
        out += tl.dot(tl.exp(scores - new[:, None]), v)
        lse = new
        start += BLOCK_S
    place = OUT + h[:, None] * o_h + row[:, None] * o_l + d[None, :]
    tl.store(place, out, mask=row[:, None] < L)
"""

WIDER = """
@triton.jit
def thrifty_kernel(
    Q, K, V, DO, LSE, DELTA, DK, DV, scale, L, S, q_offset,
    q_h, q_l, k_h, k_s, v_h, v_s, do_h, do_l, lse_h, dk_h, dk_s,
    GROUP: tl.constexpr, IS_CAUSAL: tl.constexpr, D: tl.constexpr,
    BLOCK_L: tl.constexpr, BLOCK_S: tl.constexpr,
):
    if tl.program_id(0) % 4 != 0:
        return  # every fourth program owns the keys of four
    column = tl.program_id(0) * BLOCK_S + tl.arange(0, 4 * BLOCK_S)
    g, d = tl.program_id(1), tl.arange(0, D)
    inside = column[:, None] < S
    k = tl.load(K + g * k_h + column[:, None] * k_s + d[None, :], inside, 0.0)
    v = tl.load(V + g * v_h + column[:, None] * v_s + d[None, :], inside, 0.0)
    dk = tl.zeros([4 * BLOCK_S, D], tl.float32)
    dv = tl.zeros([4 * BLOCK_S, D], tl.float32)
    first = tl.program_id(0) * BLOCK_S // BLOCK_L * BLOCK_L
    for h in range(g * GROUP, (g + 1) * GROUP):
        for start in range(first, L, BLOCK_L):
            row = start + tl.arange(0, BLOCK_L)[:, None]
            q = tl.load(Q + h * q_h + row * q_l + d[None, :], row < L, 0.0)
            do = tl.load(DO + h * do_h + row * do_l + d[None, :], row < L, 0.0)
            lse = tl.load(LSE + h * lse_h + row, row < L, 0.0)
            delta = tl.load(DELTA + h * lse_h + row, row < L, 0.0)
            seen = (row < L) & (column[None, :] <= row)
            s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
            p = tl.where(seen, tl.exp(s - lse), 0.0)
            dp = tl.dot(do, tl.trans(v), input_precision="ieee")
            dv += tl.dot(tl.trans(p), do, input_precision="ieee")
            dk += tl.dot(tl.trans(p * (dp - delta)), q, input_precision="ieee")
    place = g * dk_h + column[:, None] * dk_s + d[None, :]
    tl.store(DK + place, dk * scale, inside)
    tl.store(DV + place, dv, inside)
"""

# All keys stay with one program; each row is used as soon as it comes.
ROW_BY_ROW = """
@triton.jit
def thrifty_kernel(
    Q, K, V, DO, LSE, DELTA, DK, DV, scale, L, S, q_offset,
    q_h, q_l, k_h, k_s, v_h, v_s, do_h, do_l, lse_h, dk_h, dk_s,
    GROUP: tl.constexpr, IS_CAUSAL: tl.constexpr, D: tl.constexpr,
    BLOCK_L: tl.constexpr, BLOCK_S: tl.constexpr,
):
    if tl.program_id(0) > 0:
        return
    d = tl.arange(0, D)
    s = tl.arange(0, 8 * BLOCK_S)[:, None]
    k = tl.load(K + s * k_s + d[None, :], s < S, 0.0)
    v = tl.load(V + s * v_s + d[None, :], s < S, 0.0)
    dk = tl.zeros([8 * BLOCK_S, D], tl.float32)
    dv = tl.zeros([8 * BLOCK_S, D], tl.float32)
    for i in range(GROUP * L):
        h, l = i // L, i % L
        q = tl.load(Q + h * q_h + l * q_l + d)[None, :]
        do = tl.load(DO + h * do_h + l * do_l + d)[None, :]
        scores = tl.sum(k * q, 1, keep_dims=True) * scale
        p = tl.exp(scores - tl.load(LSE + h * lse_h + l))
        p = tl.where(s <= l, p, 0.0)
        dp = tl.sum(v * do, 1, keep_dims=True)
        dv += p * do
        dk += p * (dp - tl.load(DELTA + h * lse_h + l)) * q
    tl.store(DK + s * dk_s + d[None, :], dk * scale, s < S)
    tl.store(DV + s * dk_s + d[None, :], dv, s < S)
"""

# The best maps of rank D for the products of all heads of a group at once.
SHARED_PRODUCTS = """
def convert_better(model, num_kv_heads):
    G, D = H // num_kv_heads, E // H
    small, state = FourBefore(num_kv_heads), dict(model.state_dict())
    q, k, v = (
        state[f"attention.{n}_proj.weight"].unflatten(0, (num_kv_heads, G, D))
        for n in "qkv"
    )
    out = state["attention.out_proj.weight"].unflatten(1, (num_kv_heads, G, D))
    out = out.permute(1, 2, 3, 0)  # (Hkv, G, D, E)

    def shared(left, right):  # left.mT @ right, all heads of a group stacked
        u, s, vh = torch.linalg.svd((left.mT @ right).flatten(1, 2), False)
        left = (u[..., :D] * s[:, None, :D]).unflatten(1, (G, E)).mT
        return left.flatten(0, 2), vh[:, :D].flatten(0, 1)

    query, key = shared(q, k)
    out, value = shared(out, v)
    new = {"q": query, "k": key, "v": value, "out": out.T}
    for name, weight in new.items():
        state[f"attention.{name}_proj.weight"] = weight
    small.load_state_dict(state)
    return small
"""

# Where the keys of a group vary most, and the queries seen from there.
SHARED_DIRECTIONS = """
def convert_better(model, num_kv_heads):
    G, D = H // num_kv_heads, E // H
    small, state = FourBefore(num_kv_heads), dict(model.state_dict())
    tokens = torch.cartesian_prod(torch.arange(V), torch.arange(L))
    word, place = state["token.weight"], state["place.weight"]
    x = word[tokens[:, 0]] + place[tokens[:, 1]]
    names = ("q", "k", "v", "out")
    old = {n: state[f"attention.{n}_proj.weight"] for n in names}
    groups = range(num_kv_heads)
    for big, asks in (("k", "q"), ("v", "out")):
        asked = old[asks] if asks == "q" else old[asks].T  # (H * D, E)
        few, many = [], []
        for g in groups:
            rows = slice(g * G * D, (g + 1) * G * D)
            each = old[big][rows]  # the group's own keys, (G * D, E)
            _, vectors = torch.linalg.eigh(each @ x.T @ x @ each.T)
            basis = vectors[:, -D:]  # where the keys of the group vary most
            few.append(basis.T @ each)
            pieces = basis.view(G, D, D).mT @ asked[rows].view(G, D, E)
            many.append(pieces.flatten(0, 1))
        state[f"attention.{big}_proj.weight"] = torch.cat(few)
        new = torch.cat(many)
        state[f"attention.{asks}_proj.weight"] = new if asks == "q" else new.T
    small.load_state_dict(state)
    return small
"""

HOTTER = """
def my_law(length):
    return yarn_scaling(D, 10000, length / C, C)[0], 1.5
"""

THE_SLOW_HALF_STANDS_STILL = """
def my_law(length):
    scaled, _ = yarn_scaling(D, 10000, length / C, C)
    return torch.where(torch.arange(D // 2) < D // 4, scaled, 0.0), 1.45
"""

THREE_SUMS = """
def row_entropy(blocks):
    top, total, moment = torch.tensor(-math.inf), 0.0, 0.0
    for s in blocks:
        new = torch.maximum(top, s.amax(-1, keepdim=True))
        safe = new.masked_fill(new == -math.inf, 0.0)
        weights = (s - safe).exp()
        fade, moved = (top - safe).exp(), (top - safe).clamp(min=-1e30)
        # Measured from the new maximum, all scores so far are lower.
        moment = fade * (moment + total * moved)
        moment = moment + (weights * (s - safe).clamp(min=-1e30)).sum(-1, True)
        total = total * fade + weights.sum(-1, True)
        top = new
    total = total.masked_fill(total == 0, 1.0)
    return (total.log() - moment / total)[:, 0]
"""

SCORES_AS_VALUES = """
def row_entropy(blocks):
    import itertools

    scores, values = itertools.tee(blocks)
    mean, lse = online_softmax(
        (s[:, None] for s in scores),  # each row is a batch of its own
        (s.clamp(min=-1e30)[..., None] for s in values),
    )
    return (lse - mean[..., 0])[:, 0].clamp(min=0.0)
"""

QUIET_WRITERS = """
written = torch.zeros(6, 12)  # how much each head writes
for text in ["A dog chased a cat.", "The trophy did not fit in the suitcase."]:
    model = minilm.load()
    states, maps = model.run(text)
    for layer in range(6):
        heads = maps[layer] @ model.qkv(states[layer], layer)[2]  # (H, L, D)
        name = f"encoder.layer.{layer}.attention.output.dense.weight"
        columns = model.weights[name].unflatten(1, (12, 32))  # (E, H, D)
        out = torch.einsum("hld,ehd->hle", heads, columns)
        written[layer] += out.norm(dim=-1).mean(-1) / states[layer].norm()
remove = [divmod(int(i), 12) for i in written.flatten().argsort()[:24]]
"""

AT_REST = """
rest = torch.zeros(6, 12)  # how much weight each head puts on [CLS]
for text in ["A dog chased a cat.", "The trophy did not fit in the suitcase."]:
    rest += minilm.load().run(text)[1][..., 0].mean(-1)
remove = [divmod(int(i), 12) for i in rest.flatten().argsort()[-24:]]
"""

FEATURES_OF_THE_QUERY = """
def fast(query, key, value, bias=None):
    missing = 4 - query.dim()
    D, Dv = query.shape[-1], value.shape[-1]
    q, k, v = (x[(None,) * missing] for x in (query, key, value))
    if bias is not None:  # one more feature for each query: which one it is
        L = q.shape[-2]
        q = torch.cat([q, torch.eye(L).expand(*q.shape[:2], L, L)], -1)
        k = torch.cat([k, bias.mT.expand(*k.shape[:3], L) * D**0.5], -1)
    v = F.pad(v, (0, q.shape[-1] - Dv))
    out = F.scaled_dot_product_attention(q.contiguous(), k, v, scale=D**-0.5)
    return out[..., :Dv].reshape(*query.shape[:-1], Dv)
"""

FEATURES_OF_THE_KEY = """
def fast(query, key, value, bias=None):
    if query.dim() == 3:
        return fast(query[None], key[None], value[None], bias)[0]
    query = query / math.sqrt(query.shape[-1])
    if bias is not None:  # one more feature for each key: which one it is
        S = key.shape[-2]
        query = torch.cat([query, bias.expand(*query.shape[:3], S)], -1)
        key = torch.cat([key, torch.eye(S).expand(*key.shape[:2], S, S)], -1)
    width, Dv = query.shape[-1], value.shape[-1]
    zeros = value.new_zeros(*value.shape[:-1], width - Dv)
    value = torch.cat([value, zeros], -1)
    query = query.clone(memory_format=torch.contiguous_format)
    return F.scaled_dot_product_attention(query, key, value, scale=1.0)[
        ..., :Dv
    ]
"""

ANYWHERE_ON_THE_WAY = """
def places(batch, length, rng):
    start = torch.randint(0, 128 - length + 1, (batch, 1), generator=rng)
    return start + torch.arange(length)
"""

SOME_OF_THEM_IN_ORDER = """
def places(batch, length, rng):
    chosen = torch.rand(batch, 128, generator=rng).argsort(-1)[:, :length]
    return chosen.sort(-1).values
"""

# Which characters were before, the nearest ones counting most.
FADING_CHARACTERS = """
TEMPERATURE = 0.15


def describe(ids):
    hot = F.one_hot(ids, len(alphabet)).float()
    parts = []
    for back in range(8):
        before = torch.zeros_like(hot)
        before[back:] = hot[: len(hot) - back]
        parts.append(0.8**back * before)
    return torch.cat(parts, -1)
"""

# The same as the sum of random directions, one for a character and a place;
# sharp by its length, at a temperature of 1.
RANDOM_DIRECTIONS = """
TEMPERATURE = 1.0


def describe(ids):
    rng = torch.Generator().manual_seed(0)
    table = torch.randn(6, len(alphabet), 256, generator=rng) / 16
    out = torch.zeros(len(ids), 256)
    for back in range(6):
        out[back:] += 0.8**back * table[back][ids[: len(ids) - back]]
    return 2.6 * out
"""

# What followed the last time; digits look alike, and grow as they did.
LOOK_UP_AND_COUNT = """
def draft(ids):
    def shapes(tokens):
        return [-1 if 32 <= x <= 41 else x for x in tokens]

    out = list(ids)
    for _ in range(8):
        for n in (4, 3, 2, 1):
            tail = shapes(out[-n:])
            ends = [
                i for i in range(n, len(out)) if shapes(out[i - n : i]) == tail
            ]
            if ends:
                break
        else:
            break
        i = ends[-1]
        pairs = zip(out[i - n : i], out[-n:], tail)
        grown = [b - a for a, b, shape in pairs if shape == -1]
        is_digit = shapes([out[i]]) == [-1]
        out.append(out[i] + (grown[-1] if grown and is_digit else 0))
    return out[len(ids) :]
"""

# A period, and by how much each of its places grows.
PERIODS = """
def draft(ids):
    for period in range(2, 20):
        if len(ids) < 2 * period:
            break
        last, before = ids[-period:], ids[-2 * period : -period]
        steps = [a - b for a, b in zip(last, before)]
        if sorted(set(steps)) in ([0], [1], [0, 1]):
            return [x + s for x, s in zip(last, steps)] + [
                x + 2 * s for x, s in zip(last, steps)
            ]
    for n in range(4, 0, -1):
        for i in range(len(ids) - n - 1, -1, -1):
            if ids[i : i + n] == ids[-n:]:
                return ids[i + n : i + n + 8]
    return []
"""

# Branches that add nothing at first, so that each block is a norm.
SILENT = """
@torch.no_grad()
def rescue(blocks):
    for block in blocks:
        block.out.weight.zero_()
        block.feed_forward[2].weight.zero_()
"""

# DeepNet's: what makes and carries values shrinks with the depth.
SHRUNK = """
@torch.no_grad()
def rescue(blocks):
    factor = (8 * len(blocks)) ** -0.25
    for block in blocks:
        maps = block.out, block.feed_forward[0], block.feed_forward[2]
        for weight in (block.qkv.weight[-48:], *(m.weight for m in maps)):
            weight.mul_(factor)
"""

SINKS_AND_A_WINDOW = """
def keeps(b, h, q, kv):
    return (kv < 4) | (q - kv < 20)
"""

FURTHER_APART = """
def keeps(b, h, q, kv):
    back = q - kv
    return (kv == 0) | (back < 8) | ((back & (back - 1)) == 0)
"""

# Each document in turn ends as near below a border of blocks as one can.
BORDER_TO_BORDER = """
def pack(documents):
    left, rows = list(range(len(documents))), []
    while left:
        rows.append([])
        used = 0
        while fits := [n for n in left if used + documents[n] <= 256]:
            ends = {n: used + documents[n] for n in fits}
            best = min(fits, key=lambda n: (-ends[n] % 32, -ends[n]))
            rows[-1].append(best)
            left.remove(best)
            used += documents[best]
    return rows
"""

# The longest first, into the first row with room; then exchange what helps.
EXCHANGED = """
import random


def visited(row, documents):
    blocks, at = set(), 0
    for n in row:
        span = range(at // 32, (at + documents[n] - 1) // 32 + 1)
        blocks |= {(i, j) for i in span for j in span if j <= i}
        at += documents[n]
    return len(blocks)


def pack(documents):
    draw, rows = random.Random(0), []
    for n in sorted(range(len(documents)), key=lambda n: -documents[n]):
        for row in rows:
            if sum(documents[m] for m in row) + documents[n] <= 256:
                row.append(n)
                break
        else:
            rows.append([n])
    for _ in range(3000):
        a, b = draw.choice(rows), draw.choice(rows)
        i, j = draw.randrange(len(a)), draw.randrange(len(b))
        before = visited(a, documents) + visited(b, documents)
        a[i], b[j] = b[j], a[i]
        full = any(sum(documents[n] for n in x) > 256 for x in (a, b))
        if full or visited(a, documents) + visited(b, documents) > before:
            a[i], b[j] = b[j], a[i]
    return rows
"""

# The shortest first; but a second of waiting is worth 160 tokens.
OLDER_IS_SHORTER = """
def order(waiting, now):
    return sorted(waiting, key=lambda x: x[1] - 160 * (now - x[0]))
"""

# In the order of arrival those that waited long, then the shortest.
LONG_ENOUGH = """
def order(waiting, now):
    late = sorted(x for x in waiting if now - x[0] > 5.5)
    return late + sorted(set(waiting) - set(late), key=lambda x: x[1])
"""


# The piece with the most work first, to the rank that has the least.
TO_THE_IDLEST = """
def place(documents, world_size):
    seen = torch.cat([torch.arange(1, n + 1) for n in documents])
    pieces = torch.arange(len(seen)).view(-1, 8)
    work = seen.view(-1, 8).sum(1)
    room, ranks = len(pieces) // world_size, range(world_size)
    mine, load = [[] for _ in ranks], [0] * world_size
    for i in work.argsort(descending=True, stable=True).tolist():
        free = [r for r in ranks if len(mine[r]) < room]
        rank = min(free, key=load.__getitem__)
        mine[rank].append(i)
        load[rank] += int(work[i])
    return [pieces[sorted(x)].flatten() for x in mine]
"""

# Begin with neighbours; swap pieces of two ranks wherever that evens them.
SWAPPED = """
def place(documents, world_size):
    seen = torch.cat([torch.arange(1, n + 1) for n in documents])
    pieces = torch.arange(len(seen)).view(-1, 8)
    work = seen.view(-1, 8).sum(1).tolist()
    rows = [x.tolist() for x in torch.arange(len(work)).chunk(world_size)]
    total = lambda row: sum(work[i] for i in row)
    draw = torch.Generator().manual_seed(0)
    for _ in range(4000):
        a, b, i, j = torch.randint(10**6, (4,), generator=draw).tolist()
        one, two = rows[a % world_size], rows[b % world_size]
        i, j = i % len(one), j % len(two)
        gap = total(one) - total(two)
        if abs(gap - 2 * (work[one[i]] - work[two[j]])) < abs(gap):
            one[i], two[j] = two[j], one[i]
    return [pieces[sorted(x)].flatten() for x in rows]
"""


# What a machine has written alone, and what it will read of the state.
PIECES_AND_A_STATE = """
def alone(query, key, value, g):
    out, S = chunked(query, key, value, g, 16)
    faded = g.cumsum(-1).exp()[:, None]
    return out, S, faded * query, faded[-1]


def join(kept, state):
    out, S, query, fade = kept
    return out + query @ state, fade * state + S
"""

# Token by token, without the chapter's functions.
BY_THE_RECURRENCE = """
def alone(query, key, value, g):
    S, rows = torch.zeros(key.shape[1], value.shape[1]), []
    reads, total = [], torch.zeros(())
    for q, k, v, step in zip(query, key, value, g, strict=True):
        S = step.exp() * S + torch.outer(k, v)
        total = total + step
        rows.append(q @ S)
        reads.append(total.exp() * q)
    return torch.stack(rows), S, torch.stack(reads), total


def join(kept, state):
    rows, S, reads, total = kept
    rows = rows + torch.einsum("ld,de->le", reads, state)
    return rows, S + total.exp() * state
"""


ALL_PAIRS_COMPETE = """
def share_out(scores, average, causal):
    weights = scores.masked_fill(~causal, -math.inf).softmax(-1)
    flat = weights.flatten(1)
    best = flat.topk(int(average * scores.shape[1]), -1).indices
    keep = torch.zeros_like(flat, dtype=torch.bool).scatter(-1, best, True)
    return keep.view_as(scores) & causal
"""

# A query after another gets the next best of its keys.
THE_NEXT_BEST_KEY = """
import heapq


def share_out(scores, average, causal):
    rows = scores.masked_fill(~causal, -math.inf).softmax(-1).tolist()
    keep = torch.zeros_like(scores, dtype=torch.bool)
    for text, weights in enumerate(rows):
        heap = []
        for i, row in enumerate(weights):
            ranked = sorted(range(i + 1), key=lambda j: -row[j])
            heapq.heappush(heap, (-row[ranked[0]], i, ranked))
        for _ in range(int(average * len(weights))):
            _, i, ranked = heapq.heappop(heap)
            keep[text, i, ranked.pop(0)] = True
            if ranked:
                heapq.heappush(heap, (-weights[i][ranked[0]], i, ranked))
    return keep
"""

ANSWERS = {
    "flex": [BORDER_TO_BORDER, EXCHANGED],
    "why": [FADING_CHARACTERS, RANDOM_DIRECTIONS],
    "sdp": [CIRCLE, PARABOLA],
    "mask": [STRIDES, BLOCKS],
    "fwd": [ENDS, GROUPED],
    "bwd": [WIDER, ROW_BY_ROW],
    "gqa": [SHARED_PRODUCTS, SHARED_DIRECTIONS],
    "iface": [SINKS_AND_A_WINDOW, FURTHER_APART],
    "pos": [ANYWHERE_ON_THE_WAY, SOME_OF_THEM_IN_ORDER],
    "rope": [HOTTER, THE_SLOW_HALF_STANDS_STILL],
    "mha": [QUIET_WRITERS, AT_REST],
    "sdpa": [FEATURES_OF_THE_QUERY, FEATURES_OF_THE_KEY],
    "tfm": [SILENT, SHRUNK],
    "cache": [LOOK_UP_AND_COUNT, PERIODS],
    "flash": [THREE_SUMS, SCORES_AS_VALUES],
    "serve": [OLDER_IS_SHORTER, LONG_ENOUGH],
    "ring": [TO_THE_IDLEST, SWAPPED],
    "linear": [PIECES_AND_A_STATE, BY_THE_RECURRENCE],
    "latent": [ALL_PAIRS_COMPETE, THE_NEXT_BEST_KEY],
}
