// Chapter 19: a state is written by each token, and read with every key so far.
Play.figure("linear_state", ({ colours, keys, texts, states, betas, fade },
  { expression, live }) => {
  const { html, svg, set, text } = Play;
  const CELL = 52, LEFT = 78, TOP = 58, HIGH = 25, READ = 160, ROW = 27, BAR = 38, MOST = 6;
  const rules = Object.keys(betas), names = Object.keys(texts);
  const show2 = (x) => (Math.abs(x) < 0.005 ? "0" : x.toFixed(2).replace("-", "−"));
  const list = new Intl.ListFormat("en-GB");
  const read = (state, key) => colours.map((_, j) =>
    keys[key].reduce((sum, x, i) => sum + x * state[i][j], 0));
  // A word for a colour, and what it names, are in its ink.
  const ink = (name) => `--ink: var(--ink-${name})`;
  const across = (j) => LEFT + j * CELL;

  // A rule's picture: its state above, below what each key reads from it.
  const picture = () => {
    const cells = [0, 1, 2].map((i) => colours.map((_, j) => [
      svg("rect", { x: across(j), y: TOP + i * HIGH, width: CELL - 3, height: HIGH - 3, rx: 3 }),
      text(across(j) + 24, TOP + i * HIGH + 16, "", "middle")]));
    const features = [0, 1, 2].map((i) => text(LEFT - 8, TOP + i * HIGH + 16, "", "end"));
    const heads = colours.map((name, j) => text(across(j) + 24, TOP - 9, name, "middle"));
    const lines = Object.keys(keys).map((_, r) => {
      const y = READ + r * ROW, name = text(LEFT - 8, y + 16, "", "end");
      const bars = colours.map((colour, j) => [
        svg("rect", { x: across(j), y: y + 2, height: 8, style: ink(colour) }),
        text(across(j), y + 22)]);
      const hold = svg("rect", { class: "hold", x: 0, y, width: 286, height: ROW });
      return { name, bars, group: svg("g", { onclick: () => go(name.textContent) }, hold, name,
        bars.flat()) };
    });
    const title = set(text(4, 16), { class: "written" });
    const board = Play.board("state", `0 0 286 ${READ + 5 * ROW}`, "The state, features of the key "
      + "down and colours across; below, what each key reads from it. A tick is at what was "
      + "stored last, and what is left of others is struck out.", title,
    text(LEFT - 8, TOP - 9, "key", "end"), heads, features, cells.flat(2),
    colours.map((name, j) => svg("rect", { class: "chip", x: across(j) + 6, y: TOP - 6, width: 36,
      height: 4, rx: 2, style: ink(name) })),
    text(4, READ - 8, "what each key reads; ✓ stored last"), lines.map((line) => line.group));

    // Draw the state after n tokens; return what is to be said of it.
    const draw = (way, story, n) => {
      const [key, colour] = story[n - 1], all = states[choice.value()][way], state = all[n - 1];
      const before = n > 1 ? all[n - 2] : state.map((row) => row.map(() => 0));
      title.textContent = `${way}: the state`;
      cells.forEach((row, i) => row.forEach(([box, label], j) => {
        const x = state[i][j], changed = Math.abs(x - before[i][j]) > 0.0005;
        set(box, { class: x < 0 ? "cell minus" : "cell",
          style: `${ink(colours[j])}; --weight: ${Math.min(Math.abs(x) / 1.5, 1)}` });
        set(label, { class: changed ? "changed" : "" });
        label.textContent = show2(x);
      }));
      features.forEach((label, i) => {
        label.textContent = `${Object.keys(keys)[i]} ${keys[key][i].toFixed(2)}`;
      });
      heads.forEach((label, j) => set(label, { class: colours[j] === colour ? "written" : "" }));
      // What was stored last at each key, in the order of their first mention.
      const kept = [...new Map(story.slice(0, n))];
      lines.forEach((line, r) => {
        set(line.group, { visibility: r < kept.length ? "visible" : "hidden" });
        if (r >= kept.length) return;
        const [word, value] = kept[r], found = read(state, word);
        line.name.textContent = word;
        line.bars.forEach(([bar, number], j) => {
          const own = colours[j] === value, far = Math.abs(found[j]);
          set(bar, { width: Math.min(far, 1.5) / 1.5 * BAR, class: found[j] < 0 ? "bar minus" : "bar" });
          set(number, { class: own ? "written" : far > 0.25 ? "stale" : "" });
          number.textContent = (own ? "✓ " : "") + show2(found[j]);
        });
      });
      const faded = betas[way] === null && way !== rules[0] ? fade : 1;
      const was = read(before, key).map((x) => faded * x);
      const held = colours.flatMap((name, j) =>
        (Math.abs(was[j]) > 0.005 ? [`${show2(was[j])} ${name}`] : []));
      const wrong = kept.filter(([word, value]) => read(state, word).some((x, j) =>
        Math.abs(x - (colours[j] === value)) > 0.25)).map(([word]) => word);
      return `“${way}” found ${held.length ? list.format(held) : "nothing"} there, reads `
        + `${show2(read(state, key)[colours.indexOf(colour)])} ${colour} now; `
        + (wrong.length === 0 ? "all keys as stored." : wrong.length === kept.length ? "no key as stored."
          : `not as stored: ${list.format(wrong)}.`);
    };
    return { board, draw };
  };

  const show = () => {
    const story = texts[choice.value()], n = Math.min(walk.value(), story.length);
    walk.most(story.length);
    const said = pictures.map(({ draw }, i) => draw(ways[i].value(), story, n));
    live.say(`Token ${n} writes ${story[n - 1][1]} at ${story[n - 1][0]}. ${[...new Set(said)].join(" ")}`);
    const cut = `[:, :${n}]`;
    expression.show(betas[ways[0].value()] === null
      ? `attn.linear_attention(k${cut}, k${cut}, v${cut}, g${cut}, output_final_state=True)`
      : `attn.gated_delta_rule(k${cut}, k${cut}, v${cut}, None, beta${cut}, `
        + "output_final_state=True)");
  };
  // Go on to where a key is written next, or back to where it was first.
  const go = (word) => {
    const at = texts[choice.value()].flatMap(([key], i) => (key === word ? [i + 1] : []));
    walk.set(at.find((n) => n > walk.value()) ?? at[0]);
  };
  const ways = ["rule", "beside it"].map((label) => Play.choice(label, rules, () => show()));
  const choice = Play.choice("text", names, show);
  choice.querySelector("select").value = names[1];
  ways[1].querySelector("select").value = rules[2];
  const walk = Play.steps("token", MOST, 4, show);
  const pictures = ways.map(picture);
  show();
  return [
    html("p", {}, "Step through the text: each token writes its colour at its key, by two rules "
      + "side by side. Press a key to go to where it is written."),
    html("div", { class: "touch-controls pairs" }, walk, ways, choice),
    html("div", { class: "touch-panels" }, pictures.map(({ board }) => board)),
    expression, live,
  ];
}, { title: "A state, written and read", reserve: [288, 110], instead: true });
