// Chapter 11: a score arrives, lifts the maximum, and the sum shrinks to fit.
Play.figure("online_softmax", ({ scores, values, orders, whole },
  { expression, live }) => {
  const { html, svg, set, text } = Play;
  const SIZE = scores.length, LEFT = 16, WIDE = 41;
  const TOP = 110, BELOW = 248, SCORE = 19, SUM = 36, PLANE = 62;
  const at = (j) => LEFT + j * WIDE;
  const two = (x) => x.toFixed(2).replace("-", "−");
  const pair = (x, y) => `(${two(x)}, ${two(y)})`;
  const glide = Play.glider(1000);

  // A picture of the last key's arrival: `rise` of its bar, `part` of its term.
  const paint = (rise, part) => {
    const { keys, steps } = orders[order.value()], last = walk.value() - 1;
    const bar = scores[keys[last]] * rise;
    const top = Math.max(bar, last ? steps[last - 1][0] : bar);
    const weight = (j, t, level) => (j > t || t > last ? 0
      : Math.exp(scores[keys[j]] - level) * (j === last ? part : 1));
    let staircase = `M${LEFT} ${TOP}`;
    keys.forEach((key, t) => {
      const here = t === last, seen = t <= last;
      const level = here ? top : steps[t][0];
      const high = seen ? SCORE * (here ? bar : scores[key]) : 0;
      const [m, l] = t ? steps[t - 1] : [level, 0];  // before this key
      const shrinks = seen && level > m;
      set(columns[t], { class: here ? "now" : "" });
      set(bars[t], { y: TOP - high, height: high });
      let y = BELOW;
      keys.forEach((_, j) => {
        const height = SUM * weight(j, t, level);
        set(terms[t][j], { y: y -= height, height: Math.max(height - 1, 0) });
      });
      set(ghosts[t], { y: BELOW - l * SUM, height: shrinks ? l * SUM : 0 });
      set(fades[t], { y: Math.min(y, BELOW - l * SUM) - 5 });
      fades[t].textContent = shrinks ? `× ${two(Math.exp(m - level))}` : "";
      heights[t].textContent = seen ? scores[key].toFixed(1) : "";
      labels[t].textContent = key;
      if (seen) staircase += `H${at(t)}V${TOP - level * SCORE}H${at(t + 1)}`;
    });
    set(stairs, { d: staircase });
    let total = 0, x = 0, y = 0;
    keys.forEach((key, j) => {
      const own = weight(j, last, top), radius = 15 * Math.sqrt(own);
      const [circle, label] = dots[key].children;
      set(dots[key], { class: j === last ? "dot now" : "dot" });
      set(circle, { r: radius });
      set(label, { x: 0.7 * radius + 6 });
      label.textContent = j > last ? "" : key;
      total += own;
      x += own * values[key][0];
      y += own * values[key][1];
    });
    const way = steps.slice(0, last).map(([, l, a, b]) => [a / l, b / l]);
    way.push(total ? [x / total, y / total] : values[keys[0]]);
    const drawn = way.map(([a, b]) => `${a * PLANE} ${-b * PLANE}`);
    set(trail, { points: drawn.join(" ") });
    set(mean, { transform: `translate(${drawn.at(-1)})` });
  };

  const show = (moved) => {
    const { keys, steps } = orders[order.value()];
    const n = walk.value(), key = keys[n - 1], s = scores[key];
    const [m, l, a, b] = steps[n - 1];
    const [old, sum, p, q] = n > 1 ? steps[n - 2] : [-Infinity, 0, 0, 0];
    const [was, now] = [old, m].map((x) => (x < 0 ? "−∞" : x.toFixed(1)));
    const e = (power, name) => html("span", { class: name }, "e",
      html("sup", {}, `${power} − ${now}`));
    const fade = () => e(was, m > old && n > 1 && "shrinks");
    const term = () => e(s.toFixed(1));
    state.replaceChildren(...[
      ["m", [`max(${was}, ${s.toFixed(1)})`], now],
      ["l", [`${two(sum)} · `, fade(), " + ", term()], two(l)],
      ["out", [`${pair(p, q)} · `, fade(), " + ", term(), ` · ${pair(...values[key])}`],
        pair(a, b)],
      ["out / l", ["the weighted mean so far"], pair(a / l, b / l)],
    ].flatMap(([name, how, result]) => [html("dt", {}, name),
      html("dd", {}, how), html("dd", { class: "result" }, result)]));
    expression.show("attn.online_softmax(zip("
      + `s[..., :${n}].split(1, -1), v[:, :${n}].split(1, -2)))`);
    live.say((n === 1 ? `The first score, ${s.toFixed(1)}, is the largest so far: `
      + "it counts 1."
      : m > old ? `Score ${s.toFixed(1)} lifts the maximum from ${was} to ${now}: `
        + `the sum shrinks from ${two(sum)} to ${two(l - 1)}, out with it, and `
        + `all keep their shares. The new key counts 1: ${two(l)}.`
        : `Score ${s.toFixed(1)} stays below the maximum, ${now}: nothing shrinks, `
          + `and key ${key} adds ${two(l - sum)}: ${two(l)}.`)
      + (n < SIZE ? "" : ` All keys are read: out / l is ${pair(a / l, b / l)}, `
        + `and softmax(s) @ v is ${pair(...whole)}.`));
    glide((part) => paint(Math.min(part / 0.6, 1), Math.max(part - 0.6, 0) / 0.4),
      !moved || Play.still());
  };

  let before = 5;  // the fifth score lifts the maximum
  const walk = Play.steps("key", SIZE, before, (now) => {
    show(now === before + 1);
    before = now;
  }, (n) => `${n} of ${SIZE}`, { pace: 1800 });
  const order = Play.choice("order", Object.keys(orders), () => show(false));

  const rect = (name) => svg("rect", { class: name, width: WIDE - 8, x: 4 });
  const many = (make) => scores.map(() => make());
  const label = (y) => text(WIDE / 2, y, "", "middle");
  const bars = many(() => rect("score")), ghosts = many(() => rect("ghost"));
  const terms = many(() => many(() => rect("term")));
  const heights = many(() => label(TOP + 14)), labels = many(() => label(BELOW + 15));
  const fades = many(() => label(0));
  const columns = scores.map((_, t) => svg("g", { transform: `translate(${at(t)})` },
    bars[t], heights[t], terms[t], ghosts[t], fades[t], labels[t]));
  const stairs = svg("path", { class: "stairs" });
  const dots = values.map(([x, y]) => svg("g", { transform:
    `translate(${x * PLANE} ${-y * PLANE})` }, svg("circle"), text(0, -6)));
  const trail = svg("polyline", { class: "trail" });
  const mean = svg("g", { class: "mean" }, svg("path", { d: "M0-8L8 0 0 8-8 0Z" }),
    text(11, 16, "out / l"));
  const axis = (d) => svg("path", { class: "axis", d });
  const state = html("dl", { class: "touch-state" });
  show(false);
  return [
    html("p", {}, "Scores arrive from left to right. Press Play, step, or drag across the keys."),
    html("div", { class: "touch-controls" }, walk, order),
    html("div", { class: "touch-panels" },
      Play.drag(Play.board("online sideways", "0 0 348 266", "Above, scores and the largest so "
        + "far; below, the sum after each key, made of the terms of all keys so far.",
      text(10, 12, "scores s, and m, the largest so far"),
      text(10, 150, "l, the sum of e^(s − m)"),
      [TOP, BELOW, BELOW - SUM, BELOW - 2 * SUM].map((y) => axis(`M16 ${y}h328`)),
      [1, 2].map((n) => text(4, BELOW - n * SUM + 4, `${n}`)), columns, stairs),
      ([x]) => {
        const key = Math.min(Math.max(Math.ceil((x - LEFT) / WIDE), 1), SIZE);
        if (key !== walk.value()) walk.set(key);
      }),
      Play.board("online", "-174 -134 348 266", "The values of the keys in the plane, "
        + "as large as their terms, and their weighted mean.",
      axis("M-168 0H168M0-115V115"), dots, trail, mean,
      text(-164, -122, "values v, of area e^(s − m), and their mean")), state),
    expression, live,
  ];
}, { title: "Online softmax: key by key", reserve: [264, 80], instead: true });
