// One Python, in a worker: it starts from the files beside this one, then
// answers one message after the other. engine.mjs is at the other end.
import { lock } from "./built.mjs";
import { loadPyodide } from "./pyodide/pyodide.mjs";

// Memory that a large answer took is never given back: then a new worker starts.
const MOST = 2 ** 28; // bytes

// An answer reaches all of the worker (import js): what follows needs none of it.
const { fetch } = self, postMessage = self.postMessage.bind(self);
self.close = DedicatedWorkerGlobalScope.prototype.close = () => {};
const at = (name) => new URL(name, import.meta.url).href;

/** The bytes of a file of this folder, unpacked; the page hears of each part. */
async function load(name) {
  const parts = [];
  const soon = (promise) => Promise.race([promise, new Promise((_, fail) =>
    setTimeout(fail, 30_000, new Error("nothing came for 30 s")))]);
  try {
    // In a book that was built again a name has other bytes: the server is asked.
    const response = await soon(fetch(at(name), { cache: "no-cache" }));
    if (!response.ok) throw new Error(response.status);
    const reader = response.body.getReader();
    for (let part; (part = (await soon(reader.read())).value);) {
      postMessage({ bytes: part.length });
      parts.push(part);
    }
  } catch ({ message }) {
    throw new Error(`${name} of this page could not be loaded (${message})`);
  }
  // Some servers call .gz a coding, and the browser has unpacked it.
  const packed = parts[0]?.[0] === 0x1f && parts[0]?.[1] === 0x8b;
  let stream = new Blob(parts).stream();
  if (packed) stream = stream.pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// Where one of its own files is missing, Pyodide waits for ever.
let fail;
const failed = new Promise((_, reject) => { fail = reject; });
const awaited = (file) => file.catch((error) => { fail(error); throw error; });

// Pyodide fetches two files by itself. Its code is packed here: not every
// server packs it, and it is the largest file.
self.fetch = async (address) => {
  const name = String(address).split("/").at(-1);
  const code = name.endsWith(".wasm");
  const headers = { "Content-Type": code ? "application/wasm" : "application/zip" };
  const bytes = await awaited(load(`pyodide/${name}${code ? ".gz" : ""}`));
  return new Response(bytes, { headers });
};

// The snapshot is the memory of a Python that has imported all this page needs
// (snapshot.mjs). Of its files nothing is left: page.zip has what it may read.
const memory = load("snapshot.gz");
memory.catch(fail); // at once: Pyodide asks for it late
const { instantiateStreaming } = WebAssembly;
WebAssembly.instantiateStreaming = async (...given) => {
  const made = await awaited(instantiateStreaming(...given));
  // Pyodide puts no snapshot into a heap that is smaller (its issue 6254).
  const { memory: heap } = made.instance.exports;
  const lacking = (await memory).length - heap.buffer.byteLength;
  if (lacking > 0) heap.grow(Math.ceil(lacking / 2 ** 16));
  return made;
};
const starting = Promise.race([failed, Promise.all([
  loadPyodide({
    indexURL: at("pyodide/"),
    lockFileContents: lock, // of no package
    _loadSnapshot: memory,
    stdin: () => null,
    stdout: () => {},
    stderr: () => {},
  }),
  load("page.zip"),
])]).then(([python, archive]) => {
  python.unpackArchive(archive, "zip", { extractDir: "/page" });
  const judge = python.globals.get("answer");
  return { judge, full: () => python._module.HEAPU8.length > MOST };
});
starting.then(() => postMessage({ ready: true }), (error) => postMessage({ failed: error.message }));

const known = new Set(); // the exercises whose data Python has
const files = new Map(); // of exercises: one that has come needs no network
const dataOf = (exercise) => {
  const file = files.get(exercise) ?? load(`data/${exercise}.json.gz`);
  files.set(exercise, file);
  file.catch(() => files.delete(exercise));
  return file;
};
let last = Promise.resolve();
self.addEventListener("message", ({ data }) => {
  if (data.preload) data.preload.forEach(dataOf);
  else last = last.then(() => answer(data));
});

async function answer({ id, what, given: [exercise, ...given] }) {
  let data;
  try {
    if (!known.has(exercise))
      data = new TextDecoder().decode(await dataOf(exercise));
  } catch (error) {
    return postMessage({ id, missing: error.message });
  }
  postMessage({ id, judging: true });
  try {
    const { judge, full } = await starting;
    const answer = judge(what, exercise, data, ...given);
    postMessage({ id, answer, full: full() });
    known.add(exercise);
  } catch (error) { // the judge catches all that an answer raises
    postMessage({ id, broken: String(error.message).trim().split("\n").at(-1) });
  }
}
