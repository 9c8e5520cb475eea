// Chapter 11: a score arrives, lifts the maximum, and the sum shrinks to fit.
Play.figure("online_softmax", ({ scores, values, orders, whole }) => {
  const { html, svg } = Play;
  const SIZE = scores.length, LEFT = 16, WIDE = 41;
  const TOP = 110, BELOW = 248, SCORE = 19, SUM = 36, PLANE = 62;
  const at = (j) => LEFT + j * WIDE;
  const two = (x) => x.toFixed(2).replace("-", "−");
  const pair = (x, y) => `(${two(x)}, ${two(y)})`;
  const sup = (text) => html("sup", {}, text);
  const glide = Play.glider(1000);

  // A picture of the last key's arrival: `rise` of its bar, `part` of its term.
  const paint = (rise, part) => {
    const { keys, steps } = orders[order.value()];
    const last = walk.value() - 1;
    const own = scores[keys[last]], old = last ? steps[last - 1][0] : -Infinity;
    const bar = rise < 1 ? Math.min(rise * own, own) : own;
    const top = Math.max(old, bar);
    const staircase = [];
    keys.forEach((key, t) => {
      const here = t === last, tall = here ? bar : scores[key];
      const level = here ? top : steps[t][0];
      const seen = t <= last;
      const high = seen ? tall * SCORE : 0;
      columns[t].setAttribute("class",
        here ? "column now" : seen ? "column past" : "column next");
      place(bars[t], TOP - high, high);
      labels[t].textContent = `${key}`;
      heights[t].textContent = seen ? scores[key].toFixed(1) : "";
      if (seen) staircase.push(`H${at(t)}V${TOP - level * SCORE}H${at(t + 1)}`);
      let y = BELOW;
      keys.forEach((other, j) => {
        const term = j > t || !seen ? 0
          : Math.exp(scores[other] - level) * (here && j === t ? part : 1);
        place(terms[t][j], y - term * SUM, Math.max(term * SUM - 1, 0));
        y -= term * SUM;
      });
      const [m, l] = t ? steps[t - 1] : [level, 0];  // before this key
      const shrinks = seen && level > m;
      place(ghosts[t], BELOW - l * SUM, shrinks ? l * SUM : 0);
      fades[t].textContent = shrinks ? `× ${two(Math.exp(m - level))}` : "";
      fades[t].setAttribute("y", Math.min(y, BELOW - l * SUM) - 5);
    });
    stairs.setAttribute("d", `M${LEFT} ${TOP}${staircase.join("")}`);
    let total = 0, x = 0, y = 0;
    keys.forEach((key, j) => {
      const weight = j > last ? 0
        : Math.exp(scores[key] - top) * (j === last ? part : 1);
      const radius = 15 * Math.sqrt(weight);
      dots[key].firstChild.setAttribute("r", radius);
      dots[key].lastChild.setAttribute("x", 0.7 * radius + 6);
      dots[key].setAttribute("class", j > last ? "dot next"
        : j === last ? "dot now" : "dot past");
      total += weight;
      x += weight * values[key][0];
      y += weight * values[key][1];
    });
    const way = steps.slice(0, last).map(([, l, a, b]) => [a / l, b / l]);
    if (total > 0) way.push([x / total, y / total]);
    trail.setAttribute("points",
      way.map(([a, b]) => `${a * PLANE},${-b * PLANE}`).join(" "));
    const [a, b] = way.at(-1) ?? values[keys[0]];
    mean.setAttribute("transform", `translate(${a * PLANE} ${-b * PLANE})`);
  };
  const place = (rect, y, height) => {
    rect.setAttribute("y", y);
    rect.setAttribute("height", height);
  };

  const show = (moved) => {
    const { keys, steps } = orders[order.value()];
    const n = walk.value(), key = keys[n - 1], s = scores[key];
    const [m, l, a, b] = steps[n - 1];
    const [old, sum, p, q] = n > 1 ? steps[n - 2] : [-Infinity, 0, 0, 0];
    const [was, now] = [old, m].map((x) => (x < 0 ? "−∞" : x.toFixed(1)));
    const fade = () => html("span", { class: m > old && n > 1 && "shrinks" }, "e",
      sup(`${was} − ${now}`));
    const term = () => ["e", sup(`${s.toFixed(1)} − ${now}`)];
    state.replaceChildren(...[
      ["m", [`max(${was}, ${s.toFixed(1)})`], now],
      ["l", [`${two(sum)} · `, fade(), " + ", ...term()], two(l)],
      ["out", [`${pair(p, q)} · `, fade(), " + ", ...term(),
        ` · ${pair(...values[key])}`], pair(a, b)],
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

  let before = 2;
  const walk = Play.steps("key", SIZE, before, (now) => {
    show(now === before + 1);
    before = now;
  }, (n) => `${n} of ${SIZE}`);
  const order = Play.choice("order", Object.keys(orders).map((x) => [x, x]),
    () => show(false));

  const rect = (name) => svg("rect", { class: name, width: WIDE - 8, x: 4 });
  const many = (make) => scores.map(() => make());
  const text = () => svg("text", { x: WIDE / 2, "text-anchor": "middle" });
  const bars = many(() => rect("score")), ghosts = many(() => rect("ghost"));
  const labels = many(text), heights = many(text), fades = many(text);
  const terms = many(() => many(() => rect("term")));
  labels.forEach((label) => label.setAttribute("y", BELOW + 15));
  heights.forEach((height) => height.setAttribute("y", TOP + 14));
  const columns = scores.map((_, t) => svg("g", { transform: `translate(${at(t)})` },
    bars[t], heights[t], terms[t], ghosts[t], fades[t], labels[t]));
  const stairs = svg("path", { class: "stairs" });
  const dots = values.map(([x, y], j) => svg("g",
    { transform: `translate(${x * PLANE} ${-y * PLANE})` },
    svg("circle"), svg("text", { y: -6 }, `${j}`)));
  const trail = svg("polyline", { class: "trail" });
  const mean = svg("g", { class: "mean" }, svg("path", { d: "M0-8L8 0 0 8-8 0Z" }),
    svg("text", { x: 11, y: 16 }, "out / l"));
  const state = html("dl", { class: "touch-state" });
  const expression = Play.expression();
  const live = Play.live();
  show(false);
  return [
    html("div", { class: "touch-controls" }, walk, order),
    html("div", { class: "touch-panels" },
      svg("svg", { viewBox: "0 0 348 266", class: "touch-board online", role: "img",
        "aria-label": "Above, scores and the largest so far; below, the sum after "
          + "each key, made of the terms of all keys so far." },
      svg("text", { x: 10, y: 12 }, "scores s, and m, the largest so far"),
      svg("text", { x: 10, y: 150 }, "l, the sum of e^(s − m)"),
      svg("path", { class: "axis", d: [TOP, BELOW, BELOW - SUM, BELOW - 2 * SUM]
        .map((y) => `M16 ${y}h328`).join("") }),
      [1, 2].map((n) => svg("text", { x: 4, y: BELOW - n * SUM + 4 }, `${n}`)),
      columns, stairs),
      svg("svg", { viewBox: "-174 -134 348 266", class: "touch-board online",
        role: "img", "aria-label": "The values of the keys in the plane, as large as "
          + "their terms, and their weighted mean." },
      svg("path", { class: "axis", d: "M-168 0H168M0-115V115" }),
      svg("text", { x: -164, y: -122 }, "values v, of area e^(s − m), and their mean"),
      dots, trail, mean)),
    state, expression, live,
  ];
});
