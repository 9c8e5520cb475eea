// Chapter 15: what runs in a forward pass of transformers, and who sees whom.
Play.figure("hf_forward", ({ padding, choices, patterns, runs }, { expression, live }) => {
  const { html, svg, set, text } = Play;
  const CELL = 19, LEFT = 16, TOP = 40, TOKENS = 6, WIDE = 256;
  const CODE = {
    own: 'attn.hf.register("own", function, mask="bool")',
    half: 'AttentionInterface.register("half", function)',
  };
  const many = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;
  const box = (y, words, kind) => svg("g", { class: kind },
    svg("rect", { x: 2, y, width: WIDE, height: 22, rx: 4 }), text(10, y + 15, words));

  const show = () => {
    const chosen = Object.values(controls).map((one) => one.value());
    const [name, model, pads, pass] = chosen, half = name === "half";
    const [masks, layers] = runs[chosen.join("|")];
    const right = runs[["eager", model, pads, pass].join("|")][1];
    const first = pass === "token" ? TOKENS - 1 : 0;
    const from = pads === "left" ? padding : 0;

    const made = masks.length ? masks : ["not registered"];
    const says = (i) => (i < 0 ? "None" : masks.length > 1 ? `mask ${i + 1}` : "the mask");
    calls.replaceChildren(...made.map((what, i) => box(110 + 27 * i, masks.length > 1
      ? `mask ${i + 1}: ${what}` : `mask function: ${what}`, half ? "absent" : "made")),
    ...layers.map(([mask], i) => box(83 - 27 * i,
      `layer ${i}: ${half ? "own" : name}(…, ${says(mask)})`, "ran")));
    set(callsBoard, { viewBox: `0 0 260 ${112 + 27 * made.length}` });

    // One map for each kind of layer: what it sees, and what it should.
    const kind = layers.map(([, seen], i) => `${seen} ${right[i][1]}`);
    const kinds = [...new Set(kind)];
    let leaks = 0;
    maps.replaceChildren(...kinds.map((one, n) => {
      const own = layers.flatMap((_, i) => (kind[i] === one ? [i] : []));
      const [rows, wanted] = one.split(" ").map((at) => patterns[at].split("/"));
      const x0 = LEFT + n * 138, skip = TOKENS - rows[0].length;
      const title = kinds.length > 1 ? `layers ${own.join(", ")}` : "all layers";
      return svg("g", { class: "map" }, text(x0, 12, title),
        text(x0 + 57, 30, "keys", "middle"),
        rows.flatMap((row, i) => [...row].map((sees, j) => {
          const real = first + i >= from;
          const leak = real && sees === "1" && wanted[i][j] === "0";
          leaks += leak * own.length;
          const x = x0 + (skip + j) * CELL, y = TOP + (first + i) * CELL;
          return svg("rect", { class: leak ? "leak" : sees === "1" ? "on" : "off",
            "data-sees": sees, x, y, width: CELL - 2, height: CELL - 2,
            style: `--weight: ${real ? 1 : 0.1}` });
        })));
    }));
    expression.show(CODE[name] ?? `model.set_attn_implementation("${name}")`);
    live.say(`${many(layers.length, "attention call")}, ${many(masks.length, "mask")} made. `
      + (leaks ? `${many(leaks, "pair")} in ${layers.length} layers that must not be read, `
        + "in red. No error is raised." : "Every real token reads what it may, and no more."));
  };

  const controls = Object.fromEntries(Object.entries({ name: "attention", model: "model",
    padding: "padding", pass: "pass" }).map(([key, label]) =>
    [key, Play.choice(label, choices[key], show)]));
  const calls = svg("g"), maps = svg("g");
  const callsBoard = Play.board("calls", "0 0 260 140",
    "The calls of one forward pass: the mask below, the layers above it.", calls);
  const mapsBoard = Play.board("maps", "0 0 290 180",
    "Who sees whom: a row for each query, a column for each key.",
    svg("text", { transform: `translate(10 ${TOP + 57}) rotate(-90)`,
      "text-anchor": "middle" }, "queries"), maps);
  show();
  return [
    html("p", {}, "One forward pass of four layers, as it was recorded. Take the mask "
      + "function away, add padding, decode one token: what runs, and who sees whom?"),
    html("div", { class: "touch-controls" }, Object.values(controls)),
    html("div", { class: "touch-panels" }, callsBoard, mapsBoard),
    expression, live,
  ];
});
