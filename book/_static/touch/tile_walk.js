// Chapter 11: go through the scores tile by tile, and count those in memory.
Play.figure("tile_walk", ({ shades, causal }) => {
  const { html, svg } = Play;
  const LEFT = 16, TOP = 38, SIDE = 140, STATE = [159, 171, 183];
  const many = (n) => n.toLocaleString("en");
  const range = (n) => Array.from({ length: n }, (_, i) => i);

  // The tiles that hold a pair which may attend, row by row.
  const visited = (tokens, tile, masked) => {
    const blocks = range(tokens / tile), inside = range(tile);
    return blocks.flatMap((i) => blocks.map((j) => {
      const pairs = inside.flatMap((y) => inside.map((x) =>
        !masked || causal[i * tile + y][j * tile + x] === "1"));
      return { i, j, some: pairs.some(Boolean), every: pairs.every(Boolean) };
    })).filter(({ some }) => some);
  };

  const draw = () => {
    const tokens = 8 * controls.tokens.value(), tile = 2 ** controls.tile.value();
    const masked = controls.causal.value();
    const tiles = visited(tokens, tile, masked);
    if (length !== tiles.length) {
      length = tiles.length;
      walk.most(length);
      return walk.set(Math.min(walk.value(), length));
    }
    const now = tiles[walk.value() - 1], cell = SIDE / tokens;
    const plainly = ({ i, j }) => tile * (i * tokens + (j + 1) * tile);
    const all = tokens ** 2, plain = plainly(now), held = tile ** 2;

    // What has become of the score of query y and key x.
    const inPlain = (i, j) => (i < now.i || (i === now.i && j <= now.j)
      ? "alive" : "next");
    const inTiles = (i, j) => {
      const at = tiles.findIndex((each) => each.i === i && each.j === j);
      return at < 0 ? "skipped" : ["gone", "alive", "next"][
        1 + Math.sign(at - walk.value() + 1)];
    };
    for (const [scores, kind] of [[plainScores, inPlain], [tiledScores, inTiles]]) {
      const found = range(tokens / tile).map((i) =>
        range(tokens / tile).map((j) => kind(i, j)));
      scores.replaceChildren(...range(all).map((n) => {
        const y = Math.floor(n / tokens), x = n % tokens;
        const state = found[Math.floor(y / tile)][Math.floor(x / tile)];
        const hidden = masked && causal[y][x] === "0" ? " hidden" : "";
        const rect = svg("rect", { class: state + hidden, x: LEFT + x * cell,
          y: TOP + y * cell, width: cell - 0.8, height: cell - 0.8 });
        rect.style.setProperty("--shade", shades[y][x]);
        return rect;
      }));
    }
    const row = tiles.filter(({ i }) => i === now.i).length;
    const rows = (wide, i) => range(tile).map((y) => svg("rect", { width: wide,
      height: cell - 0.8, y: TOP + (i * tile + y) * cell }));
    state.replaceChildren(...range(tokens / tile).flatMap((i) => STATE.map((x, n) => {
      const own = i < now.i ? "done" : i === now.i ? "work" : "next";
      const part = n === 2 && own === "work" ? (now.j + 1) / row : 1;
      return svg("g", { transform: `translate(${x})`, class: own },
        rows(n === 2 ? 18 * part : 9, i));
    })));
    output.replaceChildren(...range(tokens / tile).map((i) =>
      svg("g", { transform: `translate(${STATE[2]})`, class: "next" }, rows(18, i))));

    const across = (n) => 12 + (n / tiles.length) * 150;
    const up = (n) => 178 - (n / all) * 140;
    const line = (count) => `M12 178${tiles.slice(0, walk.value()).map((each, n) =>
      `V${up(count(each))}H${across(n + 1)}`).join("")}`;
    plainLine.setAttribute("d", line(plainly));
    tiledLine.setAttribute("d", line(() => held));
    const end = across(walk.value()) + 5;
    [[plainSays, plain, 4], [tiledSays, held, plain / all < 0.15 ? 16 : 4]].forEach(
      ([label, n, below]) => {
        label.textContent = `${many(n)}`;
        label.setAttribute("x", end);
        label.setAttribute("y", up(n) + below);
      });
    total.textContent = `all ${many(all)}`;
    skips.textContent = masked ? "skipped" : "";

    const last = walk.value() === tiles.length, skipped = (tokens / tile) ** 2 - tiles.length;
    expression.show("attn.tiled_attention("
      + ["q", "k", "v"].map((x) => `${x}[:, :${tokens}]`).join(", ")
      + `${masked ? ", is_causal=True" : ""}, block_q=${tile}, block_k=${tile})`);
    const span = (i) => `${i * tile} to ${i * tile + tile - 1}`;
    live.say(`Tile ${walk.value()} of ${tiles.length}: queries ${span(now.i)}, keys `
      + `${span(now.j)}. Scores in memory: plain ${many(plain)}, tiled ${held}. `
      + (skipped ? `Tiles that causality skips: ${skipped}. ` : "")
      + (masked ? (now.every ? "This one needs no mask. "
        : "The diagonal crosses this one: it is masked pair by pair. ") : "")
      + (last ? "Plain has all scores now, and only now its softmax can begin. "
        + `With 4096 tokens, in tiles of 128, it is ${many(4096 ** 2)} against `
        + `${many(128 ** 2)}.` : ""));
  };

  let length = 16;
  const walk = Play.steps("tile", 16, 6, draw, (n) => `${n} of ${length}`);
  const controls = {
    causal: Play.toggle("causal", false, draw),
    tokens: Play.slider("tokens", 1, 3, 2, draw, (n) => `${8 * n}`),
    tile: Play.slider("tile size", 1, 3, 2, draw, (n) => `${2 ** n}`),
  };
  const say = (x, y, text, anchor = "start") =>
    svg("text", { x, y, "text-anchor": anchor }, text);
  const plainScores = svg("g"), tiledScores = svg("g"), state = svg("g"), output = svg("g");
  const plainLine = svg("path", { class: "plain" });
  const tiledLine = svg("path", { class: "tiled" });
  const plainSays = say(0, 0, ""), tiledSays = say(0, 0, ""), total = say(12, 33, "");
  const skips = say(LEFT + 0.75 * SIDE, TOP + 0.25 * SIDE, "", "middle");
  const panel = (title, about, ...parts) => svg("svg", { viewBox: "0 0 206 196",
    class: "touch-board walk", role: "img", "aria-label": about },
  svg("text", { x: 4, y: 13, class: "title" }, title), parts);
  const axes = () => [say(LEFT + SIDE / 2, 192, "keys", "middle"),
    svg("text", { transform: `translate(11 ${TOP + SIDE / 2}) rotate(-90)`,
      "text-anchor": "middle" }, "queries")];
  const expression = Play.expression();
  const live = Play.live();
  draw();
  return [
    html("div", { class: "touch-controls" }, walk, Object.values(controls)),
    html("div", { class: "touch-panels three" },
      panel("plain", "Scores of the plain way: those computed stay in memory.",
        ...axes(), plainScores, output, say(192, 33, "out", "middle")),
      panel("tiled", "Scores tile by tile: one tile at a time is in memory.",
        ...axes(), tiledScores, state, skips, say(163, 33, "m", "middle"),
        say(175, 33, "l", "middle"), say(192, 33, "out", "middle")),
      panel("scores in memory", "Scores in memory, step by step: plain rises, tiled "
        + "stays.", svg("path", { class: "axis", d: "M12 178H162M12 38H162" }),
      total, plainLine, tiledLine, plainSays, tiledSays,
      say(87, 192, "tiles done", "middle"))),
    expression, live,
  ];
});
