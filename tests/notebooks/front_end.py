"""A learner's JupyterLab, as far as a kernel notices it.

It sends the ids of cells, stores outputs with their metadata, obeys
``set_next_input``, and stops "Run All" at an error.
"""

import copy
import os
import re
from pathlib import Path

import jupyter_client
import nbformat

from attn.exercises import cells, ran, saved, sources
from attn.exercises.answers import digest
from attn.grading.learner import cards, progress, session
from attn.publishing import notebooks

EXERCISE = "mask-causal"
NAME = "causal"
CHECK = f"check-{EXERCISE}"
_CODE = r"(?ms)^## (\w+)\n```python\n(.*?)\n```"
_LIST = r"(?ms)^## ([^\n]+)\n\n```\n(.*?)\n```"
_ORDERS = Path(__file__).with_name("orders.md").read_text("utf-8")
TEXTS = {
    name: text.replace("RIGHT", sources.solution(EXERCISE))
    for name, text in re.findall(_CODE, _ORDERS)
} | {"stub": sources.stub(EXERCISE)}
DOES = ("run all", "restart", "revert", "save", "new kernel")
#: By headings: orders, and the sign of the answer that stands.
ORDERS = {
    heading: {order: sign for sign, order in re.findall(r"([✗✓·]) (.+)", part)}
    for heading, part in re.findall(_LIST, _ORDERS)
}


class FrontEnd:
    """A notebook with one exercise, and its kernel.

    Args:
        folder: of the notebook.
        ids: whether the kernel is told the ids of cells.
    """

    def __init__(self, folder, ids=True):
        self.path, self.ids = folder / "mine.ipynb", ids
        self.nb = nbformat.v4.new_notebook()
        self.add("imports", TEXTS["imports"])
        for cell in sources.notebook("mask")["cells"]:
            if EXERCISE in (cells.exercise_id(cell), cells.checked_id(cell)):
                source = "".join(cell["source"])
                self.add(cell["id"], source, metadata=cell["metadata"])
        self.save()
        self.kept = []
        self.manager = jupyter_client.KernelManager()
        env = {k: v for k, v in os.environ.items() if k not in cards._OFF}
        env |= {"JPY_SESSION_NAME": str(self.path), "STOP": "1"}
        self.manager.start_kernel(cwd=str(folder), env=env)
        self.client = self.manager.blocking_client()
        self.client.start_channels()
        self.client.wait_for_ready()
        self.run("imports")
        self.keeps()

    def close(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)

    def does(self, order):
        """Do what ``orders.md`` explains."""
        for words in filter(None, order.split("; ")):
            name, _, text = words.partition(" ")
            name = {"answer": EXERCISE, "check": CHECK}.get(name, name)
            if words in DOES:
                getattr(self, words.replace(" ", "_"))()
            elif name == "-":
                text = {"answer": EXERCISE}.get(text, text)
                del self.nb.cells[self.at(text)]
            else:
                self.write(name, text)

    def write(self, name, text):
        name, at = name.lstrip("^"), 1 if name[0] == "^" else None
        if name not in [x.id for x in self.nb.cells]:
            self.add(name, "", at)
        if text:
            self.cell(name).source = TEXTS[text[2:]]
        if text[:1] != ":":
            self.run(name)

    def at(self, name):
        return [x.id for x in self.nb.cells].index(name)

    def cell(self, name):
        return self.nb.cells[self.at(name)]

    def add(self, name, source, at=None, metadata=None):
        cell = nbformat.v4.new_code_cell(source, metadata=metadata or {})
        cell.id = name
        self.nb.cells.insert(len(self.nb.cells) if at is None else at, cell)

    def run(self, name):
        """Run a cell; return whether it ended without an error."""
        cell = self.cell(name)
        cell.outputs, reply = self.execute(cell.source, name)
        cell.execution_count = reply["execution_count"]
        for payload in reply["payload"]:
            if payload["replace"]:
                cell.source = payload["text"]
            else:
                new = f"new-{len(self.nb.cells)}"
                self.add(new, payload["text"], self.at(name) + 1)
        return reply["status"] == "ok"

    def run_all(self):
        for name in [x.id for x in self.nb.cells]:
            if not self.run(name):
                return

    def restart(self):
        self.manager.restart_kernel(now=True)
        self.client.wait_for_ready()
        self.run("imports")
        self.ask("keep(0, with_files=False)")

    def new_kernel(self):
        """Have the kernel forget the exercise: as after a restart."""
        self.ask("back(0, with_files=False)")

    def keeps(self):
        """Remember notebook, kernel and files; return their number."""
        self.kept.append(copy.deepcopy(self.nb))
        return self.ask(f"keep({len(self.kept) - 1})")

    def begins(self, number=0):
        """Begin as it was then; with nothing, when no number is given."""
        self.nb = copy.deepcopy(self.kept[number])
        self.ask(f"back({number})")
        if not self.path.exists():
            self.save()

    def revert(self):
        """Close the notebook without saving, and open it again."""
        self.nb = notebooks.read(self.path)

    def save(self):
        notebooks.write(self.nb, self.path)

    def execute(self, code, name=None, **content):
        """Execute code; return its outputs and the reply."""
        given = {"silent": False, "store_history": True, "allow_stdin": False}
        given |= {"code": code, "user_expressions": {}, "stop_on_error": True}
        sent = self.client.session.msg("execute_request", given | content)
        if self.ids and name:
            sent["metadata"] = {"cellId": name}
        self.client.shell_channel.send(sent)
        mine, outputs, is_idle = sent["header"]["msg_id"], [], False
        while not is_idle:
            message = self.client.get_iopub_msg(timeout=60)
            if message["parent_header"].get("msg_id") == mine:
                about = message["content"]
                is_idle = about.get("execution_state") == "idle"
                if message["msg_type"] in ("stream", "error", "display_data"):
                    outputs.append(nbformat.v4.output_from_msg(message))
        while True:
            reply = self.client.get_shell_msg(timeout=60)
            if reply["parent_header"].get("msg_id") == mine:
                return outputs, reply["content"]

    def ask(self, call):
        """Return what a function of this module returns in the kernel."""
        module = "__import__('tests.notebooks.front_end', fromlist=['x'])"
        asked = {"x": f"{module}.{call}"}
        _, reply = self.execute("", silent=True, user_expressions=asked)
        return eval(reply["user_expressions"]["x"]["data"]["text/plain"])

    def said(self):
        """Run the check, and save; return what it says in plain text."""
        self.does("check; save")
        [output] = self.cell(CHECK).outputs
        return output["data"]["text/plain"]

    def state(self):
        """Everything on which what comes next depends."""
        notes = [
            x.metadata["attn"]
            for c in self.nb.cells
            for x in c.outputs
            if x.get("metadata", {}).get("attn")
        ]
        shown = [[x.get("text"), x.get("refused")] for x in notes]
        texts = [(x.id, x.source) for x in self.nb.cells]
        return repr((texts, shown, self.ask("known()")))


# --- In the kernel -----------------------------------------------------------


FILES = Path(".attn/progress.json"), Path("mine.ipynb")
_kept = {}


def keep(number, with_files=True):
    there = [x for x in FILES if with_files and x.exists()]
    files = {x: (x.read_bytes(), x.stat().st_mtime_ns) for x in there}
    kernel = [*ran._runs], {**session._last}
    _kept[number] = *kernel, ran._shell.user_ns.get(NAME), files
    return number


def back(number, with_files=True):
    ran._runs[:], last, value, files = _kept[number]
    session._last.clear()
    session._last.update(last)
    ran._shell.user_ns.pop(NAME, None)
    if value is not None:
        ran._shell.user_ns[NAME] = value
    for path in FILES if with_files else ():
        path.unlink(missing_ok=True)
        if path in files:
            path.write_bytes(files[path][0])
            os.utime(path, ns=2 * files[path][1:])


def known():
    """What the kernel and its folder know of the exercise."""
    names = ran._shell.user_ns
    standing, value = ran.standing(NAME, names), names.get(NAME)
    answer, told = (standing.run, standing.failed), {}
    for x in ran._runs:
        if x.cell not in (None, "imports", CHECK):
            told.pop(x.cell, None)
            told[x.cell] = digest(x.text), x.error
    entry = progress.load().get(EXERCISE, {})
    facts = ("attempts", "kept", "passed", "right", "answer", "at")
    file = saved.read(names)
    entry |= {x: bool(entry.get(x)) for x in facts}
    return (
        [x and (x.cell, digest(x.text)) for x in answer],
        [*told.items()],
        value is None,
        getattr(value, session._OWN, value) is None,
        hasattr(value, "__attn_reference__"),
        entry,
        [x and (file.has_lost(x), file.lacks(x)) for x in answer],
        EXERCISE in session._last,
    )
