// The field above the figure of MiniLM's heads: it loads the model when it is
// asked to, and gives the figure a sentence of the reader's own as one types.
Sentence.typed = (parts, all, example, build) => {
  if (parts.field) return all;
  const { html } = Play;
  let shown = all;
  const show = (own) => {  // what both have, such as the read-out, stays
    const next = build(own);
    shown[0].before(...next);
    shown.filter((part) => !next.includes(part)).forEach((part) => part.remove());
    shown = next;
  };
  const note = html("p", { class: "sentence-note", role: "status" });
  const say = (...words) => { note.textContent = words.filter(Boolean).join(" "); };

  const megabytes = `${Math.round(Sentence.SIZE / 1e6)} MB`;
  const bar = html("progress", { max: 1, "aria-label": "The model’s file" });
  const pen = Play.svg("svg", { class: "icon", viewBox: "0 0 16 16", "aria-hidden": "true" },
    Play.svg("path", { d: "M2 14l1-4 8-8 3 3-8 8zM9.5 3.5l3 3" }));
  const open = Play.button([pen, `Type your own sentence (${megabytes})`], async () => {
    open.replaceWith(bar);
    say(`Loading the model, ${megabytes}, once.`);
    try {
      await Sentence.load((share) => { bar.value = share; });
    } catch {
      say("The model could not be loaded. (A copy of the book may be without it.)",
        "The book’s own sentences need no file.");
      return bar.replaceWith(open);
    }
    parts.field.classList.add("open");
    parts.field.replaceChildren(form, note);
    input.select();
    read();
  });

  const PRONOUN = /^(it|he|she|they|him|her|them|i|you|we)$/;
  const quoted = (words) => words.map((word) => `“${word}”`).join(", ");
  const read = () => {
    const text = input.value.trim(), begun = performance.now();
    if (!text) return show({}), say("Until you type a sentence, this is one of the book’s.");
    const { tokens, cut, unknown, left } = Sentence.tokenize(text);
    if (unknown.length) {
      return say(`The page has no piece of a word for ${quoted(unknown)}, only the`,
        "letters and signs of English: leave it out, and it reads the rest.");
    }
    const shares = Sentence.attend(tokens).flatMap((head) =>
      head.flatMap((row) => Array.from(row, (share) => Math.round(255 * share))));
    const took = Math.max(1, Math.round(performance.now() - begun));
    const query = Math.max(1, tokens.findLastIndex((token) => PRONOUN.test(token)));
    show({ own: true, layers: Sentence.LAYERS, query, sentences: [{ text, tokens, shares }] });
    say(cut.length && `Not among the commonest pieces, so read in parts: ${
      quoted(cut.map(({ pieces }) => pieces.join(" ")))}.`,
    left && `It is cut here: the page reads ${tokens.length} tokens at most, and ${
      left} more ${left === 1 ? "word or sign" : "words and signs"} did not fit.`,
    `Computed in this page in ${took} ms; what you type stays in it.`);
  };
  let later;
  const input = html("input", { type: "search", maxlength: 300, value: example,
    autocomplete: "off", autocapitalize: "sentences", enterkeyhint: "done",
    oninput: () => { clearTimeout(later); later = setTimeout(read, 200); } });
  const EXAMPLES = ["I love this book, but it is long.",
    "The students lost because they were young."];
  const tries = EXAMPLES.map((text) => Play.button(text, () => {
    input.value = text;
    read();
  }));
  const form = html("form", { onsubmit: (event) => {
    event.preventDefault();
    read();
  } }, html("label", {}, "Your sentence", input), html("div", {}, "Or", tries));
  parts.field = html("div", { class: "sentence-field" }, open, note);
  return [parts.field, ...all];
};
