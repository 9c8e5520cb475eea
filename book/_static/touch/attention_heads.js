// Chapter 2 and the front page: what each token of a sentence attends to, in
// any head of MiniLM. The front page has the short form, without all heads.
Play.figure("attention_heads", (data, { place, expression, live }) => {
  const { html, svg } = Play;
  const { sentences, layers, heads } = data;
  const size = sentences[0].tokens.length;
  const bytes = sentences.map(({ weights }) =>
    Uint8Array.from(atob(weights), (letter) => letter.charCodeAt(0)));
  const state = { text: 0, head: Object.values(data.known)[0], query: data.query };

  const each = (make, count = size) => Array.from({ length: count }, (_, i) => make(i));
  const weight = (i, j, head = state.head, text = state.text) =>
    bytes[text][(head * size + i) * size + j] / 255;
  const word = (i) => sentences[state.text].tokens[i];
  const percent = (share) => `${Math.round(100 * share)}\u00a0%`;
  const LEAST = 0.005;  // 0 % is not shown
  const layer = (head) => Math.floor(head / heads);
  const name = (head) => `layer ${layer(head)}, head ${head % heads}`;
  const shade = (share) => share ** 0.7;  // so that 5 % can be seen
  const button = (attributes, ...inside) =>
    html("button", { type: "button", ...attributes }, ...inside);
  const group = (label, key, buttons, then, columns) =>
    Play.group(label, buttons, state[key], (now) => {
      state[key] = now;
      then();
    }, columns);

  // The sentence: tokens, with curves above the row or beside the column.
  const tokens = each((i) => button({ class: "touch-token",
    onpointerenter: () => query.choose(i) }, html("span"), html("small")));
  const query = group("Query", "query", tokens, () => draw());
  const arcs = each(() => svg("path", { class: "arc" }));
  const web = svg("g", { class: "web" });
  const sentence = html("div", { class: "touch-sentence" },
    svg("svg", { "aria-hidden": "true" }, web, arcs), query);

  let curve;
  const measure = () => {
    const down = getComputedStyle(query).flexDirection === "column";
    const middle = tokens.map((token) => (down
      ? token.offsetTop + token.offsetHeight / 2
      : token.offsetLeft + token.offsetWidth / 2));
    const edge = down ? query.offsetWidth + 3 : query.offsetTop - 3;
    const room = down ? sentence.offsetWidth - edge : edge;
    const at = (x, away) => (down ? `${edge + away} ${x}` : `${x} ${edge - away}`);
    curve = (i, j) => {
      const [from, to] = [middle[i], middle[j]];
      const span = Math.abs(from - to) / (middle.at(-1) - middle[0]);
      const [away, loop] = i === j ? [34, 16] : [1.25 * room * span ** 0.6, 0];
      return `M${at(from, 0)}C${at(from - loop, away)} ${at(to + loop, away)} ${at(to, 0)}`;
    };
    web.replaceChildren(...each((i) => each((j) => weight(i, j) > 0.1
      && svg("path", { d: curve(i, j), "stroke-width": 5 * weight(i, j) })))
      .flat().filter(Boolean));
    draw();
  };

  // The map of the chosen head: queries down, keys across.
  const CELL = 20, LEFT = 72, TOP = 66;
  const cells = each(() => each((j) => svg("rect", { class: "weight",
    x: LEFT + j * CELL, width: CELL - 2, height: CELL - 2, rx: 3 })));
  const rows = each((i) => svg("g", { onpointerenter: () => query.choose(i),
    onclick: () => query.choose(i), transform: `translate(0 ${TOP + i * CELL})` },
  Play.text(LEFT - 8, 14, "", "end"), cells[i]));
  const columns = each((j) => svg("text", {
    transform: `translate(${LEFT + j * CELL + 14} ${TOP - 8}) rotate(-90)` }));
  const frame = svg("rect", { class: "frame", x: LEFT - 2, rx: 4,
    width: size * CELL + 2, height: CELL + 2 });
  const board = Play.board("", `0 0 ${LEFT + size * CELL + 2} ${TOP + size * CELL + 2}`,
    "The map of the chosen head: queries down, keys across.", columns, rows, frame);
  const title = html("p");
  const fill = () => {
    each((i) => {
      tokens[i].firstChild.textContent = word(i);
      rows[i].firstChild.textContent = columns[i].textContent = word(i);
      each((j) => {
        cells[i][j].style.setProperty("--shade", shade(weight(i, j)));
        cells[i][j].dataset.weight = weight(i, j);
      });
    });
    title.textContent = `${name(state.head)}: queries down, keys across`;
    known.forEach((button) =>
      button.setAttribute("aria-pressed", button.number === state.head));
    measure();
  };

  // All heads, each as a small map, and those whose job has a name.
  const small = each((head) => button({ "aria-label": name(head), title: name(head) },
    html("canvas", { width: size, height: size })), layers * heads);
  const head = group("Head", "head", small, () => fill(), heads);
  const paint = () => small.forEach((button, head) => {
    const pen = button.firstChild.getContext("2d");
    pen.clearRect(0, 0, size, size);
    pen.fillStyle = getComputedStyle(place).getPropertyValue("--touch-blue");
    each((i) => each((j) => {
      pen.globalAlpha = shade(weight(i, j, head));
      pen.fillRect(j, i, 1, 1);
    }));
  });
  const axis = (count) => html("div", { "aria-hidden": "true" },
    each((n) => html("span", {}, `${n}`), count));
  const known = Object.entries(data.known).map(([job, number]) =>
    Object.assign(Play.button(job, () => head.choose(number)), { number }));

  const text = group("Last word", "text", sentences.map(({ word }) =>
    button({ class: "touch-button" }, word)), () => {
    fill();
    paint();
  });

  const draw = () => {
    const shares = each((j) => weight(state.query, j));
    each((i) => {
      arcs[i].setAttribute("d", curve(state.query, i));
      arcs[i].style.setProperty("--weight", shares[i]);
      tokens[i].style.setProperty("--shade", shade(shares[i]));
      tokens[i].lastChild.textContent = shares[i] < LEAST ? "" : percent(shares[i]);
      rows[i].classList.toggle("chosen", i === state.query);
    });
    frame.setAttribute("y", TOP + state.query * CELL - 2);
    const best = each((j) => j).sort((a, b) => shares[b] - shares[a]);
    const quoted = (i) => word(i).replace(/^\W$/, "“$&”");
    const said = best.slice(0, 3).filter((j) => shares[j] >= LEAST)
      .map((j) => `${quoted(j)} ${percent(shares[j])}`);
    const other = (state.text + 1) % sentences.length;
    const changed = percent(weight(state.query, best[0], state.head, other));
    if (changed !== percent(shares[best[0]])) {
      said[0] += ` (with “${sentences[other].word}”: ${changed})`;
    }
    live.say(`${quoted(state.query)} → ${said.join(", ")}, in ${name(state.head)}.`);
    expression.show(`minilm.load().run("${sentences[state.text].text}")[1][${
      layer(state.head)}, ${state.head % heads}]`);
  };
  paint();
  new ResizeObserver(fill).observe(sentence);
  new MutationObserver(paint).observe(document.documentElement,
    { attributeFilter: ["data-theme"] });

  const row = (name, ...inside) => html("div", { class: name }, ...inside);
  const jobs = row("touch-controls touch-jobs",
    html("span", {}, "Heads with a job:"), known);
  const top = [row("touch-controls", "… because it was too", text,
    html("span", { class: "touch-hint" }, "Point at a token, or tap it.")), sentence, live];
  if (place.matches(".short")) return [...top, jobs];
  return [...top, row("touch-pair",
    row("", html("p", {}, `${layers} layers down, ${heads} heads across`),
      row("touch-heads", axis(heads), axis(layers), head), jobs),
    row("", title, board)), expression];
}, { instead: true });
