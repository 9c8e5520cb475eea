// Chapter 13: how many processors have work when a token's keys are split.
Play.figure("split_kv", ({ processors, most, partial, cache }, { expression, live }) => {
  const { html, svg, set, text } = Play;
  const COLUMNS = 18, CELL = 17, LEFT = 48, TOP = 12, WIDE = 252, TALL = 150;
  const lengths = Object.keys(cache), heads = Object.keys(cache[lengths[0]]);
  const each = (count, make) => Array.from({ length: count }, (_, i) => make(i));

  const waves = (programs, held) => Math.ceil(programs / (processors * held));
  // The share of the processors' places that have a program, over all waves.
  const busy = (programs, held) =>
    programs / (processors * held * waves(programs, held));
  const across = (splits) => LEFT + (splits - 1) / (most - 1) * WIDE;
  const up = (share) => TOP + (1 - share) * TALL;

  const show = () => {
    const splits = controls.splits.value(), held = 2 ** controls.held.value();
    const length = lengths[controls.length.value()];
    const kv = Number(heads[controls.heads.value()]);
    const programs = splits * kv, all = waves(programs, held);
    const last = programs - (all - 1) * processors * held;
    squares.forEach((square, i) => {
      const mine = Math.floor(last / processors) + (i < last % processors);
      square.setAttribute("class", mine ? "on" : "off");
      square.style.setProperty("--weight", mine / held);
      square.dataset.programs = mine;
    });
    const points = each(most, (i) =>
      `${across(i + 1).toFixed(1)},${up(busy((i + 1) * kv, held)).toFixed(1)}`);
    set(curve, { d: `M${points.join("L")}` });
    const share = busy(programs, held);
    set(dot, { cx: across(splits), cy: up(share), "data-busy": share });
    const bytes = cache[length][kv];
    expression.show(`attn.cost.kv_cache_bytes(1, ${length}, 1, ${kv}, 128)`);
    live.say(`${splits} ${splits === 1 ? "split" : "splits"} of ${kv} key `
      + `${kv === 1 ? "head" : "heads"}: ${programs} programs in ${all} `
      + `${all === 1 ? "wave" : "waves"}, ${last} in the last. The processors are `
      + `${(100 * share).toFixed(0)} % busy. The parts add `
      + `${(100 * partial * splits / bytes).toFixed(1)} % to the bytes of the cache.`);
  };

  const controls = {
    splits: Play.slider("splits", 1, most, 17, () => show()),
    heads: Play.slider("key heads", 0, heads.length - 1, 3, () => show(), (i) => heads[i]),
    held: Play.slider("programs a processor", 0, 2, 0, () => show(), (i) => `${2 ** i}`),
    length: Play.slider("keys", 0, lengths.length - 1, 2, () => show(),
      (i) => lengths[i]),
  };
  const squares = each(processors, (i) => svg("rect", { rx: 2, width: CELL - 3,
    height: CELL - 3, x: 7 + (i % COLUMNS) * CELL, y: 22 + Math.floor(i / COLUMNS) * CELL }));
  const curve = svg("path", { class: "curve" }), dot = svg("circle", { class: "dot", r: 5 });
  show();
  return [
    html("p", {}, "The squares are the processors in the last wave: those with a program are "
      + "filled. The curve is how busy all are over all waves, for each number of splits. Find "
      + "the smallest number with more than 95 %, then take one more."),
    html("div", { class: "touch-controls wide" }, Object.values(controls)),
    html("div", { class: "touch-panels" },
      Play.board("split", "0 0 320 200", "A square for each of 132 processors, filled if it "
        + "has a program in the last wave.", text(7, 14, "the last wave"), squares),
      Play.board("split", "0 0 320 200", "How busy the processors are, against the number "
        + "of splits.",
      [0, 0.5, 1].map((share) => text(LEFT - 6, up(share) + 4, `${100 * share} %`, "end")),
      [1, 16, 32, 48, 64].map((n) => text(across(n), TOP + TALL + 18, `${n}`, "middle")),
      text(LEFT + WIDE / 2, TOP + TALL + 34, "splits", "middle"),
      svg("path", { class: "axis", d: `M${LEFT},${TOP}v${TALL}h${WIDE}` }), curve, dot)),
    expression, live,
  ];
});
