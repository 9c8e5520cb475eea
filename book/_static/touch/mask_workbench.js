// Chapter 3: put a mask together, and see the weights share what is left.
Play.figure("mask_workbench", ({ size, masks, scores, words },
  { expression, live }) => {
  const { html, svg, text } = Play;
  const CELL = 26, LEFT = 58, TOP = 20;

  const draw = () => {
    const { offset, query, ...state } = Object.fromEntries(Object.entries(controls)
      .map(([name, control]) => [name, control.value()]));
    const allowed = [], chosen = query - 1;
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
    let code = near.join(" & ");
    if (state.prefix && code) code += ` | prefix(${state.prefix})`;
    const also = [];
    if (state.documents) also.push("documents(ids)");
    if (state.padding) also.push("padding(valid)");
    if (also.length && code && state.prefix) code = `(${code})`;
    code = [code, ...also].filter(Boolean).join(" & ") || "window()";
    const mask = /[&|]/.test(code) ? `(${code})` : code;
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
    query: Play.steps("query", size, 6, draw, (n) => `${n} of ${size}`),
  };

  const choose = (row) => controls.query.set(row + 1);
  const labels = words.map((_, i) => text(LEFT - 8, TOP + i * CELL + 17, "", "end"));
  const cells = words.map((_, i) => words.map((_, j) => svg("rect", {
    x: LEFT + j * CELL, y: TOP + i * CELL, width: CELL - 2, height: CELL - 2, rx: 3 })));
  const rows = cells.map((row, i) => svg("g", { class: "query",
    onpointerenter: () => choose(i), onclick: () => choose(i) }, labels[i], row));
  const frame = svg("rect", { class: "frame", x: LEFT - 1, width: size * CELL,
    height: CELL, rx: 4 });
  const numbers = words.map((_, j) => text(LEFT + (j + 0.5) * CELL, 12, `${j}`, "middle"));
  const board = Play.board("", `0 0 ${LEFT + size * CELL + 2} ${TOP + size * CELL + 2}`,
    "Queries down, keys across, and the weight of each pair.", numbers, rows, frame);
  draw();
  const { causal, documents, padding, query, ...sliders } = controls;
  return [
    html("p", {}, "Combine masks: the weights of a row share what is left. Point at a row "
      + "to read it."),
    html("div", { class: "touch-controls pairs" },
      query, html("div", { class: "touch-row" }, causal, documents, padding),
      Object.values(sliders)),
    board, expression, live,
  ];
}, { title: "Masks: a workbench", reserve: [192, 136], instead: true, beside: true });
