// The line below an editor: an expression with the reader's function.
import { make } from "./card.mjs";

const LINE = `
<div role="log" class="answer-log" aria-label="What was tried" tabindex="0" hidden></div>
<label><span aria-hidden="true">&gt;&gt;&gt;</span>
<input name="expression" spellcheck="false" autocapitalize="off" autocorrect="off" enterkeyhint="go"></label>`;

// evaluate: calls back with {text, printed, error}, when there is an answer.
export function makePrompt(name, evaluate) {
  const form = make("form", "answer-try");
  form.autocomplete = "off";
  form.innerHTML = LINE;
  const log = form.querySelector("div");
  const field = form.elements.expression;
  field.ariaLabel = `Try it: an expression with your ${name}`;
  field.placeholder = `try it: ${name}(…)`;

  const before = []; // as at any prompt, the arrows bring it back
  let at = 0;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const expression = field.value.trim();
    if (expression) evaluate(expression, ({ text, printed, error }) => {
      at = before.push(expression);
      if (field.value.trim() === expression) field.value = "";
      log.hidden = false;
      log.append(make("code", "", `>>> ${expression}`));
      for (const x of [printed, text]) if (x) log.append(make("pre", "", x.trimEnd()));
      if (error) log.append(make("pre", "wrong", error));
      log.scrollTop = log.scrollHeight;
    });
  });
  field.addEventListener("keydown", (event) => {
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    at = Math.max(0, Math.min(before.length, at + step));
    field.value = before[at] ?? "";
  });
  return form;
}
