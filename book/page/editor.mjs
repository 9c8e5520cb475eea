// An editor of Python in the colours of the page's code: CodeMirror, which
// marks words with the classes that Pygments has for them.
import { closeBrackets, closeBracketsKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { pythonLanguage } from "@codemirror/lang-python";
import { bracketMatching, indentOnInput, indentUnit, syntaxHighlighting, syntaxTree } from "@codemirror/language";
import { EditorState, StateEffect, StateField } from "@codemirror/state";
import { Decoration, EditorView, MatchDecorator, ViewPlugin, keymap } from "@codemirror/view";
import { tagHighlighter, tags } from "@lezer/highlight";

const pygments = tagHighlighter([
  { tag: [tags.keyword, tags.controlKeyword, tags.definitionKeyword, tags.moduleKeyword], class: "k" },
  { tag: tags.operatorKeyword, class: "ow" },
  { tag: [tags.bool, tags.null], class: "kc" },
  { tag: tags.function(tags.definition(tags.variableName)), class: "nf" },
  { tag: tags.definition(tags.className), class: "nc" },
  { tag: tags.meta, class: "nd" },
  { tag: tags.comment, class: "c1" },
  { tag: [tags.string, tags.special(tags.string)], class: "s2" },
  { tag: tags.number, class: "mi" },
  { tag: [tags.operator, tags.derefOperator], class: "o" },
]);

// Names that Python has, which the grammar takes for any other.
const BUILT_IN = /\b(?:(self|cls)|(\w+Error|NotImplemented)|(?:abs|all|any|bool|callable|dict|enumerate|float|getattr|hasattr|int|isinstance|iter|len|list|map|max|min|next|print|property|range|reversed|round|set|slice|sorted|str|sum|super|tuple|type|zip))\b/g;
const builtIn = new MatchDecorator({
  regexp: BUILT_IN,
  decorate(add, from, to, [, own, error], view) {
    const { name } = syntaxTree(view.state).resolveInner(from, 1);
    const kind = own ? "bp" : error ? "ne" : "nb";
    if (name === "VariableName") add(from, to, Decoration.mark({ class: kind }));
  },
});
const builtIns = ViewPlugin.define((view) => ({
  marks: builtIn.createDeco(view),
  update(change) { this.marks = builtIn.updateDeco(change, this.marks); },
}), { decorations: (plugin) => plugin.marks });

// A line that raised an error, until the text changes.
const mark = StateEffect.define();
const marked = StateField.define({
  create: () => Decoration.none,
  update(lines, change) {
    if (change.docChanged) lines = Decoration.none;
    for (const effect of change.effects.filter((x) => x.is(mark))) {
      const at = effect.value && change.state.doc.line(effect.value).from;
      const line = Decoration.line({ class: "answer-line" });
      lines = effect.value ? Decoration.set(line.range(at)) : Decoration.none;
    }
    return lines;
  },
  provide: (field) => EditorView.decorations.from(field),
});

// Tab leaves an editor to which Tab came, and after Escape; once a key is
// pressed or a place is clicked, it indents.
const LONG = 1e9; // milliseconds
const leaves = (view) => void view.setTabFocusMode(LONG);
const leaving = [
  keymap.of([{ key: "Escape", run: leaves }]),
  EditorView.domEventHandlers({
    focus: (_, view) => leaves(view),
    click: (_, view) => void view.setTabFocusMode(false),
  }),
];

export function makeEditor(parent, { text, label, describedBy, onChange, onSubmit }) {
  const submit = { key: "Mod-Enter", run: () => (onSubmit(), true) };
  const view = new EditorView({
    parent,
    doc: text,
    extensions: [
      keymap.of([submit, ...closeBracketsKeymap, ...defaultKeymap, ...historyKeymap, indentWithTab]),
      history(), indentOnInput(), bracketMatching(), closeBrackets(),
      indentUnit.of("    "), EditorState.tabSize.of(4),
      pythonLanguage, syntaxHighlighting(pygments), builtIns, marked, leaving,
      EditorView.contentAttributes.of({
        "aria-label": label, "aria-describedby": describedBy,
        tabindex: "0", // or axe sees nothing to focus in what scrolls
        autocapitalize: "off", autocorrect: "off", spellcheck: "false",
      }),
      EditorView.updateListener.of(({ docChanged }) => { if (docChanged) onChange(); }),
    ],
  });
  return {
    get text() { return view.state.doc.toString(); },
    set text(insert) { view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert } }); },
    get hasFocus() { return view.hasFocus; },
    mark(line) {
      const isThere = line >= 1 && line <= view.state.doc.lines;
      view.dispatch({ effects: mark.of(isThere ? line : null) });
    },
  };
}
