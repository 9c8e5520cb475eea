// The card of a verdict, as attn/grading/learner/cards.html has it in Jupyter.
const SIGNS = { right: "✓", wrong: "✗", calm: "·" };
const MARKED = /(?<!`)(`+)(?!`)(.+?)\1|(?<![\w*])\*(\w|\w[^*`]*\w)\*(?![\w*])/g;

export function make(tag, className = "", ...children) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.append(...children);
  return element;
}

// A sentence, of whose Markdown there is `code` and *emphasis*.
export function prose(text) {
  const parts = [];
  let from = 0;
  for (const found of text.matchAll(MARKED)) {
    parts.push(text.slice(from, found.index));
    parts.push(found[2] ? make("code", "", found[2]) : make("em", "", found[3]));
    from = found.index + found[0].length;
  }
  return [...parts, text.slice(from)];
}

// A name keeps its first letter.
const capital = (text, names = []) => /^\p{L}+(?![\w.]| is not on)/u.test(text) && !names.includes(text.split(" ")[0])
  ? text[0].toUpperCase() + text.slice(1) : text;
const sentence = (text) => make("p", "", ...prose(text));

const asItIs = (text) => make("pre", "", text); // code, or numbers

// Paragraphs, and below one another the lines that are indented.
const known = (text) => (text.match(/(?:^[ \t].*\n?)+|^\S.*$/gm) ?? []).map((part) => {
  const indent = Math.min(...(part.match(/^ +(?=\S)/gm) ?? [""]).map((x) => x.length));
  return indent ? asItIs(part.replace(new RegExp(`^ {${indent}}`, "gm"), "").trimEnd()) : sentence(part);
});

function table(rows) {
  const head = ["index", "got", "expected"].map((name) =>
    Object.assign(make("th", "", name), { scope: "col" }));
  const body = rows.map(([name, ...values]) => make("tr", "",
    Object.assign(make("th", "", name), { scope: "row" }),
    ...values.map((value) => make("td", "", value))));
  return make("table", "answer-elements", make("thead", "", make("tr", "", ...head)),
    make("tbody", "", ...body));
}

// A matrix in signs, with a ground for those that are wrong.
function matrix({ name, key, columns, rows }) {
  const cell = (sign) => make("td", "+-x".includes(sign) && sign ? "wrong" : sign === "#" ? "cut" : "", String(sign));
  const lines = [["", columns], ...rows].map(([label, signs]) =>
    make("tr", "", cell(String(label)), ...[...signs].map(cell)));
  const signs = make("table", "", make("tbody", "", ...lines));
  signs.ariaLabel = name;
  return make("div", "answer-grid", make("p", "", key), signs);
}

// What a screen reader says of it.
export function spoken({ word, label, title, question }) {
  return [word, label && `${label}: ${title}` || title, question].filter(Boolean)
    .map((part) => part.replace(/`/g, "").replace(/\.$/, "")).join(". ");
}

// It is of a text that is no longer there.
export function age(card) {
  if (!card || card.matches(".stale")) return;
  card.classList.add("stale");
  card.ariaLabel = `was ${card.ariaLabel}`;
  card.querySelector(".answer-badge").lastChild.insertData(0, " was");
}

export function makeCard(verdict, id, name) {
  const { state, word, title = "", label = "", question = "", condition = "", what = "", more = [], elements = [], grid = null, call = "", printed = "", line = null, tried = [], details = "" } = verdict;
  const sign = make("span", "", SIGNS[state]);
  sign.ariaHidden = "true";
  const parts = [make("p", "answer-head", make("span", "answer-badge", sign, ` ${word}`),
    make("span", "", name), make("code", "", id))];
  const add = (is, ...made) => { if (is) parts.push(...made); };
  add(title, make("p", "answer-title", ...label ? [capital(label), make("br")] : [],
    make("b", "", ...prose(label ? title : capital(title, [id.slice(id.indexOf("-") + 1)])))));
  const asks = question.endsWith("?");
  add(asks, make("p", "answer-question", ...prose(question)));
  add(condition, make("p", "", ...prose(`Wrong when ${condition}`),
    ...what ? [": ", make("b", "", ...prose(what))] : ["."]));
  add(!condition && what, sentence(what));
  add(more.length, asItIs(more.map((x) => x.trim()).join("\n")));
  add(elements.length, make("div", "answer-found", table(elements), ...grid ? [matrix(grid)] : []));
  add(question && !asks, sentence(question));
  add(line, make("p", "", `Line ${line} is marked in the editor.`));
  add(call, make("p", "", "The call that is wrong:"), make("pre", "answer-call", call.trim()));
  add(printed, make("p", "", "What it printed:"),
    Object.assign(make("pre", "answer-printed", printed), { tabIndex: 0 }));
  add(tried.length, make("p", "", `Tried: ${tried.join(" · ")}`));
  add(details, make("details", "", make("summary", "", "All that is known"), ...known(details)));
  const card = make("div", `answer-card ${state}`, ...parts);
  Object.assign(card, { role: "group", ariaLabel: `${word}: ${name}` });
  return card;
}
