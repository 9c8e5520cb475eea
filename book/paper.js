// One document of all pages, to be printed by book/paper.py.

const DOCSTRING = /(\s*<span class="sd">[^<]*<\/span>)+/g;
const ROOM = "notebooks/museum-"; // one below the other, under the museum's name

// A page as HTML, and its answers. Every id begins with the page's name.
function gather(page, pages) {
  const article = document.querySelector("article.bd-article");
  const all = (selector) => [...article.querySelectorAll(selector)];
  const unwanted = ".headerlink, .exercise-hint, .touch, iframe, .copybtn, " +
    ".sd-summary-state-marker, script, details.hide.above-input, .begin, " +
    ".tag_check, details.values, " + // nobody runs it, or compares, on paper
    ".chapter, #museum-index details"; // the contents are one page before
  for (const one of all(unwanted)) one.remove();
  for (const one of all("[id]:not(svg [id])")) one.id = `${page}--${one.id}`;
  for (const image of all("img")) Object.assign(image, { src: image.src, loading: "eager" });
  const root = new URL("../".repeat(page.split("/").length - 1) || "./", location);
  for (const link of all("a[href]")) {
    const [address, place = ""] = link.href.split("#");
    const name = address.replace(root, "").replace(/\.html$/, "");
    if (pages.includes(name)) link.setAttribute("href", `#${name}--${place}`);
    else if (address.startsWith("file:")) link.removeAttribute("href");
  }
  const answers = all("details.sd-dropdown").map((box, i) => {
    const id = `answer-${page}-${i}`;
    const [summary, content] = [box.querySelector("summary"), box.querySelector(".sd-card-body")];
    const solution = box.matches(".exercise-solution");
    const card = solution && all(".exercise-card").findLast(
      (x) => x.compareDocumentPosition(box) & Node.DOCUMENT_POSITION_FOLLOWING);
    const title = card ? card.querySelector("code").outerHTML : summary.innerHTML;
    box.outerHTML = `<p class="asked">${solution ? "" : summary.innerHTML}
      <a href="#${id}">${solution ? "Solution" : "Answer"}: page ${number(id)}</a></p>`;
    const html = content.innerHTML.replace(DOCSTRING, ""); // it is the task's text
    return `<section id="${id}"><h3>${title}</h3>${solution ? html : content.innerHTML}</section>`;
  });
  const titles = all("h1, h2").map((x) => ({
    level: x.tagName, html: x.innerHTML,
    id: x.tagName === "H1" ? `${page}--` : x.closest("section").id,
  }));
  return { page, html: article.innerHTML, titles, answers };
}

const number = (id) => `<span class="page-number" data-of="${id}">000</span>`;

function assemble(gathered, captions, sizes) {
  const entry = ({ id, html, level }) =>
    `<li class="${level}"><a href="#${id}">${html}</a>${number(id)}</li>`;
  let at = 0;
  const contents = captions.map((caption, i) => {
    const mine = gathered.slice(at, at += sizes[i]).flatMap((x) => x.titles);
    return `${caption && `<p class="part">${caption}</p>`}<ul>${mine.map(entry).join("")}</ul>`;
  });
  const answered = gathered.filter((x) => x.answers.length);
  const answers = answered.map((x) =>
    `<h2>${x.titles[0].html}</h2>${x.answers.join("")}`).join("");
  // Every page has the title of its chapter at the top, by a style of its own.
  const plain = (html) => Object.assign(document.createElement("p"), { innerHTML: html }).textContent;
  const heads = new Map();
  const sheet = (id, html, title, kind = "") => {
    const text = JSON.stringify(plain(title));
    if (!heads.has(text)) heads.set(text, `sheet-${heads.size}`);
    return `<section class="sheet ${kind}" id="${id}" style="page: ${heads.get(text)}">${html}</section>`;
  };
  const kinds = { "book/api/": "small columns", "book/glossary": "small columns",
    "book/bibliography": "small columns", "notebooks/museum": "small columns",
    "book/claims": "small", "book/for-teachers": "small", "book/mistakes": "small" };
  const kind = (page) => Object.entries(kinds).find(([start]) => page.startsWith(start))?.[1];
  let head;
  const chapters = gathered.map((x) => {
    if (!x.page.startsWith(ROOM)) head = x.titles[0].html;
    return sheet(`${x.page}--`, x.html, head, kind(x.page));
  }).join("");
  const last = entry({ id: "answers", html: "Answers", level: "H1" });
  const logo = document.querySelector(".navbar-brand img").outerHTML;
  const title = document.title.split(" — ").at(-1);
  document.documentElement.dataset.theme = "light";
  document.title = title;
  document.body.className = "on-paper";
  const page = Object.assign(document.createElement("div"), { innerHTML: gathered[0].html });
  const picture = new URL("../_static/front-page.png", location);
  document.body.innerHTML = `<article class="bd-article">
    <section class="cover"><h1>${title}</h1><p class="about">${page.querySelector("p").innerHTML}</p>
      <figure><img src="${picture}" alt="One trained head reads one sentence"></figure>
      <p class="end">${logo}</p></section>
    ${sheet("contents", `<nav><h1>Contents</h1>${contents.join("")}<ul>${last}</ul></nav>`, "Contents")}
    ${chapters}${sheet("answers", `<h1>Answers</h1>${answers}`, "Answers", "small")}</article>`;
  const style = [...heads].map(([text, name]) => `@page ${name} { @top-left {
    content: ${text}; font: italic 8.5pt sans-serif; color: #444; } }`).join("");
  document.head.append(Object.assign(document.createElement("style"), { textContent: style }));
}

function fill(pages) {
  for (const place of document.querySelectorAll(".page-number")) {
    const { of } = place.dataset;
    const page = pages[of] ?? pages[encodeURIComponent(of)];
    if (!page) throw new Error(`nothing stands at ${of}`);
    place.textContent = page;
  }
}
