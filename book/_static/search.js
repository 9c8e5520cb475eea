// The search page. book/ext/attn_book/search.py says how often each section, term
// of the glossary and function has which word. What has all words comes first,
// where they are rare and where they are the title; chapters before what is
// about them.
const KINDS = [ // of pages: what a result is worth, what more if it is called as asked
  [/^notebooks\/\d/, 1, 90], [/glossary$/, 0.9, 60], [/api\//, 0.6, 3], [/./, 0.5, 0]];
const SMALL = /^(\d+|what|how|do|does|i|we|you|can|where|from|an|did|one|my)$/;
const stemmer = new Stemmer();
const words = (text) => splitQuery(text.toLowerCase().replace(/(^|\s)[\d.]+\s/g, " "));
const stems = (text) => words(text).map((word) => stemmer.stemWord(word));

// Two words that differ by one letter: more, fewer, another, or two that changed places.
const near = (a, b) => {
  if (Math.abs(a.length - b.length) > 1) return false;
  let i = 0, j = 0;
  while (i < a.length && a[i] === b[i]) i += 1;
  while (j < Math.min(a.length, b.length) - i && a.at(-1 - j) === b.at(-1 - j)) j += 1;
  const [x, y] = [a.slice(i, a.length - j), b.slice(i, b.length - j)];
  return Math.max(x.length, y.length) < 2 ||
    (x.length === 2 && x[0] === y[1] && x[1] === y[0]);
};

// The words that are sought, by their stems: what no page has is replaced by the
// most frequent word that begins with it, or is a letter from it.
const understood = (query) => {
  const { places, terms } = Search._index, changed = new Map();
  const titles = new Set(places.flatMap(([, , title]) => words(title)));
  const known = (word) => terms[stemmer.stemWord(word)];
  const often = (word) => known(word)?.length ?? 0;
  const asked = words(query).filter((word) => !stopwords.includes(word) && !SMALL.test(word));
  const found = asked.map((word) => {
    if (known(word) || word.length < 4) return word;
    const all = [...titles, ...Object.keys(terms)].filter(often);
    const other = [(x) => x.startsWith(word), (x) => near(x, word)].map((fits) =>
      all.filter(fits).sort((a, b) => often(b) - often(a))[0]).find(Boolean);
    if (other) changed.set(word, other);
    return other ?? word;
  });
  const pairs = found.slice(1).map((word, i) => found[i] + word); // flash attention
  return { changed, found: new Set(found.map((x) => stemmer.stemWord(x))),
    pairs: pairs.filter(known).map((x) => stemmer.stemWord(x)) };
};

Search._performSearch = (query) => {
  const { docnames, filenames, titles, places, terms } = Search._index;
  const { changed, found, pairs } = understood(query);
  for (const [word, other] of changed) {
    const line = document.createElement("p");
    line.textContent = `No page has “${word}”. These have “${other}”.`;
    Search.output.before(line);
  }
  const mean = places.reduce((sum, place) => sum + place[3], 0) / places.length;
  const rarity = (stem) => { // what is in one or two places says little of them
    const count = (terms[stem]?.length ?? 0) / 2;
    return Math.min(4, Math.log(1 + places.length / (1 + count)), 0.8 * count);
  };
  const sum = (all) => all.reduce((x, y) => x + y, 0);
  const whole = sum([...found].map(rarity));
  const said = new Map(), pages = new Map(); // what a place, a page says: by stems
  const add = (map, key, stem, amount) => {
    if (!map.has(key)) map.set(key, new Map());
    map.get(key).set(stem, (map.get(key).get(stem) ?? 0) + amount);
  };
  const often = new Map(); // "In the wild" is in every chapter
  for (const [, , title] of places) often.set(title, (often.get(title) ?? 0) + 1);
  const most = new Map(); // how often a stem is on the page that has it most often
  for (const stem of [...found, ...pairs]) {
    const counts = terms[stem] ?? [];
    for (let i = 0, at = 0; i < counts.length; i += 2) {
      at += counts[i];
      const times = counts[i + 1], [page, , , length] = places[at];
      add(said, at, stem, times * 2.2 / (times + 0.5 + 0.7 * length / mean));
      if (/^notebooks\/\d/.test(docnames[page])) add(pages, page, stem, times);
    }
    most.set(stem, Math.max(1, ...[...pages.values()].map((x) => x.get(stem) ?? 0)));
  }
  for (const page of pages.keys()) { // a chapter is a result, too
    const top = places.findIndex(([own, anchor]) => own === page && !anchor);
    if (!said.has(top)) said.set(top, new Map());
  }
  const results = [...said].map(([at, own]) => {
    const [page, anchor, title] = places[at], name = docnames[page];
    const [, worth, bonus] = KINDS.find(([kind]) => kind.test(name));
    const inTitle = stems(title), both = inTitle.filter((x) => found.has(x) || pairs.includes(x));
    const heading = sum(both.map(rarity)) * both.length / (inTitle.length || 1);
    const about = [...pages.get(page) ?? []].map(([stem, times]) => rarity(stem) * times / (most.get(stem) + 3));
    const has = anchor ? own : pages.get(page) ?? own;
    const share = Math.min(1, sum([...has.keys()].map(rarity)) / whole);
    let score = sum([...own].map(([stem, weight]) => rarity(stem) * weight)) + 1.5 * heading +
      (anchor ? 1 : 3) * sum(about);
    score *= share ** 1.5 * worth * (anchor && (often.get(title) > 4 || /^Exercise/.test(title)) ? 0.8 : 1);
    const bare = [title.replace(/ \(.*|^Exercise: /g, ""), title.split(".").pop()];
    if (bare.some((x) => stems(x).join(" ") === [...found].join(" "))) score += bonus;
    const shown = !anchor ? titles[page] : /api\//.test(name) ? title : `${titles[page]} › ${title}`;
    return [name, shown, anchor && `#${anchor}`, null, score, filenames[page], page, both.length, often.get(title) < 5];
  }).sort((a, b) => b[4] - a[4]);
  // A chapter leads to its best section, where its own title has not every word.
  for (const result of results) {
    const [, , anchor, , score, , page, titled, own] = result;
    const section = !anchor && titled < found.size && pages.has(page) &&
      results.find((x) => x[6] === page && x[2] && x[8]);
    if (section) Object.assign(result, { 1: section[1], 2: section[2], 4: Math.max(score, section[4]) });
    if (section) section[2] = "gone";
  }
  results.sort((a, b) => b[4] - a[4]);
  // A page is there by its best place, and again where another is as good.
  const best = new Map();
  const kept = results.filter(([, , anchor, , score, , page]) => {
    if (anchor === "gone") return false;
    const before = best.get(page) ?? [];
    best.set(page, [...before, score]);
    return !before.length || (before.length < 3 && score > 0.75 * before[0]);
  });
  return kept.slice(0, 40).reverse(); // the last is shown first
};

// Excerpts quote the text, not the code and its output.
Search.htmlToText = (html, anchor) => {
  const page = new DOMParser().parseFromString(html, "text/html");
  const unread = ".cell_input, .cell_output :is(pre, table), .highlight, .drawn, " +
    ".katex-mathml, .headerlink, summary, script, style";
  for (const part of page.querySelectorAll(unread)) part.remove();
  const found = page.getElementById(anchor.slice(1)) ?? page.querySelector(".bd-article");
  // A term of the glossary, or a function, is quoted with what it means.
  const meaning = found.matches("dt") ? found.nextElementSibling.textContent : "";
  return (found.matches(".sig") ? meaning : meaning ? `${found.textContent}: ${meaning}` : found.textContent)
    .replace(/\s+/g, " ");
};

// A page opened as a file may not read the others.
if (location.protocol === "file:") {
  DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
  document.addEventListener("DOMContentLoaded", () => {
    const line = document.createElement("p");
    line.textContent = "The results have no excerpts, because the book is " +
      "opened from a file. After “make serve” they have.";
    document.querySelector("#search-results").before(line);
  });
}
