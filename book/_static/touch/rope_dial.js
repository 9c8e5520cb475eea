// Chapter 7: turn a query and a key by their positions, and see what counts.
Play.figure("rope_dial", ({ trained, most, laws, vectors }, { expression, live }) => {
  const { html, svg, set, text } = Play;
  const TURN = 2 * Math.PI, FACE = 33, STEP = 16;
  const PAIRS = laws["as trained"].theta;
  const X = 14, Y = 24, WIDE = 328, HIGH = 198;  // of the curve
  const glide = Play.glider(700);
  const signed = (x, digits) => x.toFixed(digits).replace("-", "−");
  const polar = (angle, length) =>
    `${(length * Math.cos(angle)).toFixed(2)} ${(-length * Math.sin(angle)).toFixed(2)}`;
  const within = (angle) => angle - TURN * Math.floor(angle / TURN);
  const arc = (from, span, radius) => `M${polar(from, radius)}` + [span / 2, span]
    .map((by) => `A${radius} ${radius} 0 0 0 ${polar(from + by, radius)}`).join("");
  // Does a pair show an angle that it did not show in training?
  const isNew = (i, turned) => within(turned) > (trained - 1) * PAIRS[i] + 1e-6;

  // What is drawn: both positions, the factor of a law, an angle for each pair.
  const target = () => {
    const { factor, theta } = laws[controls.law.value()];
    return [controls.m.value(), controls.n.value(), factor, ...theta];
  };
  const terms = (distance, factor, theta) => {
    const { q, k } = vectors[controls.content.value()];
    return theta.map((t, i) => factor ** 2 * q[i][0] * k[i][0]
      * Math.cos(q[i][1] - k[i][1] + distance * t));
  };
  const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);
  const scores = ({ factor, theta }) => Array.from({ length: most + 1 },
    (_, distance) => sum(terms(distance, factor, theta)));
  let low = 0, high = 1;  // of the scores by all laws
  const height = (score) => Y + HIGH * (high - score) / (high - low);
  const curve = (law) => "M" + scores(law).map((score, d) =>
    `${(X + WIDE * d / most).toFixed(1)} ${height(score).toFixed(1)}`).join("L");

  let drawn = [];
  const paint = (state) => {
    drawn = state;
    const [m, n, factor, ...theta] = state;
    const { q, k } = vectors[controls.content.value()];
    const longest = Math.max(...[...q, ...k].map(([length]) => length));
    const parts = terms(m - n, factor, theta);
    clocks.forEach((clock, i) => {
      const key = k[i][1] + n * theta[i], query = q[i][1] + m * theta[i];
      const met = Math.min((trained - 1) * PAIRS[i], TURN);
      clock.face.classList.toggle("new", isNew(i, (m - n) * theta[i]));
      set(clock.met, { d: arc(key + q[i][1] - k[i][1], met, FACE) });
      set(clock.between, { d: `${arc(key, within(query - key), 15)}L0 0Z` });
      set(clock.k, { d: `M0 0L${polar(key, (FACE - 5) * k[i][0] / longest)}` });
      set(clock.q, { d: `M0 0L${polar(query, (FACE - 5) * q[i][0] / longest)}` });
      clock.term.textContent = signed(parts[i], 3);
    });
    set(path, { d: curve({ factor, theta }) });
    set(dot, { cx: X + WIDE * (m - n) / most, cy: height(sum(parts)) });
  };

  const show = (said, smooth) => {
    const [m, n, factor, ...theta] = target(), from = drawn;
    const score = signed(sum(terms(m - n, factor, theta)), 3);
    const fresh = theta.flatMap((t, i) => (isNew(i, (m - n) * t) ? [i] : []));
    const all = Object.values(laws).flatMap(scores);
    [low, high] = [Math.min(...all), Math.max(...all)];
    grey.textContent = controls.law.value() === "as trained" ? "" : "grey: as trained";
    set(nought, { y: height(0) + 4 });
    set(before, { d: curve(laws["as trained"]) });
    set(zero, { d: `M${X} ${height(0)}h${WIDE}` });
    expression.show(`rope = attn.Rope(${laws[controls.law.value()].code})\n`
      + `attn.apply_rope(q, *rope(torch.tensor([${m}]))) @ `
      + `attn.apply_rope(k, *rope(torch.tensor([${n}]))).mT`);
    live.say(`${said ?? `Query at ${m}, key at ${n}: distance ${m - n}.`} `
      + `The score is ${score}${said ? ", as before" : ", the sum of the eight terms"}. `
      + (fresh.length ? "Angles that training has not shown, in pairs "
        + `${fresh.join(", ")}.` : "Training has shown all these angles."));
    glide((part) => paint(target().map((x, i) =>
      (part < 1 ? from[i] + (x - from[i]) * part * (2 - part) : x))),
    !smooth || Play.still());
  };

  let quiet = false;  // while a control is moved by another
  const move = (m, n, ...how) => {
    quiet = true;
    controls.m.set(m);
    controls.n.set(n);
    quiet = false;
    show(...how);
  };
  // A query sees the keys before it: what would pass the other takes it along.
  const moved = (own) => () => {
    const [m, n] = target();
    if (!quiet) move(own === "m" ? m : Math.max(m, n), own === "m" ? Math.min(n, m) : n);
  };
  const apart = (by, n = Math.min(controls.n.value(), most - by)) => move(n + by, n);
  // A hand that is turned takes its position along, and so all other hands.
  const turn = (i) => {
    let own, at, last;
    return ([x, y], first) => {
      const [m, n, , ...theta] = target(), now = Math.atan2(-y, x);
      const { q, k } = vectors[controls.content.value()];
      const from = (angle) => within(now - angle + Math.PI) - Math.PI;
      const away = (hand, by) => Math.abs(from(hand[i][1] + by * theta[i]));
      if (first) [own, at] = away(q, m) <= away(k, n) ? ["m", m] : ["n", n];
      else at += from(last) / theta[i];
      last = now;
      controls[own].set(Math.round(at));
    };
  };
  const both = Play.button("Move both", () => {
    const [m, n] = target(), by = m + STEP > most ? -n : STEP;
    move(m + by, n + by, `Both moved by ${signed(by, 0)}, to ${m + by} and ${n + by}: `
      + `all hands turn, no angle between two changes. The distance is ${m - n}.`, true);
  });
  const controls = {
    m: Play.steps("query at m", most, 20, moved("m"), String, { least: 0, pace: 250 }),
    n: Play.slider("key at n", 0, most, 12, moved("n")),
    law: Play.choice("law", Object.keys(laws), () => show(null, true)),
    content: Play.choice("query and key", Object.keys(vectors), () => show()),
  };
  const stroke = (name) => svg("path", { class: name });
  const clocks = PAIRS.map((_, i) => {
    const clock = { met: stroke("met"), between: stroke("between"), k: stroke("k"),
      q: stroke("q"), term: text(0, 50, "", "middle") };
    const place = `translate(${44 + 87 * (i % 4)} ${58 + 101 * Math.floor(i / 4)})`;
    return Object.assign(clock, { face: Play.drag(svg("g", { class: "clock", transform: place },
      svg("circle", { r: FACE }), text(-40, -26, `${i}`), Object.values(clock)), turn(i)) });
  });
  const path = stroke("curve"), before = stroke("before"), zero = stroke("axis");
  const dot = svg("circle", { class: "dot", r: 5.5 });
  const grey = text(X + WIDE, 12, "", "end"), nought = text(2, 0, "0");
  const sample = (x, name, words) => [text(x + 21, 234, words),
    svg("path", { class: name, d: `M${x} 230h16` })];
  show();
  return [
    html("p", {}, "Turn a hand, or move a position: fast hands race, slow ones creep. Move "
      + "both: no term, no score changes. Far beyond training, a law brings slow hands back."),
    html("div", { class: "touch-controls" }, Object.values(controls), both),
    html("div", { class: "touch-panels" },
      Play.board("dial", "0 0 348 242", "Eight clocks, one for each pair, from fast to "
        + "slow. A hand of the query, one of the key, the angle between, and their term.",
      text(4, 12, "pairs 0 to 7, fast to slow; below each its term"),
      clocks.map(({ face }) => face), sample(4, "q", "query"), sample(74, "k", "key"),
      sample(132, "met", "met in training")),
      Play.drag(Play.board("dial sideways", "0 0 348 242", "The score against the "
        + "distance, by this law and as trained.",
      svg("rect", { class: "known", x: X, y: Y, width: WIDE * trained / most, height: HIGH }),
      text(4, 12, "the score, by distance"), grey, zero, nought, text(X, 236, "0", "middle"),
      text(X + WIDE, 236, `${most}`, "end"),
      text(X + WIDE * trained / most, 236, `${trained}`, "middle"), before, path, dot),
      ([x]) => apart(Math.round(Math.min(Math.max((x - X) / WIDE, 0), 1) * most)))),
    expression, live,
  ];
}, { title: "RoPE: eight clocks", reserve: [160, 240], instead: true });
