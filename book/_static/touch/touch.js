// Figures that one can touch: what they share. Each is a file beside this one
// that calls Play.figure(name, build); a page holds a place for it, and its
// stored figure stays where there is no JavaScript. Numbers come from attn,
// baked by book/figures/<name>.py into <name>.data.js. build(numbers) returns
// elements, made of the controls below and an expression to copy. With
// { instead: true } they take the place of the stored picture, above a caption
// that suits both. In a Markdown page, <!-- touch-<name> --> below a figure
// is the place of a short form.
window.Play ??= (() => {
  const SVG = "http://www.w3.org/2000/svg";
  const data = {};
  let serial = 0;

  const fill = (node, attributes, children) => {
    for (const [key, value] of Object.entries(attributes)) {
      if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
      else if (value === true) node.setAttribute(key, "");
      else if (value !== false && value != null) node.setAttribute(key, value);
    }
    node.append(...children.flat().filter((child) => child != null));
    return node;
  };
  const html = (tag, attributes = {}, ...children) =>
    fill(document.createElement(tag), attributes, children);
  const svg = (tag, attributes = {}, ...children) =>
    fill(document.createElementNS(SVG, tag), attributes, children);
  const set = (node, attributes) => fill(node, attributes, []);
  const text = (x, y, words = "", anchor = "start") =>
    svg("text", { x, y, "text-anchor": anchor }, words);
  const board = (kind, viewBox, about, ...parts) => svg("svg", { viewBox,
    class: `touch-board ${kind}`, role: "img", "aria-label": about }, ...parts);

  // Controls call `changed` with their new value; `.value()` reads it.
  const toggle = (label, checked, changed) => {
    const box = html("input", { type: "checkbox", checked,
      oninput: () => changed(box.checked) });
    return Object.assign(html("label", { class: "touch-toggle" }, box, label),
      { value: () => box.checked });
  };
  const slider = (label, least, most, value, changed, says = String) => {
    const shown = html("output", {}, says(value));
    const id = `touch-${++serial}`;
    const range = html("input", { type: "range", id, min: least, max: most,
      value, "aria-valuetext": says(value), oninput: () => {
        const now = Number(range.value);
        shown.textContent = says(now);
        range.setAttribute("aria-valuetext", says(now));
        changed(now);
      } });
    return Object.assign(
      html("span", { class: "touch-slider" },
        html("label", { for: id }, label), range, shown),
      {
        value: () => Number(range.value),
        set: (now) => {
          range.value = now;
          range.dispatchEvent(new Event("input"));
        },
        enable: (on) => { range.disabled = !on; },
        most: (now) => { range.max = now; },
      });
  };
  // A slider between two buttons: one step back, one on.
  const steps = (label, most, value, changed, says) => {
    const range = slider(label, 1, most, value, changed, says);
    const by = (step) => () => range.set(range.value() + step);
    return Object.assign(html("span", { class: "touch-steps" },
      button("Back", by(-1)), range, button("Next", by(1))), range);
  };
  const choice = (label, options, changed) => {
    const select = html("select", { oninput: () => changed(select.value) },
      options.map(([value, text]) => html("option", { value }, text)));
    return Object.assign(html("label", { class: "touch-choice" }, label, select),
      { value: () => select.value });
  };
  const button = (label, pressed) =>
    html("button", { type: "button", class: "touch-button", onclick: pressed },
      label);

  // One of several buttons, as a group of radio buttons: arrow keys move and
  // choose, through rows of `columns`; `choose` does too.
  const group = (label, items, chosen, changed, columns = 1) => {
    const mark = (now) => {
      chosen = now;
      items.forEach((item, i) => set(item, { role: "radio",
        "aria-checked": `${i === now}`, tabindex: i === now ? 0 : -1 }));
    };
    const choose = (now) => { mark(now); changed(now); };
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns };
    const onkeydown = (event) => {
      if (!(event.key in steps)) return;
      event.preventDefault();
      const next = chosen + steps[event.key];
      if (!(next in items)) return;
      choose(next);
      items[next].focus();
    };
    items.forEach((item, i) => item.addEventListener("click", () => choose(i)));
    mark(chosen);
    return Object.assign(html("div",
      { role: "radiogroup", "aria-label": label, onkeydown }, items), { choose });
  };

  // The expression that does the same in attn, to copy.
  const expression = () => {
    const code = html("code");
    const copy = button("Copy", async () => {
      await navigator.clipboard.writeText(code.textContent);
      copy.textContent = "Copied";
      setTimeout(() => { copy.textContent = "Copy"; }, 1500);
    });
    return Object.assign(html("p", { class: "touch-code" }, code, copy),
      { show: (text) => { code.textContent = text; } });
  };
  // What changed, for those who hear the page.
  const live = () => {
    const line = html("p", { class: "touch-live", "aria-live": "polite" });
    return Object.assign(line, { say: (text) => { line.textContent = text; } });
  };

  // `build` puts the parts of a figure together, those that all have included.
  // `instead`: it takes the place of the stored one, above it, and its caption.
  const figure = (name, build, { instead = false } = {}) => {
    const begin = () => {
      for (const place of document.querySelectorAll(`[data-touch="${name}"]`)) {
        if (place.childElementCount) continue;
        const above = place.previousElementSibling;
        if (instead) (above.querySelector("figure") ?? above).prepend(place);
        const parts = { place, expression: expression(), live: live() };
        place.append(...build(data[name], parts));
      }
    };
    if (document.readyState === "loading") {
      document.addEventListener("DOMContentLoaded", begin);
    } else begin();
  };
  // paint(0 to 1), at once where motion is unwelcome; the latest call wins.
  const glider = (milliseconds) => {
    let latest = 0;
    return (paint, atOnce = still()) => {
      const own = ++latest, begun = performance.now();
      const frame = () => {
        if (own !== latest) return;
        const part = (performance.now() - begun) / milliseconds;
        paint(atOnce ? 1 : Math.min(part, 1));
        if (part < 1 && !atOnce) requestAnimationFrame(frame);
      };
      frame();
    };
  };
  const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
  return { html, svg, set, text, board, toggle, slider, steps, choice, button, group,
    expression, live, figure, glider, still, data };
})();
