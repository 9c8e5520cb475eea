// Chapter 18: which keys a question reads, by four ways to choose them.
Play.figure("key_choice", ({ block, place, own, learned }, { expression, live }) => {
  const { html, svg, set, text } = Play;
  const count = place.length, length = 2 * count, CELL = 40, HIGH = 19, LEFT = 26;
  const list = (n, make) => Array.from({ length: n }, (_, i) => make(i));
  const ways = [["tokens", "own keys"], ["tokens", "indexer"],
    ["blocks", "own keys"], ["blocks", "indexer"]];

  // The best n of a list, as a set: of equal ones the first.
  const best = (scores, n) => new Set(scores.map((s, i) => [s, i])
    .sort((a, b) => b[0] - a[0] || a[1] - b[1]).slice(0, n).map(([, i]) => i));
  // The keys that question i reads: a mean of own scores is the mean's score.
  const read = (i, way, budget) => {
    const [unit, judge] = ways[way], scores = (judge === "indexer" ? learned : own)[i];
    if (unit === "tokens") return best(scores, budget);
    const last = Math.floor((scores.length - 1) / block);
    const pooled = list(last + 1, (n) => {
      const part = scores.slice(n * block, (n + 1) * block);
      if (n === last) return Infinity;
      return judge === "indexer" ? Math.max(...part)
        : part.reduce((sum, s) => sum + s, 0) / block;
    });
    const blocks = best(pooled, budget / block);
    return new Set(scores.map((_, j) => j).filter((j) => blocks.has(Math.floor(j / block))));
  };
  const weights = (i) => {
    const top = Math.max(...own[i]), each = own[i].map((s) => Math.exp((s - top) / 100));
    const sum = each.reduce((a, b) => a + b, 0);
    return each.map((x) => x / sum);
  };
  const hits = (way, budget) => place.filter((at, i) => read(i, way, budget).has(at)).length;

  let way = 2;
  const show = () => {
    const i = controls.question.value() - 1, budget = block * controls.budget.value();
    const kept = read(i, way, budget), share = weights(i), [unit, judge] = ways[way];
    const weight = [...kept].reduce((sum, j) => sum + share[j], 0);
    cells.forEach((cell, j) => {
      cell.setAttribute("class", j >= own[i].length ? "future" : kept.has(j) ? "read" : "unread");
      cell.style.setProperty("--share", share[j] ?? 0);
      cell.dataset.share = share[j] ?? 0;
    });
    const row = Math.floor(place[i] / block), column = place[i] % block;
    set(answer, { x: LEFT + column * CELL, y: row * HIGH });
    ways.forEach(([a, b], n) => {
      buttons[n].lastChild.textContent = `${hits(n, budget)} of ${count}`;
    });
    live.say(`Question ${i + 1} may read ${own[i].length} keys, and reads ${kept.size}: `
      + `${unit}, chosen by ${judge === "indexer" ? "the indexer" : "their own keys"}. `
      + `${(100 * weight).toFixed(0)} % of its attention is kept, and its answer, key ${place[i]}, `
      + `is ${kept.has(place[i]) ? "read" : "lost"}. Of all ${count} answers, `
      + `${hits(way, budget)} are read.`);
    expression.show([`top_k_keys(own, ${budget}, causal)`, `top_k_keys(learned, ${budget}, causal)`,
      `block_choice(q, k, ${block}, ${budget / block})`, `best_blocks(learned, ${budget})`][way]);
  };
  const controls = {
    question: Play.steps("question", count, 20, show),
    budget: Play.slider("keys read", 1, length / block, 2, show, (n) => `${n * block}`),
  };
  const buttons = ways.map(([unit, judge]) => html("button", { type: "button",
    class: "touch-button" }, html("span", {}, `${unit}, by ${judge}`), html("small", {}, "")));
  const choices = Play.group("choice", buttons, way, (now) => { way = now; show(); }, 2);
  choices.classList.add("choices");
  const cells = list(length, (j) => svg("rect", { rx: 3, width: CELL - 3, height: HIGH - 3,
    x: LEFT + j % block * CELL, y: Math.floor(j / block) * HIGH }));
  // A key is pressed: the question that it answers, or the question that it is.
  const choose = ([x, y]) => {
    const at = block * Math.floor(y / HIGH) + Math.floor((x - LEFT) / CELL);
    controls.question.set(1 + (at < count ? place.indexOf(at) : at - count));
  };
  const answer = svg("rect", { class: "frame", rx: 3, width: CELL - 3, height: HIGH - 3 });
  const rows = list(length / block, (n) => text(LEFT - 6, n * HIGH + 13, n * block, "end"));
  const board = Play.tap(Play.board("choice", `-4 -4 ${LEFT + block * CELL + 8} ${length / block * HIGH + 8}`,
    "The keys of the text, a block in each row. Those that are read are filled.",
    rows, cells, answer), choose);
  show();
  return [
    html("p", {}, "A row is a block of eight keys. Blue keys are read, the darker the more of the "
      + "question’s attention they have; the frame is its answer. Press a key to ask for it. Below "
      + "each way to choose is how many of all questions read their answers."),
    html("div", { class: "touch-controls" }, choices, controls.budget, controls.question),
    html("div", { class: "touch-picture" }, board,
      html("p", { class: "touch-legend" }, [["did", "read"], ["next", "not read"],
        ["answer", "the answer"]].map(([kind, words]) => html("span", { class: kind }, words)))),
    live, expression,
  ];
}, { title: "Four ways to choose keys", reserve: [230, 40], beside: true });
