// Chapter 9: what SmolLM2 would write, if it stopped after each block.
Play.figure("logit_lens", ({ words, vocabulary, places, guesses },
  { expression, live }) => {
  const { html, svg, set, text } = Play;
  const X = 56, Y = 14, WIDE = 276, HIGH = 180, ROW = 46;
  const last = places.length - 1;
  const across = (block) => X + WIDE * block / last;
  const down = (place) => Y + HIGH * Math.log(place) / Math.log(vocabulary);
  const counted = (n) => n.toLocaleString("en");

  const show = () => {
    const block = controls.block.value(), word = words.indexOf(controls.word.value());
    const place = places[block][word], best = guesses[block][word];
    curves.forEach((curve, i) => set(curve, { class: i === word ? "curve" : "line" }));
    set(dot, { cx: across(block), cy: down(place), "data-place": place });
    set(mark, { d: `M${across(block)} ${Y}v${HIGH}` });
    rows.forEach(([bar, name, share], i) => {
      set(bar, { width: 2 + 326 * best[i][1], "data-share": best[i][1] });
      name.textContent = best[i][0];
      share.textContent = best[i][1].toFixed(3);
    });
    expression.show(`lens[${block}, ${word}].softmax(-1).topk(${rows.length})`);
    const after = block ? `After block ${block} of ${last}` : "Before the first block";
    live.say(`${after} it would write “${best[0][0]}”, with probability `
      + `${best[0][1].toFixed(3)}. “${words[word]}” is in place ${counted(place)}`
      + (block < last ? `, and first at the end.` : ": that is what it writes."));
  };

  const controls = {
    word: Play.choice("word", words.map((word) => [word, word]), show),
    block: Play.slider("blocks so far", 0, last, 26, show),
  };
  controls.word.querySelector("select").value = "Paris";
  const curves = words.map((word, i) => svg("path", { d: "M" + places.map((row, block) =>
    `${across(block).toFixed(1)} ${down(row[i]).toFixed(1)}`).join("L") }));
  const dot = svg("circle", { class: "dot", r: 5 }), mark = svg("path", { class: "axis" });
  const rows = guesses[0][0].map((_, i) => [
    svg("rect", { class: "bar", x: 4, y: 34 + i * ROW, height: 10 }),
    text(4, 28 + i * ROW), text(332, 28 + i * ROW, "", "end")]);
  show();
  return [
    html("div", { class: "touch-controls wide" }, Object.values(controls)),
    html("div", { class: "touch-panels" },
      Play.board("lens", "0 0 348 232", "The place of each word of the answer after each "
        + "block; the chosen word's curve is blue.",
      text(X - 6, 54, "place", "end"), [1, 100, 10000].flatMap((place) => [
        text(X - 6, down(place) + 4, counted(place), "end"),
        svg("path", { class: "axis", d: `M${X} ${down(place)}h${WIDE}` })]),
      [0, 10, 20, last].map((block) => text(across(block), 212, block, "middle")),
      text(X + WIDE / 2, 228, "blocks so far", "middle"), curves, mark, dot),
      Play.board("lens", "0 0 348 232", "The likeliest tokens there, and their probabilities.",
        rows.flat())),
    expression, live,
  ];
}, { instead: true });
