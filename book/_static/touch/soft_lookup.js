// Chapter 1: guess a temperature from the readings near it, or fitting it.
Play.figure("soft_lookup", ({ hours, degrees, step, curves },
  { expression, live }) => {
  const { html, svg, set, text } = Play;
  const X = 22, Y = 14, WIDE = 314, HIGH = 190;  // of the curve
  const MIDDLE = [174, 114], FACE = 84;  // of the clock
  const low = Math.floor(Math.min(...degrees)) - 1;
  const high = Math.ceil(Math.max(...degrees)) + 1;
  const across = (hour) => X + WIDE * hour / 24;
  const up = (degree) => Y + HIGH * (high - degree) / (high - low);
  const angle = (hour) => hour * Math.PI / 12;
  const on = (hour, radius) => [MIDDLE[0] + radius * Math.sin(angle(hour)),
    MIDDLE[1] - radius * Math.cos(angle(hour))];
  const time = (hour) => `${Math.floor(hour)}:${String(Math.round(hour % 1 * 60))
    .padStart(2, "0")}`;

  const weigh = (hour, h) => {
    const scores = hours.map((x) => Math.cos(angle(hour - x)) / h ** 2);
    const most = Math.max(...scores);
    const exps = scores.map((score) => Math.exp(score - most));
    const sum = exps.reduce((a, b) => a + b, 0);
    return exps.map((x) => x / sum);
  };

  const show = () => {
    const { h, guess } = curves[controls.width.value()];
    const hour = controls.hour.value() * step;
    const weights = weigh(hour, h), said = guess[controls.hour.value()];
    const best = weights.indexOf(Math.max(...weights));
    const many = 1 / weights.reduce((sum, w) => sum + w * w, 0);
    set(path, { d: "M" + guess.map((y, i) =>
      `${across(i * step).toFixed(1)} ${up(y).toFixed(1)}`).join("L") });
    set(line, { d: `M${across(hour)} ${Y}v${HIGH}` });
    set(dot, { cx: across(hour), cy: up(said) });
    const [x, y] = on(hour, FACE - 12);
    set(hand, { d: `M${MIDDLE[0]} ${MIDDLE[1]}L${x} ${y}` });
    for (const all of [readings, keys]) all.forEach((each, i) => set(each,
      { r: (2 + 9 * Math.sqrt(weights[i])).toFixed(2), "data-weight": weights[i] }));
    const query = `torch.tensor([${Number.isInteger(hour) ? `${hour}.0` : hour}])`;
    expression.show(`q, k = clock(${query}), clock(hours)\n`
      + `attn.attention(q, k, degrees[:, None], scale=1 / ${h}**2)`);
    live.say(`At ${time(hour)}, with bandwidth ${h}, temperature ${(h * h).toFixed(4)}: `
      + `${said.toFixed(2)} degrees. The reading of ${hours[best]} h has the largest weight, `
      + `${weights[best].toFixed(3)}; it is an average of about ${many.toFixed(1)} readings.`);
  };

  const controls = {
    width: Play.slider("bandwidth", 0, curves.length - 1,
      curves.findIndex(({ h }) => h >= 0.4), show, (i) => `${curves[i].h}`),
    hour: Play.steps("query at", 24 / step, 12 / step, show, (i) => time(i * step),
      { least: 0, pace: 200 }),
  };
  const path = svg("path", { class: "curve" }), line = svg("path", { class: "axis" });
  const dot = svg("circle", { class: "dot", r: 5 }), hand = svg("path", { class: "q" });
  const point = (x, y) => svg("circle", { class: "reading", cx: x, cy: y });
  const readings = hours.map((hour, i) => point(across(hour), up(degrees[i])));
  const keys = hours.map((hour) => point(...on(hour, FACE)));
  const query = (hour) => controls.hour.set(Math.round(hour / step));
  show();
  return [
    html("p", {}, "To look back, in miniature: sixteen readings of a day answer for any hour, the "
      + "nearer the more. Drag the query along the curve or round the clock; change the bandwidth."),
    html("div", { class: "touch-controls" }, Object.values(controls)),
    html("div", { class: "touch-panels" },
      Play.drag(Play.board("lookup sideways", "0 0 348 232", "Readings of a day, each as large "
        + "as its weight, the guesses for every hour, and the guess at the query.",
      [0, 6, 12, 18, 24].map((hour) => text(across(hour), 220, `${hour} h`, "middle")),
      [low + 1, high - 1].map((y) => text(0, up(y) + 4, `${y}°`)),
      line, readings, path, dot), ([x]) => query(24 * (x - X) / WIDE)),
      Play.drag(Play.board("lookup", "0 0 348 232", "The same readings as keys on the face of a "
        + "clock, and the query as its hand.",
      svg("circle", { class: "axis", cx: MIDDLE[0], cy: MIDDLE[1], r: FACE }),
      [0, 6, 12, 18].map((hour) => {
        const [x, y] = on(hour, FACE + 20);
        return text(x, y + 4, `${hour} h`, "middle");
      }), hand, keys), ([x, y]) => query(
        (12 / Math.PI * Math.atan2(x - MIDDLE[0], MIDDLE[1] - y) + 24) % 24))),
    expression, live,
  ];
}, { title: "Soft look-up: a day of temperatures", reserve: [176, 104] });
