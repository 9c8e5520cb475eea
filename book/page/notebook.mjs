// The chapter's notebook with the answers of its page, and answers from one.
//
// A stub on the page has no docstring, which is the task: the page has it as
// text. A notebook's cell gets it again, and gives an answer without it.
const DOCSTRING = /^ *r?"""[^]*?"""\n(?:\n(?= *def ))?/gm;
const BEGUN = /^\s*r?["']/;

const textOf = ({ source }) => [source].flat().join("");

function exerciseOf({ cell_type: kind, metadata }) {
  const about = (kind === "code" && metadata.nbgrader) || {};
  return about.solution && !about.grade ? about.grade_id : null;
}

// Each docstring of a stub, with the signature above it.
function tasks(stub) {
  return [...stub.matchAll(DOCSTRING)].map(({ 0: docstring, index }) => {
    const above = stub.slice(0, index);
    return [above.slice(above.search(/^ *(?:def|class) (?![^]*^ *(?:def|class) )/m)), docstring];
  });
}

export function withTask(answer, stub) {
  for (const [signature, docstring] of tasks(stub)) {
    const at = answer.indexOf(signature) + signature.length;
    const isThere = answer.includes(signature) && !BEGUN.test(answer.slice(at));
    if (isThere) answer = answer.slice(0, at) + docstring + answer.slice(at);
  }
  return answer;
}

export function withoutTask(source, stub) {
  for (const [, docstring] of tasks(stub)) source = source.replace(docstring, "");
  return source;
}

// The download that the page has at its head.
const address = () => document.querySelector("a.btn-download-source-button").href;
const fetched = async () => (await fetch(address())).json();

// answers: texts by exercise.
export async function download(answers) {
  const notebook = await fetched();
  for (const cell of notebook.cells) {
    const text = answers.get(exerciseOf(cell));
    if (text !== undefined) cell.source = withTask(text, textOf(cell));
  }
  const file = new Blob([JSON.stringify(notebook, null, 1), "\n"], { type: "application/x-ipynb+json" });
  const href = URL.createObjectURL(file);
  const name = address().split("/").pop();
  Object.assign(document.createElement("a"), { href, download: name }).click();
  setTimeout(URL.revokeObjectURL, 60_000, href);
}

// The answers in a notebook of a reader's, texts by exercise: those of which
// this chapter has a stub that they differ from.
export async function opened(file) {
  const [mine, given] = await Promise.all([file.text().then(JSON.parse), fetched()]);
  const stubs = new Map(given.cells.map((cell) => [exerciseOf(cell), textOf(cell)]));
  const answers = new Map();
  for (const cell of mine.cells) {
    const stub = stubs.get(exerciseOf(cell) ?? "");
    const text = textOf(cell);
    if (stub && text.trim() && text.trim() !== stub.trim()) {
      answers.set(exerciseOf(cell), withoutTask(text, stub));
    }
  }
  return answers;
}
