// A link to a cell leads to it in a notebook that it opens, too: JupyterLab
// goes there before the cell is drawn, and stays at the top. What has changed,
// or run, is saved, as the file is what is handed in: a check reads it.
(() => {
  const LONGEST = 20_000; // milliseconds, for a long chapter on a slow machine
  const USED = ["wheel", "keydown", "pointerdown"];
  const QUIET = 400; // milliseconds without a change of a text
  const pause = () => new Promise((resume) => setTimeout(resume, 100));

  const land = async (shell, path, name) => {
    let left = false;
    const leave = () => { left = true; };
    for (const event of USED) addEventListener(event, leave, { capture: true });
    for (const end = Date.now() + LONGEST; Date.now() < end && !left; await pause()) {
      const { context, content } = shell.currentWidget ?? {};
      if (context?.path !== path || !content?.widgets?.length) continue;
      const at = content.widgets.findIndex((cell) => cell.model.id === name);
      if (at < 0) continue; // the file is not read yet
      const cell = content.widgets[at];
      if (!cell.node.isConnected) { // not yet: cells are drawn from the first
        cell.dataset.windowedListIndex = `${at}`;
        content.layout.insertWidget(at, cell);
      }
      content.activeCellIndex = at;
      cell.node.scrollIntoView();
      if (content.widgets.slice(0, at).every((x) => x.node.isConnected)) break;
    }
    for (const event of USED) removeEventListener(event, leave, { capture: true });
  };

  let saved = Promise.resolve(); // one at a time
  const save = (context) => {
    saved = saved.then(() => {
      const { dirty, readOnly } = context?.model ?? {};
      return dirty && !readOnly && context.save();
    }).catch(() => {}); // JupyterLab has said why
  };

  const known = new WeakSet();
  const follow = (context) => {
    if (!context?.path?.endsWith(".ipynb") || known.has(context)) return;
    known.add(context);
    let soon;
    const later = (after) => {
      clearTimeout(soon);
      soon = setTimeout(save, after, context);
    };
    context.ready.then(() => {
      context.model.contentChanged.connect(() => later(QUIET));
      context.model.cells.changed.connect(() => later(0)); // deleted, or moved
    });
  };

  const plugin = {
    id: "attn-lab:landing",
    autoStart: true,
    activate: ({ commands, shell }) => {
      shell.currentChanged?.connect(() => follow(shell.currentWidget?.context));
      commands.commandExecuted.connect((_, { id, args, result }) => {
        if (/^notebook:(restart-)?run/.test(id)) {
          const { context } = shell.currentWidget ?? {};
          result.finally(() => save(context)).catch(() => {});
        }
        const name = /^#cell-id=(.+)/.exec(args?.id ?? "")?.[1];
        if (id !== "rendermime:handle-local-link" || !name) return;
        land(shell, decodeURIComponent(args.path), name);
      });
    },
  };
  globalThis._JUPYTERLAB ??= {};
  globalThis._JUPYTERLAB["attn-lab"] = { init() {}, get: async () => () => plugin };
})();
