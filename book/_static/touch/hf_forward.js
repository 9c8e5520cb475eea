// Chapter 15: a forward pass of transformers, call by call, and what each token reads.
Play.figure("hf_forward", ({ padding, choices, said, runs }, { expression, live }) => {
  const { html, svg, set, text } = Play;
  const TOKENS = 6, LAYERS = 4, TOP = 16, CELL = 24;
  const x = (token) => 128 + 32 * token, y = (row) => TOP + 60 * (LAYERS - row);
  const END = y(0) + 34, MOST = Math.max(...Object.values(runs).map(({ masks }) => masks.length));
  const CODE = { half: 'AttentionInterface.register("half", function)',
    own: 'attn.hf.register("own", function, mask="bool")' };
  const many = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;
  const each = (make) => Array.from({ length: TOKENS }, (_, j) => make(j));
  let name, masks, layers, drift, first, real, asked = 1, titles, parts = [];

  const start = () => {
    const chosen = Object.values(controls).map((one) => one.value());
    const [, , pads, phase] = chosen;
    name = chosen[0];
    ({ masks, layers, drift } = runs[chosen.join("|")]);
    layers = layers.map(([mask, query, key, kwargs, returns, weights]) => ({ mask, query, key,
      kwargs, returns, weights, skip: TOKENS - weights[0].length }));
    first = phase === "token" ? TOKENS - 1 : 0;
    real = pads === "left" ? padding : 0;
    asked = Math.max(masks.length, 1);
    titles = { [-1]: "None", ...masks.map((_, i) => (asked > 1 ? `mask ${i + 1}` : "the mask")) };
    draw();
    step.most(asked + LAYERS);
    step.set(asked + LAYERS);
  };

  // The tokens of a row of the stream: red, as far as their states are off.
  const states = (row) => each((j) => {
    const off = row ? drift[row - 1][j] : 0, cached = j < first;
    return cached && j < (layers[row]?.skip ?? TOKENS) ? ""
      : svg("g", { transform: `translate(${x(j)} ${y(row)})`, style: `--off: ${off}`,
        class: j < real ? "state pad" : "state" },
      cached ? svg("rect", { x: -5, y: -5, width: 10, height: 10 }) : svg("circle", { r: 7 }),
      j === TOKENS - 1 && off ? text(11, 4, `${off} % off`) : "");
  });
  const edges = ({ weights, skip }, k) => weights.flatMap((row, i) => row.map((weight, j) => {
    const [from, to] = [x(skip + j), x(first + i)], [low, high] = [y(k), y(k + 1)];
    return weight && first + i >= real ? svg("path", { pathLength: 1,
      class: weight < 0 ? "edge leak" : "edge", style: `--weight: ${Math.abs(weight) / 1000}`,
      d: `M${from} ${low}C${from} ${low - 26} ${to} ${high + 26} ${to} ${high}` }) : "";
  }));
  const draw = () => {
    const makers = Array.from({ length: asked }, (_, i) => {
      const top = END + 28 * i, rail = 6 + 6 * i, made = masks[i];
      return svg("g", { class: made ? "maker" : "maker absent", onclick: () => step.set(i + 1) },
        layers.map(({ mask }, k) => mask === i && svg("path", { pathLength: 1,
          d: `M${rail} ${top}V${y(k + 0.5)}H20` })).filter(Boolean),
        svg("rect", { x: 2, y: top, width: 348, height: 23, rx: 4 }),
        text(20, top + 16, !made ? "no mask function under this name: None"
          : `mask function, call${asked > 1 ? ` ${i + 1}` : "ed once"}: ${made[1]} ${made[2]}`));
    });
    const bands = layers.map((layer, k) => svg("g",
      { class: "band", onclick: () => step.set(asked + 1 + k) },
      svg("rect", { x: 20, y: y(k + 0.5) - 22, width: 330, height: 44, rx: 6 }),
      svg("text", { x: 27, y: y(k + 0.5) - 3, class: "name" }, `layer ${k}`),
      text(27, y(k + 0.5) + 12, `${name === "half" ? "own" : name}(…, ${titles[layer.mask]})`),
      edges(layer, k), states(k + 1)));
    parts = [...makers, ...bands];
    pass.replaceChildren(...each((j) => (j < first ? "" : svg("path", { class: "axis",
      d: `M${x(j)} ${y(0)}V${y(LAYERS)}` }))), ...states(0), ...parts, text(27, y(0) + 22, "token"),
    ...each((j) => text(x(j), y(0) + 22, j < real ? "pad" : j, "middle")));
  };

  const matrix = (left, title, rows, kind) => svg("g", { class: "map" }, text(left, 12, title),
    each((j) => text(left + 11 + j * CELL, 28, j < real ? "pad" : j, "middle")),
    rows.map((row, i) => svg("g", { class: first + i < real ? "reader pads" : "reader",
      style: `--row: ${i}` }, row.map((value, j) => svg("g", { "data-weight": value,
      class: value < 0 ? "leak" : value ? kind : "off",
      style: `--weight: ${Math.abs(value) / 1000}`, transform: `translate(${
        left + (TOKENS - row.length + j) * CELL} ${34 + (first + i) * CELL})` },
    svg("rect", { width: CELL - 2, height: CELL - 2 }), kind === "on" && Math.abs(value) > 4
      ? text(11, 15, Math.round(Math.abs(value) / 10), "middle") : "")))));

  const show = (now) => {
    const layer = layers[now - asked - 1], index = layer ? layer.mask : now - 1;
    const [kwargs, kind = "None", shape, allowed = []] = masks[index] ?? [];
    parts.forEach((part, i) => {
      part.classList.toggle("ran", i < now);
      part.classList.toggle("now", i === now - 1);
    });
    call.replaceChildren(
      matrix(30, "attention_mask", allowed, "allowed"),
      ...each((j) => (j < first ? "" : text(24, 49 + j * CELL, j < real ? "pad" : j, "end"))),
      allowed.length ? "" : svg("g", { class: masks.length ? "none" : "none absent" },
        svg("rect", { x: 30, y: 34, width: 142, height: 142, rx: 4 }),
        text(101, 109, "None", "middle")),
      layer ? matrix(200, "weights of head 0, in %", layer.weights, "on") : "");
    state.replaceChildren(...(layer ? [
      ["query", "(B, H, L, D)", said[layer.query]],
      ["key, value", "(B, Hkv, S, D)", said[layer.key]],
      ["attention_mask", ...kind === "None" ? ["", kind]
        : [`${titles[layer.mask]}, ${kind}`, shape]],
      ["**kwargs", said[layer.kwargs], ""],
      ["returns", "(B, L, H, D)", said[layer.returns]],
    ] : masks.length ? [["**kwargs", kwargs, ""], ["returns", shape, kind]]
      : [["returns", "nothing is called", "None"]]).flatMap(([term, how, result]) => [
      html("dt", {}, term), html("dd", {}, how), html("dd", { class: "result" }, result)]));
    expression.show(CODE[name] ?? `model.set_attn_implementation("${name}")`);

    const ran = layers.slice(0, Math.max(now - asked, 0));
    const wrong = ran.flatMap(({ weights }) => weights.flat()).filter((w) => w < 0).length;
    const off = ran.length && drift[ran.length - 1][TOKENS - 1];
    const made = many(Math.min(now, masks.length), "mask");
    live.say(`${many(ran.length, "attention call")}, ${made} made. `
      + (!layer ? masks.length ? "Every layer of its kind will get this one."
        : "No error is raised: every layer will get None."
        : wrong ? `${many(wrong, "pair")} that must not be read, in red. `
          + `The last token's state is ${off} % off.`
          : off ? `All pairs may be read, but the cache is of a pass that leaked: ${off} % off.`
            : "Every real token reads what it may, and no more."));
  };

  const controls = Object.fromEntries(Object.entries({ name: "attention", model: "model",
    padding: "padding", pass: "pass" }).map(([key, label]) =>
    [key, Play.choice(label, choices[key], start)]));
  controls.name.querySelector("select").value = "own";
  controls.padding.querySelector("select").value = "left";
  const step = Play.steps("call", LAYERS + 1, LAYERS + 1, show, (now) =>
    (now > asked ? `layer ${now - asked - 1}` : asked > 1 ? `mask ${now}` : "mask"));
  const pass = Play.board("pass", `0 0 352 ${END + 28 * MOST}`, "One forward pass, from below: "
    + "the mask, the tokens, four layers, and which tokens each token reads there.");
  const call = Play.board("call", "0 0 346 180", "The mask that this call gets, and its "
    + "weights: a row for each query, a column for each key.");
  const state = html("dl", { class: "touch-state" });
  start();
  return [
    html("p", {}, "One forward pass of four layers, as it was recorded. Step through its calls. "
      + "Then take the mask function away: what is red must not be read."),
    html("div", { class: "touch-controls pairs" }, step, Object.values(controls)),
    html("div", { class: "touch-panels forward" }, pass, html("div", {}, call, state)),
    live, expression,
  ];
}, { title: "A forward pass, call by call", reserve: [112, 60] });
