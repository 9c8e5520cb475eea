// Chapter 10: tokens flow into a cache, which attends, forgets, and saves work.
Play.figure("cache_slots", (numbers, { expression, live }) => {
  const { html, svg, set, text } = Play;
  const { tokens, bytes, step, whole, weights, expects } = numbers;
  const most = tokens.length, all = [...tokens.keys()];
  const ROW = 23, TOP = 26, CHIP = 84, SLOT = 192, CELL = 15, RIGHT = 356, BAR = 106;
  const at = (row) => TOP + row * ROW;
  const many = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;
  const sum = (terms) => terms.reduce((total, x) => total + x, 0);
  // "0, 1 and 5 to 8": runs of three or more have an end only.
  const runs = (of) => new Intl.ListFormat("en-GB").format(of.reduce((made, n) => {
    if (n === made.at(-1)?.at(-1) + 1) made.at(-1).push(n);
    else made.push([n]);
    return made;
  }, []).flatMap((run) => (run.length < 3 ? run.map(String) : `${run[0]} to ${run.at(-1)}`)));

  const show = () => {
    const read = controls.token.value(), kind = controls.cache.value(), now = read - 1;
    const window = controls.window.value(), sinks = controls.sinks.value();
    const slides = kind === "sliding", policy = slides ? `${window} ${sinks}` : "all";
    controls.window.enable(slides);
    controls.sinks.enable(slides);
    // The tokens whose keys a step attends to, in the order of the memory.
    const seen = (n) => all.slice(0, n).filter((t) =>
      !slides || t < sinks || t > n - 1 - window);
    const held = seen(read), slots = kind === "static" ? most : held.length;
    const kept = slides ? Math.min(read, sinks + window - 1) : slots;
    const given = weights[policy][now], [next, sure] = expects[policy][now];

    all.forEach((t) => {
      const slot = held.indexOf(t), gone = t < read && slot < 0;
      const [x, y, turned] = gone ? [SLOT + 110, at(sinks) + 40, 30]
        : slot < 0 ? [2, at(t), 0] : [SLOT, at(slot), 0];
      set(words[t], { class: t < read ? "read" : t === read ? "next" : "" });
      set(words[t].firstChild, { class: slot < 0 ? "off" : "on" });
      set(boxes[t], { class: gone ? "gone" : slot < 0 ? "later" : "held", "data-slot": slot,
        style: `transform: translate(${x}px, ${y}px) rotate(${turned}deg)` });
      const [rect, place, weight] = frames[t].children;
      set(frames[t], { visibility: t < slots ? "visible" : "hidden",
        "data-mask": Number(t < held.length) });
      set(rect, { class: t < held.length ? "" : "off" });
      set(place, { class: held[t] === t ? "place" : "place moved" });
      place.textContent = t < held.length ? t : "";
      weight.textContent = t < held.length ? `${given[t]} %` : "masked";
      set(rows[t], { class: t < read ? "done" : "" });
    });
    const from = at(now) + 9;
    links.replaceChildren(...held.map((_, slot) => {
      const to = at(slot) + 9, middle = (CHIP + SLOT) / 2;
      return svg("path", { pathLength: 1, style: `--weight: ${given[slot] / 100}`,
        d: `M${CHIP + 4} ${from}C${middle} ${from} ${middle} ${to} ${SLOT} ${to}` });
    }));
    set(frame, { y: at(now) - 1 });
    const [usual, surely] = expects.all[now], differs = next !== usual;
    set(ghost, { class: differs ? "ghost lost" : "ghost",
      style: `transform: translate(2px, ${at(read)}px)` });
    ghost.children[1].textContent = next;
    ghost.children[2].textContent = `${sure} % `
      + (differs ? `(with all keys: ${usual}, ${surely} %)` : "expected");

    const done = all.slice(0, read), again = sum(whole.slice(0, read));
    const spent = sum(done.map((t) => step[seen(t + 1).length - 1]));
    const repeated = read * (read + 1) / 2;
    const giga = (flops) => `${(flops / 1e9).toFixed(1)} GFLOP`;
    const memory = many(kept, kind === "static" ? "slot" : "key");
    const kilo = `${(kept * bytes / 1000).toFixed(0)} kB`;
    const count = (meter, share, ...lines) => {
      lines.forEach((line, i) => { meter.children[i + 1].textContent = line; });
      set(meter.lastChild, { style: `transform: scaleX(${share})` });
    };
    count(meters.plain, again / sum(whole), many(repeated, "row"), giga(again));
    count(meters.cached, spent / sum(whole), many(read, "row"), giga(spent));
    count(meters.memory, kept / most, memory, kilo);

    expression.show(`attn.cache.${{ dynamic: "DynamicCache()",
      static: `StaticCache(1, 3, ${most}, 64)`,
      sliding: `SlidingCache(${window}, num_sink_tokens=${sinks})` }[kind]}`);
    const forgotten = done.filter((t) => !held.includes(t));
    const place = held.findIndex((t, i) => t !== i);
    live.say(`Token ${now}, “${tokens[now]}”, attends to ${many(held.length, "key")}: `
      + `${runs(held)}${forgotten.length ? `; forgotten: ${runs(forgotten)}` : ""}. `
      + `SmolLM2 expects “${next}”, ${sure} %`
      + `${differs ? `; with all of the past, “${usual}”, ${surely} %` : ""}. `
      + `Computed so far: ${many(read, "row")}, without a cache ${repeated}. `
      + (place > 0 ? `Slot ${place} has token ${held[place]}: StreamingLLM rotates it to `
        + `position ${place}. ` : "")
      + (slots > held.length ? `The mask hides ${many(slots - held.length, "empty slot")}. ` : "")
      + `Memory for the next step: ${memory}, ${kilo}.`);
  };

  const controls = {
    token: Play.steps("tokens read", most, 5, show, String, { pace: 1700 }),
    window: Play.slider("window", 1, 8, 4, show),
    sinks: Play.slider("sinks", 0, 4, 1, show),
    cache: Play.choice("cache", [["dynamic", "dynamic"], ["static", "static"],
      ["sliding", "sliding window"]], show),
  };
  const rect = (x, y, width, height) => svg("rect", { x, y, width, height, rx: 3 });
  const named = (name, x, y, words, anchor) => set(text(x, y, words, anchor), { class: name });
  const chip = (t) => [rect(0, 0, CHIP, 18), named("number", 17, 13, t, "end"),
    text(22, 13, tokens[t])];
  const words = all.map((t) => svg("g", { transform: `translate(2 ${at(t)})` }, chip(t)));
  const boxes = all.map((t) => svg("g", {}, chip(t)));
  const frames = all.map((i) => svg("g", {}, rect(SLOT, at(i), CHIP, 18),
    text(SLOT + CHIP + 16, at(i) + 13, "", "middle"),
    named("weight", RIGHT, at(i) + 13, "", "end")));
  const links = svg("g", { class: "links" });
  const frame = set(rect(1, 0, CHIP + 2, 20), { class: "frame" });
  const ghost = svg("g", {}, rect(0, 0, CHIP, 18), text(22, 13), text(CHIP + 6, 13));
  const rows = all.map((t) => svg("g", {}, all.slice(0, t + 1).map((i) => set(
    rect(4 + i * CELL, at(t) + 1, CELL - 2, 15), { style: `--at: ${i}`,
      class: i < t ? "again" : "new" }))));
  const meter = (name, y, title) => svg("g", { class: name },
    named("title", RIGHT, y, title, "end"), [16, 32].map((by) => text(RIGHT, y + by, "", "end")),
    set(rect(RIGHT - BAR, y + 38, BAR, 6), { class: "rail" }), rect(RIGHT - BAR, y + 38, BAR, 6));
  const meters = { plain: meter("plain", 40, "without a cache"),
    cached: meter("cached", 124, "with it"), memory: meter("memory", 208, "cache in memory") };
  const view = `0 0 360 ${at(most + 1)}`;
  const choose = ([, y]) => controls.token.set(Math.floor((y - TOP) / ROW) + 1);
  show();
  return [
    html("p", {}, "Press Play, or a token: SmolLM2 reads up to it. Keys and values slide into "
      + "slots; the thicker a line from the query to a key, the larger the weight (the mean of "
      + "all heads). Then choose the sliding window, and take its sink away."),
    html("div", { class: "touch-controls pairs" }, Object.values(controls)),
    html("div", { class: "touch-panels" },
      Play.tap(Play.board("slots", view, "The text on the left, the cache's slots on the right: lines "
        + "from the newest token to its keys are as thick as their weights.",
      named("title", 4, 14, "the text"), named("title", SLOT + 2, 14, "the cache"),
      named("number", SLOT + CHIP + 16, 14, "place", "middle"), named("number", RIGHT, 14,
        "weight", "end"), links, frames, svg("g", { class: "text" }, words), frame, ghost, boxes), choose),
      Play.tap(Play.board("slots", view, "A triangle of the rows that are computed without a cache, "
        + "a row for each step, and on its edge the one that is computed with it.",
      named("title", 4, 14, "rows computed, step by step"), rows, Object.values(meters)), choose)),
    live, expression,
  ];
}, { title: "A cache at work", reserve: [336, 60], instead: true });
