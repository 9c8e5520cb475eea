// Chapter 19: a state is written by each token, and read with every key so far.
Play.figure("linear_state", ({ colours, keys, texts, states, betas, fade },
  { expression, live }) => {
  const { html, svg, set, text } = Play;
  const CELL = 52, LEFT = 56, TOP = 64, ROW = 42, BAR = 44, MOST = 6;
  const rules = Object.keys(betas), names = Object.keys(texts);
  const show2 = (x) => x.toFixed(2).replace("-", "−");
  const read = (state, key) => colours.map((_, j) =>
    keys[key].reduce((sum, x, i) => sum + x * state[i][j], 0));

  // A word for a colour, and what it names, are in its ink.
  const ink = (name) => `--ink: var(--ink-${name})`;

  const show = () => {
    const story = texts[choice.value()], way = rule.value();
    walk.most(story.length);
    const n = Math.min(walk.value(), story.length);
    const [key, colour] = story[n - 1];
    const all = states[choice.value()][way], state = all[n - 1];
    const before = n > 1 ? all[n - 2] : state.map((row) => row.map(() => 0));
    cells.forEach((row, i) => row.forEach(([box, label], j) => {
      const x = state[i][j], changed = Math.abs(x - before[i][j]) > 0.0005;
      set(box, { class: x < 0 ? "cell minus" : "cell",
        style: `${ink(colours[j])}; --weight: ${Math.min(Math.abs(x) / 1.5, 1)}` });
      set(label, { class: changed ? "changed" : "" });
      label.textContent = Math.abs(x) < 0.005 ? "0" : show2(x);
    }));
    features.forEach((label, i) => { label.textContent = show2(keys[key][i]); });
    heads.forEach((label, j) => {
      set(label, { class: colours[j] === colour ? "written" : "" });
    });
    // What was stored last at each key, in the order of their first mention.
    const stored = new Map();
    story.slice(0, n).forEach(([word, value]) => stored.set(word, value));
    const kept = [...stored];
    lines.forEach((line, r) => {
      set(line.group, { visibility: r < kept.length ? "visible" : "hidden" });
      if (r >= kept.length) return;
      const [word, value] = kept[r], found = read(state, word);
      line.name.textContent = word;
      line.bars.forEach(([bar, number], j) => {
        const size = Math.min(Math.abs(found[j]), 1.5) / 1.5 * (BAR - 6);
        const own = colours[j] === value, far = Math.abs(found[j]);
        set(bar, { width: size, class: found[j] < 0 ? "bar minus" : "bar" });
        set(number, { class: own ? "written" : far > 0.25 ? "stale" : "" });
        number.textContent = (own ? "✓ " : "") + (far < 0.005 ? "0" : show2(found[j]));
      });
    });
    const was = read(before, key).map((x) => (betas[way] === null && way !== rules[0]
      ? fade * x : x));
    const wrong = kept.filter(([word, value]) => {
      const found = read(state, word);
      return found.some((x, j) => Math.abs(x - (colours[j] === value)) > 0.25);
    }).map(([word]) => word);
    const list = new Intl.ListFormat("en-GB");
    const held = colours.filter((_, j) => Math.abs(was[j]) > 0.005)
      .map((name) => `${show2(was[colours.indexOf(name)])} ${name}`);
    live.say(`Token ${n}, “${key} ${colour}”. The key found `
      + `${held.length ? list.format(held) : "nothing"}; now it reads `
      + `${show2(read(state, key)[colours.indexOf(colour)])} ${colour}. `
      + (wrong.length ? `Not as stored: ${list.format(wrong)}.`
        : "Every key reads what was stored last."));
    const cut = `[:, :${n}]`;
    expression.show(betas[way] === null
      ? `attn.linear_attention(k${cut}, k${cut}, v${cut}, g${cut}, output_final_state=True)`
      : `attn.gated_delta_rule(k${cut}, k${cut}, v${cut}, None, beta${cut}, `
        + "output_final_state=True)");
  };

  const rule = Play.choice("rule", rules, show);
  const choice = Play.choice("text", names, show);
  choice.querySelector("select").value = names[1];
  const walk = Play.steps("token", MOST, 4, show, (n) => `${n}`);
  const cells = [0, 1, 2].map((i) => colours.map((_, j) => [
    svg("rect", { x: LEFT + j * CELL, y: TOP + i * 40, width: CELL - 3, height: 37, rx: 3 }),
    text(LEFT + j * CELL + 24, TOP + i * 40 + 23, "", "middle")]));
  const features = [0, 1, 2].map((i) => text(LEFT - 10, TOP + i * 40 + 23, "", "end"));
  const heads = colours.map((name, j) => text(LEFT + j * CELL + 24, TOP - 10, name, "middle"));
  const chips = (left, step, y) => colours.map((name, j) => svg("rect", { class: "chip",
    x: left + j * step, y, width: 36, height: 4, rx: 2, style: ink(name) }));
  const lines = Object.keys(keys).map((_, r) => {
    const y = TOP + r * ROW - 8, name = text(44, y + 17, "", "end");
    const bars = colours.map((_, j) => [
      svg("rect", { x: 56 + j * (BAR + 8), y: y + 4, height: 8, style: ink(colours[j]) }),
      text(56 + j * (BAR + 8), y + 27)]);
    return { name, bars, group: svg("g", {}, name, bars.flat()) };
  });
  const boards = [
    Play.board("state", "0 0 276 270", "The state: rows are features of the key, columns are "
      + "colours.", text(4, 18, "the state, and the key being written"),
    text(LEFT - 10, TOP - 10, "key", "end"), chips(LEFT + 6, CELL, TOP - 6), heads, features,
    cells.flat(2)),
    Play.board("state", "0 0 276 270", "What each key reads now, colour by colour; a tick is at "
      + "what was stored last, and what is left of others is struck out.",
    text(4, 18, "what each key reads; ✓ stored last"), chips(56, BAR + 8, TOP - 14),
    colours.map((name, j) => text(56 + j * (BAR + 8), TOP - 18, name)),
    lines.map((line) => line.group)),
  ];
  show();
  return [
    html("p", {}, "Step through the text: each token writes its colour at its key. Then change "
      + "the rule, and the text."),
    html("div", { class: "touch-controls" }, walk, rule, choice),
    html("div", { class: "touch-panels" }, boards),
    expression, live,
  ];
}, { title: "A state, written and read", reserve: [200, 110], instead: true });
