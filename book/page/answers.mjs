// The page answers: each exercise that it can check has an editor, and what a
// reader writes can be taken along as the chapter's notebook.
import { make } from "./card.mjs";
import { preload } from "./engine.mjs";
import { makeExercise } from "./exercise.mjs";
import * as kept from "./kept.mjs";
import { download, opened } from "./notebook.mjs";

const all = (selector) => [...document.querySelectorAll(selector)];
const idOf = (card) => card.querySelector("p > code").textContent;
const exercises = new Map();
const cards = all(".exercise-card");
const [plain] = all("a.btn-download-source-button"); // in the menu of the page's head
const isChapter = plain.href.endsWith(".ipynb"); // or prose, with an exercise in it
const box = (id) => document.getElementsByName(id)[0]; // of ticks.js

const others = {
  tick: (id) => { if (box(id)?.checked === false) box(id).click(); },
  // A right answer leads to the next exercise without a tick, or to the next
  // chapter; any other to the next hint.
  *next(id, state) {
    const here = cards.findIndex((card) => idOf(card) === id);
    if (state !== "right") {
      const hint = hints(cards[here]).find((one) => !one.open);
      if (hint) yield opener(hint);
      return;
    }
    const after = [...cards.slice(here + 1), ...cards.slice(0, here)];
    const open = after.find((card) => !box(idOf(card))?.checked);
    const chapter = document.querySelector("a.right-next");
    if (open) yield make("p", "", "Next: ", leadTo(`#${open.id}`, titleOf(open)), " ", make("code", "", idOf(open)));
    else yield make("p", "", isChapter ? `All ${cards.length} exercises of this chapter are done. Next: ` : "Next: ",
      leadTo(chapter.href, chapter.querySelector(".prev-next-title").textContent));
  },
};
const leadTo = (href, words) => Object.assign(make("a", "", words), { href });

// The words of the heading above, as on Jupyter’s cards.
function titleOf(element) {
  const heading = element.closest("section").querySelector("h1, h2, h3").cloneNode(true);
  for (const part of heading.querySelectorAll(".headerlink, .section-number")) part.remove();
  const words = heading.textContent.trim().replace(/^Exercise: /, "");
  return words[0].toUpperCase() + words.slice(1);
}

function hints(card) {
  const found = [];
  for (let x = card.nextElementSibling; x && !x.matches(".exercise-card"); x = x.nextElementSibling) {
    if (x.matches(".exercise-hint")) found.push(x);
  }
  return found;
}

function opener(hint) {
  const button = make("button", "", hint.querySelector(".sd-summary-text").textContent);
  button.type = "button";
  button.addEventListener("click", () => {
    Object.assign(hint, { hidden: false, open: true });
    hint.querySelector("summary").focus();
    button.parentElement.remove();
  });
  return make("p", "answer-bar", button);
}

const style = Object.assign(document.createElement("link"), {
  rel: "stylesheet", href: new URL("answers.css", import.meta.url).href });
await new Promise((done) => {
  style.addEventListener("load", done);
  document.head.append(style);
});
for (const cell of all(".tag_answers")) {
  const id = idOf(cell.previousElementSibling);
  exercises.set(id, makeExercise(cell, id, titleOf(cell), others));
}
preload([...exercises.keys()]);
kept.changed((id) => exercises.get(id)?.refresh());

// Beside the last exercise: the chapter, to be taken along.
const own = make("section", "answer-notebook");
own.ariaLabel = "Your answers";
own.innerHTML = `<p>What you write on this page is kept in this browser, and sent nowhere.
Take it along as this chapter’s notebook, with your answers in its cells: JupyterLab opens it, and <code>attn check</code> accepts it. Points are counted there.</p>
<p class="answer-bar"><button type="button">Download my notebook</button>
<button type="button">Open a notebook</button>
<input type="file" accept=".ipynb" aria-label="A notebook with answers" hidden>
<span role="status" class="answer-status"></span></p>`;
const [save, open] = own.querySelectorAll("button");
const file = own.querySelector("input");
const say = (words) => { own.querySelector(".answer-status").textContent = words; };
if (isChapter) all(".exercise-solution").at(-1).after(own);
const entry = make("button", "btn btn-sm dropdown-item");
entry.innerHTML = plain.innerHTML;
entry.querySelector(".btn__text-container").textContent = "my notebook";
entry.addEventListener("click", () => save.click());
if (isChapter) plain.parentElement.after(make("li", "", entry));

save.addEventListener("click", () => {
  const texts = [...exercises].filter(([, x]) => x.isChanged).map(([id, x]) => [id, x.text]);
  download(new Map(texts)).then(
    () => say(`With ${count(texts.length)} of yours.`),
    () => say("The chapter’s notebook cannot be loaded: is the book still served?"));
});
open.addEventListener("click", () => file.click());
file.addEventListener("change", async () => {
  try {
    const found = [...await opened(file.files[0])].filter(([id]) => exercises.has(id));
    for (const [id, text] of found) exercises.get(id).put(text);
    say(found.length ? `${count(found.length)} taken in: ${found.map(([id]) => id).join(", ")}.`
      : "No cell of that notebook answers an exercise of this page.");
  } catch {
    say("That file is no notebook.");
  }
  file.value = "";
});
const count = (n) => `${n} answer${n === 1 ? "" : "s"}`;
