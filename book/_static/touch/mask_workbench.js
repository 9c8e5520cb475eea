// Chapter 3: put a mask together, and see the weights share what is left.
Play.figure("mask_workbench", ({ size, masks, scores, words }) => {
  const { html, svg } = Play;
  const CELL = 26, LEFT = 58, TOP = 20;
  let chosen = 5;

  const draw = () => {
    const { offset, ...state } = Object.fromEntries(Object.entries(controls)
      .map(([name, control]) => [name, control.value()]));
    const allowed = [];
    const has = (name, i, j) => masks[name][i + offset][j] === "1";
    for (let i = 0; i < size; i++) {
      allowed.push([]);
      for (let j = 0; j < size; j++) {
        let on = !state.window || has(`window ${state.window}`, i, j)
          || (state.sinks > 0 && has(`prefix ${state.sinks}`, i, j));
        on &&= !state.causal || has("causal", i, j);
        if (state.prefix) on ||= has(`prefix ${state.prefix}`, i, j);
        if (state.documents) on &&= has("documents", i, j);
        if (state.padding) on &&= has("padding", i, j);
        allowed[i].push(on);
      }
    }
    controls.sinks.enable(state.window > 0);
    expression.show(written(state, offset));
    const weights = allowed.map((row, i) => softmax(row, scores[i]));
    let dead = 0;
    for (let i = 0; i < size; i++) {
      const none = !allowed[i].some(Boolean);
      dead += none;
      rows[i].setAttribute("class", none ? "query dead" : "query");
      labels[i].textContent = name(i + offset);
      for (let j = 0; j < size; j++) {
        const cell = cells[i][j];
        cell.setAttribute("class", allowed[i][j] ? "on" : "off");
        cell.style.setProperty("--weight", weights[i][j].toFixed(4));
        cell.dataset.weight = weights[i][j].toFixed(4);
      }
    }
    frame.setAttribute("y", TOP + chosen * CELL - 1);
    const seen = allowed[chosen].flatMap((on, j) =>
      on ? [`${name(j)} ${weights[chosen][j].toFixed(2)}`] : []);
    live.say(`Query ${name(chosen + offset)} ` + (seen.length
      ? `attends to ${seen.length} of ${size} keys: ${seen.join(", ")}.`
      : "may attend to no key: a dead row.")
      + (dead ? ` Dead rows: ${dead}.` : ""));
  };

  // A position, and its word where the text has one.
  const name = (position) => `${words[position] ?? ""} ${position}`.trim();

  const softmax = (row, numbers) => {
    const top = Math.max(...numbers.filter((_, j) => row[j]));
    const exps = numbers.map((s, j) => (row[j] ? Math.exp(s - top) : 0));
    const total = exps.reduce((a, b) => a + b, 0);
    return exps.map((e) => (total ? e / total : 0));
  };

  // The same mask, as attn writes it.
  const written = (state, offset) => {
    const near = [];
    if (state.causal) near.push("causal()");
    if (state.window) {
      const own = `sliding_window(${state.window})`;
      near.push(state.sinks ? `(${own} | prefix(${state.sinks}))` : own);
    }
    let text = near.join(" & ");
    if (state.prefix && text) text += ` | prefix(${state.prefix})`;
    const also = [];
    if (state.documents) also.push("documents(ids)");
    if (state.padding) also.push("padding(valid)");
    if (also.length && text && state.prefix) text = `(${text})`;
    text = [text, ...also].filter(Boolean).join(" & ") || "window()";
    const mask = /[&|]/.test(text) ? `(${text})` : text;
    return `${mask}.dense(${size}, q_offset=${offset})`;
  };

  const controls = {
    causal: Play.toggle("causal", true, draw),
    window: Play.slider("window", 0, 8, 0, draw, (n) => (n ? `${n}` : "off")),
    sinks: Play.slider("sinks", 0, 3, 0, draw, (n) => (n ? `${n}` : "off")),
    prefix: Play.slider("prefix", 0, 6, 0, draw, (n) => (n ? `${n}` : "off")),
    documents: Play.toggle("documents", false, draw),
    padding: Play.toggle("padding", false, draw),
    offset: Play.slider("q_offset", 0, 6, 0, draw),
  };

  const choose = (row) => {
    chosen = Math.min(Math.max(row, 0), size - 1);
    draw();
  };
  const cells = [], rows = [];
  const labels = words.map((_, i) => svg("text", { x: LEFT - 8,
    y: TOP + i * CELL + 17, "text-anchor": "end" }));
  for (let i = 0; i < size; i++) {
    cells.push(Array.from({ length: size }, (_, j) => svg("rect", {
      x: LEFT + j * CELL, y: TOP + i * CELL, width: CELL - 2,
      height: CELL - 2, rx: 3,
    })));
    rows.push(svg("g", { class: "query", onpointerenter: () => choose(i),
      onclick: () => choose(i) },
      labels[i], cells[i]));
  }
  const frame = svg("rect", { class: "frame", x: LEFT - 1, width: size * CELL,
    height: CELL, rx: 4 });
  const board = svg("svg", {
    viewBox: `0 0 ${LEFT + size * CELL + 2} ${TOP + size * CELL + 2}`,
    class: "touch-board", role: "application", tabindex: 0,
    "aria-label": "Queries down, keys across. Arrow up and down choose a query.",
    onkeydown: (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      choose(chosen + step);
    },
  },
  words.map((_, j) => svg("text", { x: LEFT + (j + 0.5) * CELL, y: 12,
    "text-anchor": "middle" }, `${j}`)),
  rows, frame);
  const expression = Play.expression();
  const live = Play.live();
  draw();
  return [
    html("div", { class: "touch-controls" }, Object.values(controls)),
    board, expression, live,
  ];
});
