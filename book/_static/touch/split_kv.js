// Chapter 13: a decoding step on a GPU, with its keys in one part or in many.
Play.figure("split_kv", (numbers, { expression, live }) => {
  const { html, svg, set, text } = Play;
  const { processors, bandwidth, most, heads: H, part, cache } = numbers;
  const COLUMNS = 22, CELL = 15.8, SIDE = 13.4, WIDE = 346, KEYS = 20, TALL = 66, GPU = 116;
  const LEFT = 52, RIGHT = 340, LANES = 20, HIGH = 88, TOP = 154, LOW = 228, FINEST = 200;
  const lengths = Object.keys(cache), heads = Object.keys(cache[lengths[0]]);
  const list = (count, make) => Array.from({ length: count }, (_, i) => make(i));
  const many = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;
  const micro = (t) => `${t.toFixed(t < 99.5 ? 1 : 0)} µs`;
  const box = (x, y, wide, high) => `M${x} ${y}h${wide}v${high}h${-wide}z`;

  // Times are in microseconds, as book/figures/split_kv.py models them.
  const model = (splits, kv, held, length) => {
    const chunk = Math.ceil(length / splits), programs = splits * kv;
    const room = processors * held, waves = Math.ceil(programs / room);
    const share = bandwidth / processors / 1e6, merge = splits * part / share;
    const one = (chunk * cache[length][1] / length + H / kv * part) / share;
    const work = Math.ceil(programs / processors) * one;
    return { splits, kv, held, length, chunk, programs, room, waves, one, work, merge,
      last: programs - (waves - 1) * room, busy: programs / (waves * room),
      total: work + merge, least: cache[length][kv] / bandwidth * 1e6 };
  };
  // How many of `count` programs run on processor i: they take turns.
  const shared = (count, i) => Math.floor(count / processors) + (i < count % processors);
  const when = (t) => LEFT + t / now.span * (RIGHT - LEFT);
  const across = (splits) => LEFT + (splits - 1) / (most - 1) * (RIGHT - LEFT);

  // The keys that are read, and the processors that work, at a moment.
  const paint = () => {
    const { splits, kv, held, length, chunk, programs, room, waves, one, work, total } = now;
    const t = moment.value() / FINEST * total, row = TALL / kv;
    const wave = Math.min(Math.floor(t / (held * one)), waves - 1), first = wave * room;
    const count = Math.min(room, programs - first), spent = t - wave * held * one;
    const done = (i) => Math.min(spent / (shared(count, i % processors) * one), 1);
    const merged = (t - work) / (total - work);
    let read = "", full = "", busy = 0;
    list(first + count, (p) => {
      const begin = p % splits * chunk, got = chunk * (p < first ? 1 : done(p - first));
      const size = Math.min(got, length - begin) / length * WIDE;
      if (size > 0) read += box(2 + begin / length * WIDE, KEYS + Math.floor(p / splits) * row,
        size, row);
    });
    list(merged < 0 ? count : H, (n) => {
      const i = n % processors, wide = SIDE / (merged < 0 ? held : 1);
      const gone = merged < 0 ? done(n) : merged;
      if (gone === 1) return;
      busy += 1;
      full += box(2 + i % COLUMNS * CELL + (n - i) / processors * wide,
        GPU + Math.floor(i / COLUMNS) * CELL + SIDE * gone, wide, SIDE * (1 - gone));
    });
    set(keys, { d: read });
    set(places, { d: full, class: merged < 0 ? "work" : "merge" });
    set(hand, { d: `M${when(t)} ${LANES - 4}v${HIGH + 8}` });
    clock.textContent = `${micro(t)}: ` + (merged < 0 ? `wave ${wave + 1} of ${waves}, `
      + `${many(busy, "program")} at work` : busy ? "the parts are merged" : "done");
  };

  let now = { total: 0 };
  const show = (moved) => {
    const held = 2 ** controls.held.value(), length = lengths[controls.length.value()];
    const kv = Number(heads[controls.heads.value()]);
    const all = list(most, (i) => model(i + 1, kv, held, length).total);
    now = model(controls.splits.value(), kv, held, length);
    const { splits, chunk, programs, waves, one, work, merge, last, busy, total, least } = now;
    now.span = least * 2 ** Math.ceil(Math.log2(total / least));
    const up = (t) => LOW - Math.log(t / least) / Math.log(all[0] / least) * (LOW - TOP);

    squares.forEach((square, i) => { square.dataset.programs = shared(last, i); });
    set(knife, { d: list(Math.ceil(length / chunk) - 1, (i) =>
      `M${2 + (i + 1) * chunk / length * WIDE} ${KEYS}v${TALL}`).join("")
      + list(kv - 1, (i) => `M2 ${KEYS + (i + 1) * TALL / kv}h${WIDE}`).join("") });
    const rounds = programs / processors, turns = Math.ceil(rounds);
    set(lanes, { d: list(turns, (i) => box(when(i * one), LANES,
      Math.max(when(one) - LEFT - 1, 0.5), HIGH * Math.min(1, rounds - i))).join("") });
    set(joined, { d: box(when(work), LANES, when(merge) - LEFT, HIGH * H / processors) });
    set(curve, { d: `M${all.map((t, i) => `${across(i + 1)},${up(t)}`).join("L")}` });
    set(dot, { cx: across(splits), cy: up(total), "data-busy": busy, "data-total": total });
    [`the keys: ${many(kv, "head")}, each in ${many(splits, "part")} of ${chunk}`,
      `${processors} processors over time: ${(100 * rounds / turns).toFixed(0)} % at work`,
      ...[now.span, all[0], least].map(micro)].forEach((x, i) => { labels[i].textContent = x; });
    expression.show(`attn.cost.kv_cache_bytes(1, ${length}, 1, ${kv}, 128)`);
    const times = (total / Math.min(...all)).toFixed(2);
    live.say(`${many(splits, "split")} of ${many(kv, "key head")}: ${many(programs, "program")} `
      + `in ${many(waves, "wave")}, ${last} in the last. Busy places: ${Math.round(100 * busy)} %; `
      + `the parts add ${(200 * H * part * splits / cache[length][kv]).toFixed(1)} % to `
      + `the bytes. In this model a step takes ${micro(total)}, ${micro(merge)} of it to merge: `
      + `${times} times as long as with the best number of splits.`);
    if (moved !== undefined && !Play.still()) return start(0);
    stop();
    go(((waves - 1) * held + Math.ceil(last / processors) / 2) * one / total);
  };

  // A run goes on until it is over, stopped, or followed by another.
  let latest = 0, runs = false;
  const go = (share) => { runs = true; moment.set(Math.round(share * FINEST)); runs = false; };
  const stop = () => { latest += 1; play.textContent = "Play"; };
  const start = (from = moment.value() % FINEST / FINEST) => {
    const own = ++latest, begun = performance.now();
    const long = 1200 * Math.min(now.total / now.least, 6);
    const frame = () => {
      if (own !== latest) return 0;
      const share = Math.min(from + (performance.now() - begun) / long, 1);
      go(share);
      return share < 1 ? requestAnimationFrame(frame) : stop();
    };
    play.textContent = "Pause";
    frame();
  };
  const play = Play.button("Play", () => (play.textContent === "Play" ? start() : stop()));
  const moment = Play.slider("time", 0, FINEST, 0, () => { if (!runs) stop(); paint(); },
    (i) => micro(i / FINEST * now.total));
  const controls = {
    splits: Play.steps("splits", most, 17, show, String, { pace: 0 }),
    heads: Play.slider("key heads", 0, heads.length - 1, 3, show, (i) => heads[i]),
    length: Play.slider("keys", 0, lengths.length - 1, 2, show, (i) => lengths[i]),
    held: Play.slider("programs a processor", 0, 2, 0, show, (i) => `${2 ** i}`),
  };
  const squares = list(processors, (i) => svg("rect", { class: "place", rx: 2, width: SIDE,
    height: SIDE, x: 2 + i % COLUMNS * CELL, y: GPU + Math.floor(i / COLUMNS) * CELL }));
  const [keys, knife, places, lanes, joined, hand, curve] = ["work", "knife", "work", "work",
    "merge", "hand", "curve"].map((name) => svg("path", { class: name }));
  const title = (y, words) => set(text(2, y, words), { class: "title" });
  const left = (y, words) => text(LEFT - 6, y, words, "end"), dot = svg("circle", { r: 5 });
  const labels = [title(12), title(12), text(RIGHT, 122, "", "end"), left(TOP + 4), left(LOW + 4)];
  const clock = text(2, 232), choose = ({ buttons, offsetX }) => {
    const share = (offsetX / right.clientWidth * 350 - LEFT) / (RIGHT - LEFT);
    if (buttons) controls.splits.set(Math.round(1 + share * (most - 1)));
  };
  const right = set(Play.board("split", "0 0 350 250", "Above, which processors work over time; "
    + "below, the time of a step against the number of splits.",
  lanes, joined, hand, left(LANES + 11, 1), left(LANES + HIGH, processors), text(LEFT, 122, 0),
  title(143, "time of a step, by splits (press or drag)"),
  [1, 16, 32, 48, 64].map((n) => text(across(n), LOW + 16, n, "middle")),
  [[LANES, LANES + HIGH], [TOP, LOW]].map(([top, low]) => svg("path", { class: "axis",
    d: `M${LEFT} ${top}V${low}H${RIGHT}` })),
  labels.slice(1), curve, dot), { onpointerdown: choose, onpointermove: choose });
  show();
  return [
    html("p", {}, "One token is decoded: each processor drains its part of the keys. Move splits, "
      + "and watch how many work, and how long. The times are modelled, not measured: a processor "
      + `moves 1/${processors} of an H100’s 3.35 TB/s, and a launch costs nothing.`),
    html("div", { class: "touch-controls" }, play, moment, Object.values(controls)),
    html("div", { class: "touch-panels" }, Play.board("split", "0 0 350 250", "The keys, cut into "
      + "parts, and a square for each of 132 processors, filled as far as its part is unread.",
    svg("rect", { class: "place", x: 2, y: KEYS, width: WIDE, height: TALL }), keys, knife,
    labels[0], title(106, `the GPU: ${processors} processors`), squares, places, clock), right),
    live, expression,
  ];
}, { title: "A step of decoding on a GPU" });
