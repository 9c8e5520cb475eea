// Chapter 17: blocks of keys go round a ring of ranks, a step at a time.
Play.figure("ring_turn", ({ owners, sent }, { expression, live }) => {
  const { html, svg, set, text } = Play;
  const LEFT = 16, TOP = 38, SIDE = 140, MIDDLE = 103, HIGH = 108, RADIUS = 62;
  const range = (n) => Array.from({ length: n }, (_, i) => i);
  const list = (all) => (all.length < 2 ? `${all}` : `${all.slice(0, -1).join(", ")} and ${all.at(-1)}`);

  const draw = () => {
    const W = controls.ranks.value(), causal = controls.causal.value();
    if (W !== ranks) {
      ranks = W;
      own = Math.min(own, W - 1);
      turn.most(W);
      return turn.set(Math.min(turn.value(), W));
    }
    const layout = controls.zigzag.value() ? "zigzag" : "contiguous";
    const owner = owners[layout][W], step = turn.value() - 1, cell = SIDE / (2 * W);
    const block = (rank, at) => (rank - at + W) % W;
    // The share of two pieces' pairs that may attend; of two blocks, the sum.
    const pairs = (a, b) => (!causal || a > b ? 1 : a === b ? 0.5 : 0);
    const pieces = (rank) => range(2 * W).filter((i) => owner[i] === rank);
    const work = (rank, at) => pieces(rank).flatMap((a) =>
      pieces(block(rank, at)).map((b) => pairs(a, b))).reduce((x, y) => x + y, 0) / 4;
    const when = (a, b) => (owner[a] - owner[b] + W) % W;

    map.replaceChildren(...range(4 * W * W).map((n) => {
      const a = Math.floor(n / (2 * W)), b = n % (2 * W), share = pairs(a, b);
      const kind = !share ? "skipped" : when(a, b) < step ? "gone"
        : when(a, b) === step ? "alive" : "next";
      return svg("rect", { class: kind, x: LEFT + b * cell, y: TOP + a * cell,
        width: cell - 0.8, height: cell - 0.8, style: `--shade: ${share}`, "data-rank": owner[a],
        "data-key": owner[b] });
    }), ...range(2 * W).map((i) => set(text(LEFT + SIDE + 4, TOP + i * cell + cell / 2 + 4,
      owner[i]), { class: owner[i] === own ? "own" : "" })));

    const place = (rank, far = RADIUS) => {
      const angle = (2 * Math.PI * rank) / W - Math.PI / 2;
      return [MIDDLE + far * Math.cos(angle), HIGH + far * Math.sin(angle)];
    };
    const last = step === W - 1;
    ring.replaceChildren(...range(W).flatMap((rank) => {
      const [x, y] = place(rank), [bx, by] = place(rank, RADIUS - 26);
      const [fx, fy] = place(rank + 0.3), [tx, ty] = place(rank + 0.68);
      return [
        last ? "" : svg("path", { class: "arrow", d: `M${fx} ${fy}A${RADIUS} ${RADIUS} 0 0 1 ${tx} ${ty}` }),
        last ? "" : svg("path", { class: "head", d: "M-7 -4.5L3 0L-7 4.5z",
          transform: `translate(${tx} ${ty}) rotate(${(360 * (rank + 0.68)) / W})` }),
        svg("circle", { class: rank === own ? "rank own" : "rank", cx: x, cy: y, r: 14 }),
        text(x, y + 4, rank, "middle"),
        svg("rect", { class: "block", x: bx - 9, y: by - 8, width: 18, height: 16, rx: 3,
          "data-block": block(rank, step) }),
        text(bx, by + 4, block(rank, step), "middle"),
      ];
    }).filter(Boolean));

    const wide = 168 / W, tall = 130 / W;
    const all = range(W).map((rank) => range(W).map((at) => work(rank, at)));
    const slowest = range(W).map((at) => Math.max(...all.map((row) => row[at])));
    plan.replaceChildren(...range(W).flatMap((rank) => range(W).flatMap((at) => {
      const x = 26 + at * wide, y = TOP + rank * tall;
      return [
        svg("rect", { class: at === step ? "slot now" : "slot", x, y, width: wide - 3, height: tall - 3 }),
        svg("rect", { class: at <= step ? "work" : "later", x, y, height: tall - 3,
          width: (wide - 3) * all[rank][at], "data-work": all[rank][at] }),
        text(x + wide / 2 - 1.5, y + tall / 2 + 2.5, block(rank, at), "middle"),
      ];
    })), ...range(W).map((rank) => set(text(20, TOP + rank * tall + tall / 2 + 2.5, rank, "end"),
      { class: rank === own ? "own" : "" })));

    const total = all.flat().reduce((x, y) => x + y, 0);
    const busy = total / (W * slowest.reduce((x, y) => x + y, 0));
    const idle = range(W).filter((rank) => !all[rank][step]);
    const mib = Math.round(sent[W] / 2 ** 20), each = Math.round(sent[W] / (W - 1) / 2 ** 20);
    expression.show(`attn.distributed.shard_positions(${2 * W}, 0, ${W}, layout="${layout}")`);
    live.say(`Step ${step + 1} of ${W}: rank ${own} has the keys of rank ${block(own, step)}`
      + (last ? ", and nothing is sent. " : ` and sends them to rank ${(own + 1) % W}, ${each} MiB. `)
      + (idle.length ? `Without work: ${list(idle)}. ` : "All ranks have work. ")
      + `Over all steps a rank sends ${mib} MiB, and the ranks work `
      + `${Math.round(100 * busy)} % of the time.`);
  };

  let ranks = 4, own = 0;
  const choose = (rank) => {
    own = Math.min(Math.max(rank, 0), ranks - 1);
    draw();
  };
  const rankAt = ([x, y]) => choose(Math.round((Math.atan2(y - HIGH, x - MIDDLE) / Math.PI + 0.5)
    / 2 * ranks + ranks) % ranks);
  const pieceAt = ([, y]) => choose(owners[controls.zigzag.value() ? "zigzag" : "contiguous"][
    ranks][Math.floor((y - TOP) / SIDE * 2 * ranks)] ?? own);
  const workAt = ([x, y]) => {
    choose(Math.floor((y - TOP) / 130 * ranks));
    turn.set(Math.floor((x - 26) / 168 * ranks) + 1);
  };
  const turn = Play.steps("step", 4, 2, draw, (n) => `${n} of ${ranks}`);
  const controls = {
    causal: Play.toggle("causal", true, draw),
    zigzag: Play.toggle("zigzag", false, draw),
    ranks: Play.slider("ranks", 2, 6, 4, draw),
  };
  const map = svg("g"), ring = svg("g"), plan = svg("g");
  const panel = (chosen, title, about, ...parts) => Play.tap(Play.board("ring", "0 0 206 196",
    about, svg("text", { x: 4, y: 13, class: "title" }, title), ...parts), chosen);
  draw();
  return [
    html("p", {}, "Press Play: keys go round, and a rank works when its queries may see them. Then "
      + "tick zigzag, and watch the work. Press a rank to hear of it."),
    html("div", { class: "touch-controls" }, turn,
      html("div", { class: "touch-row" }, controls.causal, controls.zigzag), controls.ranks),
    html("div", { class: "touch-panels three" },
      panel(rankAt, "who has which keys", "The ring: ranks, the block that each has, and where it goes.", ring),
      panel(workAt, "work, and whose keys", "Work of each rank in each step, as a share of a full tile.", plan,
        text(2, 33, "rank"), text(110, 192, "steps", "middle")),
      panel(pieceAt, "the scores", "Pieces of the scores: done, in work, to come, or masked.", map,
        text(LEFT + SIDE / 2, 33, "keys", "middle"), text(LEFT + SIDE + 4, 33, "rank"),
        svg("text", { transform: `translate(11 ${TOP + SIDE / 2}) rotate(-90)`,
          "text-anchor": "middle" }, "queries"))),
    html("p", { class: "touch-legend" }, [["doing", "in work"], ["did", "done"],
      ["did half", "half of it masked"], ["next", "to come"], ["", "blank: masked"]].map(
      ([kind, words]) => html("span", { class: kind }, words))),
    expression, live,
  ];
}, { title: "A ring of ranks, step by step", reserve: [232, 72], instead: true });
