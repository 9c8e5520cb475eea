// Chapter 11: go through the scores tile by tile, and count those in memory.
Play.figure("tile_walk", ({ shades, causal }, { expression, live }) => {
  const { html, svg, set, text } = Play;
  const LEFT = 16, TOP = 38, SIDE = 140;
  const STATE = [[159, 9], [171, 9], [183, 18]];  // m, l, out: where, how wide
  const many = (n) => n.toLocaleString("en");
  const range = (n) => Array.from({ length: n }, (_, i) => i);

  const draw = () => {
    const tokens = 8 * controls.tokens.value(), tile = 2 ** controls.tile.value();
    const masked = controls.causal.value(), blocks = range(tokens / tile);
    const allows = (y, x) => !masked || causal[y][x] === "1";
    // The tiles that hold a pair which may attend, row by row.
    tiles = blocks.flatMap((i) => blocks.map((j) => {
      const pairs = range(tile ** 2).map((n) =>
        allows(i * tile + Math.floor(n / tile), j * tile + n % tile));
      return { i, j, some: pairs.some(Boolean), every: pairs.every(Boolean) };
    })).filter(({ some }) => some);
    if (length !== tiles.length) {
      length = tiles.length;
      walk.most(length);
      return walk.set(Math.min(walk.value(), length));
    }
    const step = walk.value() - 1, now = tiles[step], cell = SIDE / tokens;
    const plainly = ({ i, j }) => tile * (i * tokens + (j + 1) * tile);
    const all = tokens ** 2, plain = plainly(now), held = tile ** 2;

    // What has become of the scores of tile (i, j).
    const inPlain = (i, j) => (plainly({ i, j }) <= plain ? "alive" : "next");
    const inTiles = (i, j) => {
      const n = tiles.findIndex((each) => each.i === i && each.j === j);
      return n < 0 ? "skipped" : n < step ? "gone" : n === step ? "alive" : "next";
    };
    const size = cell - 0.8;
    for (const [scores, kind] of [[plainScores, inPlain], [tiledScores, inTiles]]) {
      const found = blocks.map((i) => blocks.map((j) => kind(i, j)));
      scores.replaceChildren(...range(all).map((n) => {
        const y = Math.floor(n / tokens), x = n % tokens;
        const became = found[Math.floor(y / tile)][Math.floor(x / tile)];
        return svg("rect", { class: became + (allows(y, x) ? "" : " hidden"),
          x: LEFT + x * cell, y: TOP + y * cell, width: size, height: size,
          style: `--shade: ${shades[y][x]}` });
      }));
    }
    const done = (now.j + 1) / tiles.filter(({ i }) => i === now.i).length;
    const column = ([x, width], kind) => range(tokens).map((y) => {
      const own = kind(Math.floor(y / tile));
      return svg("rect", { class: own, x, y: TOP + y * cell, height: size,
        width: width > 9 && own === "work" ? width * done : width });
    });
    state.replaceChildren(...STATE.flatMap((place) => column(place, (i) =>
      (i < now.i ? "done" : i === now.i ? "work" : "next"))));
    output.replaceChildren(...column(STATE[2], () => "next"));

    const across = (n) => 12 + (n / length) * 150, up = (n) => 178 - (n / all) * 140;
    const line = (count) => `M12 178${tiles.slice(0, step + 1).map((each, n) =>
      `V${up(count(each))}H${across(n + 1)}`).join("")}`;
    set(plainLine, { d: line(plainly) });
    set(tiledLine, { d: line(() => held) });
    const end = across(step + 1) + 5;
    set(plainSays, { x: end, y: up(plain) + 4 });
    set(tiledSays, { x: end, y: up(held) + (plain / all < 0.15 ? 16 : 4) });
    plainSays.textContent = many(plain);
    tiledSays.textContent = many(held);
    total.textContent = `all ${many(all)}`;
    skips.textContent = masked ? "skipped" : "";

    const skipped = blocks.length ** 2 - length;
    const span = (i) => `${i * tile} to ${i * tile + tile - 1}`;
    expression.show("attn.tiled_attention("
      + ["q", "k", "v"].map((x) => `${x}[:, :${tokens}]`).join(", ")
      + `${masked ? ", is_causal=True" : ""}, block_q=${tile}, block_k=${tile})`);
    live.say(`Tile ${step + 1} of ${length}: queries ${span(now.i)}, keys `
      + `${span(now.j)}. Scores in memory: plain ${many(plain)}, tiled ${held}. `
      + (skipped ? `Tiles that causality skips: ${skipped}. ` : "")
      + (masked ? (now.every ? "This one needs no mask. "
        : "The diagonal crosses this one: it is masked pair by pair. ") : "")
      + (step + 1 < length ? ""
        : "Plain has all scores now, and only now can its softmax begin. With 4096 "
        + `tokens, in tiles of 128, it is ${many(4096 ** 2)} against ${many(128 ** 2)}.`));
  };

  // Go to the tile that is pressed, where it is computed.
  const choose = ([x, y]) => {
    const [j, i] = [x - LEFT, y - TOP].map((at) =>
      Math.floor(at / SIDE * 8 * controls.tokens.value() / 2 ** controls.tile.value()));
    const n = tiles.findIndex((each) => each.i === i && each.j === j);
    if (n >= 0) walk.set(n + 1);
  };
  let length = 16, tiles;
  const walk = Play.steps("tile", 16, 6, draw, (n) => `${n} of ${length}`, { pace: 700 });
  const controls = {
    causal: Play.toggle("causal", false, draw),
    tokens: Play.slider("tokens", 1, 3, 2, draw, (n) => `${8 * n}`),
    tile: Play.slider("tile size", 1, 3, 2, draw, (n) => `${2 ** n}`),
  };
  const plainScores = svg("g"), tiledScores = svg("g"), state = svg("g"), output = svg("g");
  const plainLine = svg("path", { class: "plain" }), plainSays = text(0, 0);
  const tiledLine = svg("path", { class: "tiled" }), tiledSays = text(0, 0);
  const total = text(12, 33);
  const skips = text(LEFT + 0.75 * SIDE, TOP + 0.25 * SIDE, "", "middle");
  const panel = (title, about, ...parts) => Play.board("walk", "0 0 206 196", about,
    svg("text", { x: 4, y: 13, class: "title" }, title), ...parts);
  const axes = () => [text(LEFT + SIDE / 2, 192, "keys", "middle"),
    svg("text", { transform: `translate(11 ${TOP + SIDE / 2}) rotate(-90)`,
      "text-anchor": "middle" }, "queries"), text(192, 33, "out", "middle")];
  draw();
  return [
    html("div", { class: "touch-controls" }, walk, Object.values(controls)),
    html("div", { class: "touch-panels three" },
      panel("plain", "Scores of the plain way: those computed stay in memory.",
        axes(), plainScores, output),
      Play.tap(panel("tiled", "Scores tile by tile: one tile at a time is in memory.",
        axes(), tiledScores, state, skips, text(163, 33, "m", "middle"),
        text(175, 33, "l", "middle")), choose),
      panel("scores in memory", "Scores in memory: plain rises, tiled stays.",
        svg("path", { class: "axis", d: "M12 178H162M12 38H162" }), total, plainLine,
        tiledLine, plainSays, tiledSays, text(87, 192, "tiles done", "middle"))),
    expression, live,
  ];
}, { title: "Tiles: a walk through the scores", reserve: [328, 104], instead: true });
