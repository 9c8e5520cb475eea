// Chapter 9: the stream rises through SmolLM2's blocks, and an answer surfaces.
Play.figure("logit_lens", ({ vocabulary, names, lenses }, { expression, live }) => {
  const { html, svg, set, text } = Play;
  const ROW = 13.5, TOP = 24, SLAB = 28, WIDE = 96, LEFT = 134, RIGHT = 336;
  const last = lenses[0].places.length - 1;
  const up = (block) => TOP + (last - block) * ROW;  // the middle of its row
  const across = (place) =>
    RIGHT - (RIGHT - LEFT) * Math.log(place) / Math.log(vocabulary);
  const counted = (n) => n.toLocaleString("en");
  const share = (p) => (p < 0.001 ? "< 0.001" : p.toFixed(3));
  const path = (points) => `M${points.join("L")}`;
  let word = 0;

  const show = () => {
    const { words, places, shares, guesses, likely, question } = lenses[asked.value()];
    const block = blocks.value(), own = words[word], place = places[block][word];
    const leads = places.findLastIndex((row) => row[word] > 1) + 1;
    const column = places.map((row, at) => `${across(row[word]).toFixed(1)} ${up(at)}`);

    tokens.forEach((token, i) => {
      const [guess] = guesses[block][i], [now, end] = token.children;
      now.textContent = names[guess];
      end.textContent = names[words[i]];
      set(token, { class: guess === words[i] ? "touch-token right" : "touch-token",
        style: `--shade: ${likely[block][i][0]}` });
    });

    slabs.forEach(([slab, name], at) => {
      const [guess] = guesses[at][word];
      name.textContent = names[guess];
      set(slab, { style: `--shade: ${likely[at][word][0]}`, class: [
        "slab", guess === own ? "right" : "", at > block ? "ahead" : "",
        at === block ? "now" : ""].join(" ") });
    });
    curves.forEach((curve, i) => set(curve, { d: i === word ? "" : path(
      places.map((row, at) => `${across(row[i]).toFixed(1)} ${up(at)}`)) }));
    set(ahead, { d: path(column) });
    set(risen, { d: path(column.slice(0, block + 1)) });
    set(level, { style: `translate: 0 ${up(block)}px` });
    grip.lastChild.textContent = block;
    set(dot, { style: `translate: ${across(place)}px`, "data-place": place });
    const label = dot.lastChild, far = place > 2000;
    label.textContent = `${names[own]}: ${counted(place)}`;
    set(label, { x: far ? 11 : -11, y: block < leads ? 16 : -7,
      "text-anchor": far ? "start" : "end" });
    set(lead, { style: `translate: 0 ${up(leads) + ROW / 2}px` });
    lead.lastChild.textContent = `first from block ${leads} on`;

    const best = guesses[block][word].map((token, i) => [token, likely[block][word][i], i + 1]);
    if (place > best.length) best.push([own, shares[block][word], place]);
    for (const [token, row] of rows) {
      if (best.some(([other]) => other === token)) continue;
      row.remove();
      rows.delete(token);
    }
    best.forEach(([token, part, at], i) => {
      if (!rows.has(token)) rows.set(token, race.appendChild(
        html("li", {}, html("small"), html("b"), html("i"), html("span"))));
      const row = rows.get(token), [rank, name, , number] = row.children;
      set(row, { class: token === own ? "right" : "", "data-share": part,
        "data-place": at, style: `--row: ${i + (i === 5 ? 0.25 : 0)}; --share: ${part}` });
      [rank.textContent, name.textContent, number.textContent] =
        [counted(at), names[token], share(part)];
    });

    expression.show(`lens[${block}, ${word}].softmax(-1).topk(5)`
      + (asked.value() === "0" ? "" : `  # QUESTION = "${question}"`));
    const after = block ? `After block ${block} of ${last}` : "Before the first block";
    live.say(`${after} it would write “${names[best[0][0]]}”, with probability `
      + `${share(best[0][1])}. “${names[own]}” is in place ${counted(place)}`
      + (block === last ? ": that is what it writes."
        : block < leads ? `; from block ${leads} on it is first.` : ", and stays first."));
  };

  const asked = Play.choice("question", lenses.map(({ question }, i) => [i, question]),
    (now) => sentence.choose(lenses[now].chosen));
  const blocks = Play.steps("blocks so far", last, 26, show, String, { least: 0, pace: 350 });
  const tokens = lenses[0].words.map(() =>
    html("button", { type: "button" }, html("span"), html("small")));
  const sentence = Play.group("word of the answer", tokens, 0, (now) => {
    word = now;
    show();
  }, 4);

  const slabs = lenses[0].places.map((_, at) => [
    svg("rect", { x: SLAB, y: up(at) - 6, width: WIDE, height: 12, rx: 2 }),
    text(SLAB + WIDE / 2, up(at) + 4, "", "middle")]);
  const curves = tokens.map(() => svg("path", { class: "line" }));
  const ahead = svg("path", { class: "curve ahead" });
  const risen = svg("path", { class: "curve" });
  const dot = svg("g", { class: "dot" }, svg("circle", { r: 6 }), text(0, 0));
  const grip = svg("g", { class: "grip" }, svg("circle", { cx: 13, r: 12 }),
    text(13, 4, "", "middle"));
  const level = svg("g", { class: "level" },
    svg("path", { d: `M${SLAB + WIDE} 0H${RIGHT + 12}` }), dot, grip);
  const lead = svg("g", { class: "leads" }, svg("path", { d: `M${LEFT} 0H${RIGHT}` }),
    text(LEFT, 12));
  const tower = Play.board("tower", `0 0 352 ${up(0) + 42}`, "A row for each block, the last "
    + "on top: the word that it would write, and the rank of the word that will be written.",
  [0, 10, 20, last].map((at) => text(SLAB - 5, up(at) + 4, at, "end")),
  [1, 100, 10000].flatMap((place) => [
    text(across(place), up(0) + 24, counted(place), "middle"),
    svg("path", { class: "axis", d: `M${across(place)} ${up(last)}V${up(0) + 10}` })]),
  text(SLAB + WIDE / 2, 10, "writes", "middle"),
  text((LEFT + RIGHT) / 2, up(0) + 38, "rank of the word", "middle"),
  curves, ahead, risen, slabs.flat(), lead, level);
  const drag = (event) => {
    if (!event.buttons) return;
    const { y } = Play.where(tower, event);
    blocks.set(Math.round(last - (y - TOP) / ROW));
  };
  set(tower, { onpointerdown: drag, onpointermove: drag });
  const race = html("ol"), rows = new Map();
  sentence.choose(lenses[0].chosen);
  return [
    html("p", {}, "What would SmolLM2 write, if it stopped here? Raise the level from block to "
      + "block. Under each guess is the word that it will write in the end; choose one."),
    html("div", { class: "touch-controls wide" }, blocks, asked),
    html("div", { class: "lens" }, sentence, html("div", { class: "touch-panels" }, tower,
      html("div", { class: "race" }, "likeliest words, and their probabilities", race))),
    live, expression,
  ];
}, { title: "An answer surfaces, block by block", reserve: [136, 88], instead: true });
