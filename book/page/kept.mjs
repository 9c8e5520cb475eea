// What a reader writes, by exercise: this browser keeps it, and sends it nowhere.
const PREFIX = "attn-answer-";
const STARTED = "attn-python";
const memory = new Map(); // where nothing can be stored

const read = (key) => {
  try {
    return localStorage.getItem(key);
  } catch {
    return memory.get(key) ?? null;
  }
};
const write = (key, value) => {
  memory.set(key, value);
  try {
    localStorage.setItem(key, value);
    return true;
  } catch {
    return false; // it is full, or not allowed
  }
};

// {text, old}: the answer, and the one that was there before a reset.
export function answer(id) {
  try {
    const { text, old = null } = JSON.parse(read(PREFIX + id));
    return typeof text === "string" ? { text, old } : null;
  } catch {
    return null;
  }
}

// Whether a reload will find it.
export const keep = (id, text, old) => write(PREFIX + id, JSON.stringify({ text, old }));

// Another window has changed an answer.
export const changed = (act) => addEventListener("storage", ({ key }) => {
  if (key?.startsWith(PREFIX)) act(key.slice(PREFIX.length));
});

// Python has been here: the next page need not ask.
export const isStarted = () => read(STARTED) === "started";
export const noteStart = () => write(STARTED, "started");
