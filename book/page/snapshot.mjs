// Keep the memory of a Python that is ready to judge: worker.mjs restores it.
//
//   node snapshot.mjs <pyodide's folder> <page.zip> <an exercise's data> <to>
import { readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { gunzipSync } from "node:zlib";

// Node.js prints all of the line that fails, and lines here have a megabyte.
process.on("uncaughtException", (error) => {
  console.error(error.message);
  process.exit(1);
});

const [folder, archive, sample, to] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(`${folder}/pyodide.mjs`));
const python = await loadPyodide({ indexURL: folder, _makeSnapshot: true });
python.unpackArchive(new Uint8Array(readFileSync(archive)), "zip", { extractDir: "/page" });
python.runPython(`
import gc
import json
import sys

sys.path.append("/page")
from attn.page import judge

known = {}

def answer(what, exercise, data, *given):
    if data:
        known[exercise] = json.loads(data)
    found = getattr(judge, what)(known[exercise], *given)
    return json.dumps(judge.shown(found) if what == "check" else found)
`);

// What only the first answers would import, and keep, is in it too.
const data = gunzipSync(readFileSync(sample)).toString();
const { name, stub } = JSON.parse(data);
const answer = python.globals.get("answer");
for (const source of ["def", stub, `def ${name}(*_): return 0`, `def ${name}(*_): return 1 / 0`])
  answer("check", "sample", data, source);
answer.destroy();
python.runPython("known.clear(); gc.collect()");

// Memory that was freed is not empty: it would be a fifth of the file.
const { HEAPU8, _malloc, _free } = python._module;
const end = (memory) => memory.findLastIndex((byte) => byte) + 1;
const top = end(HEAPU8), held = [];
for (let size = 2 ** 20; size >= 32; size /= 2) {
  let at;
  while ((at = _malloc(size)) && at + size < top) {
    HEAPU8.fill(0, at, at + size);
    held.push(at);
  }
  _free(at);
}
held.forEach((at) => _free(at));

const memory = python.makeMemorySnapshot();
writeFileSync(to, memory.subarray(0, end(memory)));
