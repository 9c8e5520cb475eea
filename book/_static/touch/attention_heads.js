// Chapter 2 and two first pages: what each token of a sentence attends to, in any head of
// MiniLM. Those have the short form, without all heads, and in a newcomer's words. A sentence
// of one's own has fewer layers: `near` are the heads in them. attn.plot.model_attention has one
// text of any model, and `numbers` for its layers and heads; its keys may be of another text.
Play.figure("attention_heads", function build(data, parts) {
  const { html, svg } = Play;
  const { place, expression, live } = parts;
  const { layers, heads, near, numbers } = data;
  const sentences = data.sentences.map((x) => ({ keys: x.tokens, ...x }));
  const [size, width] = ["tokens", "keys"].map((of) => sentences[0][of].length);
  const short = place.matches(".short"), isSelf = !data.sentences[0].keys;
  const isLong = !isSelf || numbers && size > 16;  // a text in lines, without curves
  const bytes = sentences.map(({ weights, shares }) =>
    shares ?? Uint8Array.from(atob(weights), (letter) => letter.charCodeAt(0)));
  const jobs = Object.entries((short || data.own ? near : data.known) ?? {});
  const kept = parts.head < layers * heads ? parts.head : data.head ?? jobs[0][1];
  const state = { text: 0, head: kept, query: data.query };
  const each = (make, count = size) => Array.from({ length: count }, (_, i) => make(i));
  const weight = (i, j, head = state.head, text = state.text) =>
    bytes[text][(head * size + i) * width + j] / 255;
  const plain = (token) => short && { "[CLS]": "start", "[SEP]": "end" }[token] || token;
  const word = (i, of = "tokens") => plain(sentences[state.text][of][i]);
  const key = (j) => word(j, "keys");
  const percent = (share) => `${Math.round(100 * share)}\u00a0%`;
  const LEAST = 0.005;  // 0 % is not shown
  const layer = (head) => Math.floor(head / heads);
  const number = (axis, n) => numbers?.[axis][n] ?? n;
  const name = (n) => `layer ${number("layer", layer(n))}, head ${number("head", n % heads)}`;
  const shade = (share) => share ** 0.7;  // so that 5 % can be seen
  const button = (attributes, ...inside) =>
    html("button", { type: "button", ...attributes }, ...inside);
  const group = (label, key, buttons, then, columns) =>
    Play.group(label, buttons, state[key], (now) => then(state[key] = now), columns);

  // The sentence: tokens, with curves above the row or beside the column.
  const tokens = each((i) => button({ class: "touch-token",
    onpointerenter: () => query.choose(i) }, html("span"), html("small")));
  const query = group("Query", "query", tokens, () => draw());
  const arcs = each(() => svg("path", { class: "arc" }), isLong ? 0 : size);
  const web = svg("g", { class: "web" });
  const ems = sentences[0].tokens.join("").length * 0.56 + size * 0.8;  // at 16 px a rem
  const sentence = html("div", { class: `touch-sentence${isLong ? " long" : ""}`,
    style: `--ems: ${ems}` }, svg("svg", { "aria-hidden": "true" }, web, arcs), query);
  let curve;
  const measure = () => {
    if (isLong) return draw();
    const down = getComputedStyle(query).flexDirection === "column";
    if (!down) live.before(sentence);
    else if (!short && !numbers && sentence.parentNode !== pair)  // on a phone one of three
      (pair.prepend(sentence), pair.scrollTo(0, 0));
    const [start, extent] = down ? ["offsetTop", "offsetHeight"] : ["offsetLeft", "offsetWidth"];
    const middle = tokens.map((token) => token[start] + token[extent] / 2);
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

  const board = Play.weightMap(size, width, numbers ? 10 : 9, (i) => query.choose(i),
    "The map of the chosen head: queries down, keys across.");
  const title = html("p");
  const fill = () => {
    tokens.forEach((token, i) => { token.firstChild.textContent = word(i); });
    board.put(word, key, weight, shade);
    title.textContent = `${name(parts.head = state.head)}: rows are queries`;
    known.forEach((x) => Play.set(x, { "aria-pressed": `${x.number === state.head}` }));
    measure();
  };

  // All heads, each as a small map, and those whose job has a name.
  const map = (head) => html("canvas", { width, height: size, "data-head": head });
  const small = each((head) => button({ "aria-label": name(head), title: name(head) },
    map(head)), layers * heads);
  let pressed = state.head;  // the mouse looks at others
  const head = group("Head", "head", small, (now) => fill(pressed = now), heads);
  const peek = (now) => ({ pointerType }) => {
    if (pointerType === "mouse" && state.head !== now()) fill(state.head = now());
  };
  small.forEach((button, n) => button.addEventListener("pointerenter", peek(() => n)));
  head.addEventListener("pointerleave", peek(() => pressed));
  const paint = () => place.querySelectorAll("canvas").forEach((canvas) => {
    const pen = canvas.getContext("2d");
    pen.clearRect(0, 0, width, size);
    pen.fillStyle = getComputedStyle(place).getPropertyValue("--touch-blue");
    each((i) => each((j) => {
      pen.globalAlpha = shade(weight(i, j, canvas.dataset.head));
      pen.fillRect(j, i, 1, 1);
    }, width));
  });
  const axis = (of, count) => html("div", { "aria-hidden": "true" },
    each((n) => html("span", {}, `${number(of, n)}`), count));
  const known = jobs.map(([job, number]) => Object.assign(
    Play.button(job, () => head.choose(number)), { number }));
  if (short) known.forEach((button) => button.prepend(map(button.number)));
  const text = group("Last word", "text", sentences.map(({ word }) =>
    button({ class: "touch-button" }, word)), () => paint(fill()));
  const next = () => query.choose((state.query + 1) % size);
  const play = Play.player(() => (next(), state.query + 1 < size), 1200);

  const draw = () => {
    const shares = each((j) => weight(state.query, j), width);
    arcs.forEach((arc, i) => Play.set(arc, { d: curve(state.query, i), style: `--weight: ${shares[i]}` }));
    tokens.forEach(({ style, lastChild }, i) => {
      const share = isSelf ? shares[i] : 0;
      style.setProperty("--shade", shade(share));
      lastChild.textContent = share < LEAST ? "" : percent(share);
    });
    board.mark(state.query);
    const best = each((j) => j, width).sort((a, b) => shares[b] - shares[a]);
    const quoted = (text) => text.replace(/^\W$/, "“$&”");
    const other = (state.text + 1) % sentences.length;
    const told = short && best.find((j) => shares[j] > 0.1 && key(j) === sentences[state.text].keys[j]);
    const main = told || best[0], changed = percent(weight(state.query, main, state.head, other));
    const also = changed === percent(shares[main]) ? "" : ` (with “${sentences[other].word}”: ${changed})`;
    const said = best.slice(0, 3).filter((j) => shares[j] >= LEAST)
      .map((j, n) => `${quoted(key(j))} ${percent(shares[j])}${n ? "" : also}`);
    live.say(short ? `${percent(shares[main])} of “${word(state.query)}”’s attention is on “${key(main)}”${also}.`
      : `${quoted(word(state.query))} → ${said.join(", ") || "nothing"}, in ${name(state.head)}.`);
    expression.show(`minilm.load().run(${JSON.stringify(sentences[state.text].text)})[1][${
      layer(state.head)}, ${state.head % heads}]`);
  };
  parts.watching?.forEach((observer) => observer.disconnect());
  parts.watching = [new ResizeObserver(() => paint(fill())), new MutationObserver(paint)];
  parts.watching[0].observe(sentence);
  parts.watching[1].observe(document.documentElement, { attributeFilter: ["data-theme"] });

  const row = (name, ...inside) => html("div", { class: name }, ...inside);
  const named = row("touch-row touch-jobs", html("span", {}, short ? "Four heads, which are ways to look:" : "Heads with a job:"), known);
  const hint = html("span", { class: "touch-hint" }, short ? "Press one, then tap a word." : "Point at a token, or tap it.");
  const choice = data.own || numbers ? "" : row("touch-row", "… because it was too", text, short ? "" : play, hint);
  const scrolls = numbers && { tabindex: 0, role: "group", "aria-label": "Large map" };
  const pair = html("div", { class: `touch-pair${numbers ? " free" : ""}`,
    style: `--heads: ${heads}; --layers: ${layers}; --keys: ${width}` },
    row("", html("p", {}, `${layers} layers down, ${heads} heads across`),
      row("touch-heads", axis("head", heads), axis("layer", layers), head),
      numbers ? "" : named), html("div", scrolls, title, board));
  const all = [row("touch-stage", choice, sentence, live),
    ...(short ? [named] : [pair, ...(numbers ? [] : [expression])])];
  return window.Sentence?.typed(parts, all, sentences[0].text, (own) =>
    build({ ...data, ...own }, parts)) ?? all;
}, { title: "Attention in a sentence", reserve: [110, 96], instead: true });
