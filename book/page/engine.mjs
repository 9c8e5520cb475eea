// Python on the page, for what shows it: one module worker, started when a
// reader first asks for an answer. A worker that hangs cannot be interrupted:
// it is ended, and a new one starts from files that the browser has by now.
import { counted, megabytes } from "./built.mjs";

/** What the first start loads, for the button to say. */
export { megabytes };

// The judge stops an answer after 5 s by itself, but not inside a call of C.
const PATIENCE = 8; // s
const ENDED = "It ended Python itself: does a function call itself without end, or does a " +
  "list grow without end?";

const lost = (what) => `${what}. Is the network there, and is the book still served? ` +
  "Once they are, press the button again.";
let python = null; // the worker, a promise that it is ready, what ends it
let questions = 0;
const waiting = new Map(); // a question's number: what it is, what settles it
const watching = new Set(); // those that show how much has come

/** Why no Python can start in this browser, for the reader; "" where it can. */
export function canRun() {
  if (typeof DecompressionStream !== "undefined" && modules()) return "";
  return "This browser is too old to run Python on a page: Chrome 95, Firefox 114 and " +
    "Safari 16.4 can. In the book's folder, make lab opens the exercise in JupyterLab.";
}

/** Whether a worker may be a module: then the browser reads its `type`. */
function modules() {
  let read = false;
  const options = { get type() { read = true; return "module"; } };
  try {
    new Worker("data:,", options).terminate();
  } catch { /* refused, but its options were read */ }
  return read;
}

/**
 * Start Python, or wait for the one that starts.
 *
 * What the promise rejects with has a message for the reader.
 * @param onProgress is called with the part of all bytes that has come, 0 to 1
 */
export function start(onProgress = () => {}) {
  const reason = canRun();
  if (reason) return Promise.reject(new Error(reason));
  watching.add(onProgress);
  python ??= launch();
  return python.ready.finally(() => watching.delete(onProgress));
}

/** Judge an answer: a promise of the card. */
export const check = (exercise, source) => ask("check", exercise, source);

/** Evaluate an expression below an answer: of text, printed, error and line. */
export const evaluate = (exercise, source, expression) =>
  ask("evaluate", exercise, source, expression);

/** End what runs, whose promise then says so; start another Python, if it had started. */
export const stop = async () => restart("It was stopped", "calm");

function ask(what, ...given) {
  const id = ++questions;
  return new Promise((settle, fail) => {
    const asked = { what, settle, fail };
    waiting.set(id, asked);
    start().then(() => {
      if (!waiting.has(id)) return;
      python.worker.postMessage({ id, what, given });
      watch(asked, 3 * PATIENCE); // others may be before it, and its data must come
    }, (error) => {
      waiting.delete(id);
      fail(error); // of no effect where it was stopped meanwhile
    });
  });
}

/** Have the data of these exercises come once Python is there. */
let wanted = [];
export const preload = (exercises) => { wanted = exercises; };

function launch() {
  const worker = new Worker(new URL("worker.mjs", import.meta.url), { type: "module" });
  const made = { worker };
  made.ready = new Promise((ready, fail) => {
    made.end = (reason) => {
      worker.terminate();
      if (python === made) python = null; // the next question starts another
      fail(new Error(reason));
    };
    worker.onerror = (event) => {
      event.preventDefault();
      if (made.isReady) restart(ENDED, "wrong", event.message);
      else made.end(lost(`Python could not be loaded (${event.message || "a file is missing"})`));
    };
    let come = 0;
    worker.onmessage = ({ data }) => {
      if (data.ready) {
        ready(made.isReady = true);
        worker.postMessage({ preload: wanted });
      }
      else if (data.failed) made.end(lost(data.failed));
      else if (data.id) hear(data);
      else {
        come += data.bytes;
        for (const show of watching) show(Math.min(come / counted, 1));
      }
    };
  });
  made.ready.catch(() => {}); // those that wait hear of it; there may be none
  return made;
}

/** Take what the worker says of one question. */
function hear({ id, judging, missing, broken, answer, full }) {
  const asked = waiting.get(id);
  if (!asked) return; // it was stopped meanwhile
  clearTimeout(asked.timer);
  if (judging) {
    watch(asked, PATIENCE);
  } else if (broken) {
    restart(ENDED, "wrong", broken);
  } else {
    waiting.delete(id);
    if (missing) asked.fail(new Error(lost(missing)));
    else asked.settle(JSON.parse(answer));
    if (full) restart("Its memory was full", "wrong");
  }
}

/** End Python if it has not answered after some seconds. */
function watch(asked, seconds) {
  const reason = `It was stopped after ${seconds} s: is there an endless loop?`;
  asked.timer = setTimeout(restart, seconds * 1000, reason, "wrong");
}

/** Answer all open questions with this, and let another Python start. */
function restart(title, state, ...more) {
  for (const { what, settle, timer } of waiting.values()) {
    clearTimeout(timer);
    settle(what === "check" ? card(title, state, more)
      : { text: "", printed: "", error: title, line: null });
  }
  waiting.clear();
  const old = python;
  old?.end(title);
  if (old?.isReady) python = launch();
  return python?.ready;
}

function card(title, state, more) {
  return { state, word: state === "calm" ? "stopped" : "not right yet", title, more,
    label: "", question: "", condition: "", what: "", elements: [], grid: null,
    call: "", printed: "", line: null, tried: [] };
}
