// Chapter 6: what each head of ALiBi weighs, when all words are equal.
Play.figure("alibi_reach", ({ length, slopes }, { expression, live }) => {
  const { html, svg, set, text } = Play;
  const LEFT = 84, WIDE = 264, TOP = 30, HIGH = 224;
  const most = Object.keys(slopes).length;
  const cell = WIDE / length;
  const each = (count, make) => Array.from({ length: count }, (_, i) => make(i));

  // The weights of one head: softmax of minus slope times distance.
  const weights = (slope, query, sees) => {
    const up = each(length, (j) => (sees === "both" || j <= query
      ? Math.exp(-slope * Math.abs(query - j)) : 0));
    const sum = up.reduce((a, b) => a + b, 0);
    return up.map((x) => x / sum);
  };
  // How many of the nearest keys have half of the weight, the query included.
  const half = (shares) => {
    let sum = 0;
    const sorted = [...shares].sort((a, b) => b - a);
    return 1 + sorted.findIndex((share) => (sum += share) >= 0.5 - 1e-9);
  };

  const show = () => {
    const heads = controls.heads.value(), query = controls.query.value();
    const sees = controls.sees.value(), mine = slopes[heads];
    const high = Math.min(HIGH / heads, 28);
    const reach = mine.map((slope) => half(weights(slope, query, sees)));
    rows.forEach((row, h) => {
      set(row.group, { visibility: h < heads ? "visible" : "hidden",
        transform: `translate(0 ${TOP + h * high})` });
      if (h >= heads) return;
      const shares = weights(mine[h], query, sees);
      const top = Math.max(...shares);
      row.cells.forEach((rect, j) => {
        set(rect, { height: high - 2, style: `--shade: ${shares[j] / top}` });
        rect.dataset.weight = shares[j];
      });
      for (const words of [row.label, row.reach]) set(words, { y: high / 2 + 3 });
      row.label.textContent = `${h}: 1/${(1 / mine[h]).toFixed(mine[h] > 0.1 ? 1 : 0)
        .replace(/\.0$/, "")}`;
      row.reach.textContent = reach[h];
    });
    set(mark, { x: LEFT + query * cell - 1, height: heads * high + 2 });
    const row = sees === "both" ? "" : `[..., :${query + 1}]`;
    expression.show(`attn.alibi_bias(${heads}, ${length})[:, ${query}]${row}.softmax(-1)`);
    const power = Number.isInteger(Math.log2(heads));
    const named = (h) => (reach[h] === 1 ? "the nearest key alone has"
      : `the ${reach[h]} nearest keys have`);
    const steep = mine.indexOf(Math.max(...mine)), flat = mine.indexOf(Math.min(...mine));
    live.say(`${heads} ${heads === 1 ? "head" : "heads"}, query at ${query}. `
      + `In head ${steep}, the steepest, ${named(steep)} half of the weight`
      + (heads === 1 ? ". " : `; in head ${flat}, the flattest, ${named(flat)}. `)
      + (power ? "A power of two: each head is flatter than the one before."
        : `No power of two: head ${2 ** Math.floor(Math.log2(heads))} starts again, `
          + "steeper than head 0."));
  };

  const controls = {
    heads: Play.slider("heads", 1, most, 8, show),
    query: Play.steps("query at", length - 1, length - 1, show, String, { least: 0, pace: 150 }),
    sees: Play.choice("keys", [["before", "up to the query"], ["both", "on both sides"]],
      show),
  };
  const rows = each(most, () => {
    const cells = each(length, (j) => svg("rect", { class: "weight", x: LEFT + j * cell,
      width: cell }));
    const label = text(LEFT - 6, 0, "", "end"), reach = text(LEFT + WIDE + 6, 0);
    return { cells, label, reach,
      group: svg("g", { class: "head" }, label, cells, reach) };
  });
  const mark = svg("rect", { class: "frame", y: TOP - 2, width: cell + 2 });
  const board = Play.board("reach sideways", `0 0 376 ${TOP + HIGH + 4}`,
    "A row for each head: how it divides its weight among the keys.",
    text(LEFT - 6, 14, "head: slope", "end"), text(LEFT, 14, "keys 0 to 63"),
    text(376, 14, "half in", "end"), rows.map(({ group }) => group), mark);
  Play.drag(board, ([x]) => controls.query.set(Math.floor((x - LEFT) / cell)));
  show();
  return [
    html("p", {}, "All words are equal here, so only the distance counts. Each row is a "
      + "head; on its right, how many of the nearest keys share half of its weight. Take a "
      + "number of heads that is no power of two, and see where the slopes start again."),
    html("div", { class: "touch-controls" }, Object.values(controls)),
    board, expression, live,
  ];
}, { title: "ALiBi: how far each head reaches", reserve: [216, 48], beside: true });
