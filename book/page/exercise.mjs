// An exercise on the page: an editor in place of its stub, what can be done
// with the answer, and what the check says of it.
import { age, make, makeCard, spoken } from "./card.mjs";
import { makeEditor } from "./editor.mjs";
import * as engine from "./engine.mjs";
import * as kept from "./kept.mjs";
import { makePrompt } from "./prompt.mjs";

const PANEL = `
<div class="answer-bar">
  <button type="button" class="answer-check">Check</button>
  <button type="button">Reset</button>
  <button type="button">Bring mine back</button>
  <progress max="1" aria-label="Python is loading" hidden></progress>
  <span role="status" class="answer-status"></span>
  <small class="answer-keys">Esc, then Tab, leaves the editor</small>
</div>
<p role="status" class="answer-spoken"></p>
<div class="answer-verdict"></div>`;
const STARTS = "Python starts …";
const NOT_KEPT = "This browser stores nothing: what you write is gone with the page. " +
  "Download your notebook, below the last exercise.";
const IS_MAC = /Mac|iP/.test(navigator.platform);

// page: ticks an exercise, and has what a card leads to.
export function makeExercise(cell, id, title, page) {
  const name = id.slice(id.indexOf("-") + 1);
  const stub = cell.querySelector("pre").textContent.trimEnd();
  let { text, old } = kept.answer(id) ?? { text: stub, old: null };

  const frame = make("div", "highlight");
  const panel = make("div", "answer");
  panel.innerHTML = PANEL;
  const [bar, spokenOf, shown] = panel.children;
  const [button, reset, back, progress, status, keys] = bar.children;
  keys.id = `keys-${id}`;
  const say = (words) => { status.textContent = words; };

  // Where else to write it, and what Jupyter would print, are for those who
  // have no editor.
  cell.querySelector(".cell_input").hidden = true;
  for (let x = cell.nextElementSibling; x?.matches(".exercise-place, .tag_check"); x = x.nextElementSibling) x.hidden = true;
  cell.append(make("div", "cell_input answer-editor", make("div", "highlight-python", frame)), panel);

  const editor = makeEditor(frame, {
    text, label: `Your ${name}, in Python`, describedBy: keys.id,
    onSubmit: () => check(),
    onChange: () => {
      age(shown.firstElementChild);
      save();
    },
  });
  const save = () => {
    if (!kept.keep(id, editor.text, old)) say(NOT_KEPT);
    back.hidden = old === null;
  };
  back.hidden = old === null;

  // Another text; the one that was there can be brought back.
  const put = (text) => {
    const before = editor.text;
    if (before !== text && before !== stub) old = before;
    editor.text = text;
    save();
  };
  reset.addEventListener("click", () => {
    put(stub);
    say("The empty task is back.");
  });
  back.addEventListener("click", () => {
    text = old;
    old = null;
    put(text);
    if (back.hidden) reset.focus();
    say("Your text is back.");
  });

  // Python runs one answer at a time. After a second it can be stopped; what
  // goes wrong is said in a line.
  let isRunning = false, canStop = false;
  const label = () => {
    button.textContent = canStop ? "Stop" : "Check";
    if (!kept.isStarted()) button.append(" ", make("small", "", `loads ${engine.megabytes} MB`));
  };
  const start = async () => {
    const slow = setTimeout(say, 100, STARTS);
    try {
      await engine.start((part) => Object.assign(progress, { hidden: false, value: part }));
      kept.noteStart();
      for (const size of document.querySelectorAll(".answer-check small")) size.remove();
    } finally {
      clearTimeout(slow);
      progress.hidden = true;
      if (status.textContent === STARTS) say("");
    }
  };
  const run = async (doing, act) => {
    if (isRunning) return;
    isRunning = true;
    button.ariaDisabled = "true";
    let slow;
    try {
      await start();
      say(doing);
      slow = setTimeout(allowStop, 1000, true);
      await act();
      say("");
    } catch (error) {
      say(error.message);
    }
    clearTimeout(slow);
    isRunning = false;
    allowStop(false);
  };
  const allowStop = (can) => {
    canStop = can;
    button.ariaDisabled = "false";
    label();
  };

  const check = () => run("Checking …", async () => {
    const text = editor.text;
    const verdict = await engine.check(id, text);
    const card = makeCard(verdict, id, title);
    if (editor.text === text) editor.mark(verdict.line);
    else age(card);
    if (verdict.state === "right") page.tick(id);
    card.append(...page.next(id, verdict.state));
    shown.replaceChildren(card);
    spokenOf.textContent = spoken(verdict);
    card.scrollIntoView({ block: "nearest" });
    dispatchEvent(new Event("resize")); // custom.js looks at what scrolls
  });
  const stop = () => { say("Stopping …"); requestAnimationFrame(() => setTimeout(() => canStop && engine.stop())); };
  button.addEventListener("click", () => canStop ? stop() : check());
  button.title = `${IS_MAC ? "Cmd" : "Ctrl"}+Enter`;
  button.setAttribute("aria-keyshortcuts", `${IS_MAC ? "Meta" : "Control"}+Enter`);
  panel.append(makePrompt(name, (expression, tell) => run("Running …", async () =>
    tell(await engine.evaluate(id, editor.text, expression)))));

  label();
  cell.addEventListener("focusin", () => {
    if (kept.isStarted()) start().catch(() => {}); // the click will say it
  }, { once: true });
  return {
    get text() { return editor.text; },
    get isChanged() { return editor.text !== stub; },
    put,
    refresh() { // it was changed in another window
      const now = kept.answer(id);
      if (!now || now.text === editor.text) return;
      if (editor.hasFocus) { // both wrote: the other's can be brought back
        old = now.text;
        back.hidden = false;
        return;
      }
      old = now.old;
      editor.text = now.text;
    },
  };
}
