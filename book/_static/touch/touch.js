// Figures that one can touch: what they share. Each is a file beside this one
// that calls Play.figure(name, build, { title }); a page holds a place for it,
// and its stored figure stays where there is no JavaScript. Numbers come from
// attn, baked by book/figures/<name>.py into <name>.data.js. build(numbers)
// returns elements: words, boards, div.touch-controls of the controls below,
// the live sentence and an expression to copy. The frame has the boards above,
// where no hand covers them, and the sentence next to the controls; `beside`
// puts both beside a square board. With { instead: true } a figure takes the
// place of the stored picture, above a caption that suits both. In a Markdown
// page, <!-- touch-<name> --> below a figure is the place of a short form.
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

  // A map of weights, queries down and keys across: one chooses a row. put()
  // has the words of both axes and the weights; mark() frames a row. There is
  // room for so many letters.
  const weightMap = (queries, keys, letters, choose, about) => {
    const CELL = 20, LEFT = 8 + 8 * letters, TOP = 2 + 8 * letters;
    const each = (count, make) => Array.from({ length: count }, (_, i) => make(i));
    const cells = each(queries, () => each(keys, (j) => svg("rect", { class: "weight",
      x: LEFT + j * CELL, width: CELL - 2, height: CELL - 2, rx: 3 })));
    const rows = cells.map((row, i) => svg("g", { onpointerenter: () => choose(i),
      onclick: () => choose(i), transform: `translate(0 ${TOP + i * CELL})` },
    text(LEFT - 8, 14, "", "end"), row));
    const columns = each(keys, (j) => svg("text", {
      transform: `translate(${LEFT + j * CELL + 14} ${TOP - 8}) rotate(-90)` }));
    const frame = svg("rect", { class: "frame", x: LEFT - 2, rx: 4,
      width: keys * CELL + 2, height: CELL + 2 });
    const size = [LEFT + keys * CELL + 2, TOP + queries * CELL + 2];
    const clipped = (word) => word.length > letters
      ? `${word.slice(0, letters - 1)}…` : word;
    const put = (query, key, weight, shade) => {
      rows.forEach((row, i) => { row.firstChild.textContent = clipped(query(i)); });
      columns.forEach((column, j) => { column.textContent = clipped(key(j)); });
      cells.forEach((row, i) => row.forEach((cell, j) => {
        cell.style.setProperty("--shade", shade(weight(i, j)));
        cell.dataset.weight = weight(i, j);
      }));
    };
    const mark = (query) => {
      rows.forEach((row, i) => row.classList.toggle("chosen", i === query));
      frame.setAttribute("y", TOP + query * CELL - 2);
    };
    const map = board("", `0 0 ${size.join(" ")}`, about, columns, rows, frame);
    return Object.assign(map, { put, mark });
  };

  // Controls call `changed` with their new value; `.value()` reads it.
  const toggle = (label, checked, changed) => {
    const box = html("input", { type: "checkbox", checked,
      oninput: () => changed(box.checked) });
    return Object.assign(html("label", { class: "touch-toggle" }, box, label),
      { value: () => box.checked });
  };
  const slider = (label, least, most, value, changed, says = String,
    around = (range) => range) => {
    const shown = html("output"), id = `touch-${++serial}`;
    const range = html("input", { type: "range", id, min: least, max: most,
      value, oninput: () => { show(); changed(Number(range.value)); } });
    const show = () => {
      shown.textContent = says(Number(range.value));
      range.setAttribute("aria-valuetext", shown.textContent);
      range.style.setProperty("--part", (range.value - least) / (range.max - least));
    };
    show();
    return Object.assign(
      html("span", { class: "touch-slider" },
        html("label", { for: id }, label), around(range), shown),
      {
        value: () => Number(range.value),
        set: (now) => {
          range.value = now;
          range.dispatchEvent(new Event("input"));
        },
        enable: (on) => { range.disabled = !on; },
        most: (now) => { range.max = now; show(); },
      });
  };
  // A slider between buttons: one step back, one on, and one that plays, from the
  // start if it is at its end, where there is a pace in milliseconds.
  const steps = (label, most, value, changed, says, { least = 1, pace = 1400 } = {}) => {
    const go = (by) => all.set(all.value() + by);
    const arrow = (sign, name, by) =>
      set(button(sign, () => go(by)), { "aria-label": name, title: name });
    const all = slider(label, least, most, value, changed, says, (range) => {
      const ends = () => all.value() === Number(range.max);
      const play = player((first) => {
        if (first && ends()) all.set(least);
        else go(1);
        return !ends();
      }, pace);
      return html("span", { class: "touch-steps" }, arrow("‹", "Back", -1), range,
        arrow("›", "Next", 1), pace ? play : []);
    });
    return all;
  };
  // A button that plays: step(true), then step() every so often until it returns
  // false or the button is pressed again. The figure's words wait for the end.
  const player = (step, milliseconds) => {
    let clock;
    const run = (on) => {
      clock = on ? setInterval(() => { if (!step()) run(false); }, milliseconds)
        : clearInterval(clock);
      play.textContent = on ? "Pause" : "Play";
      play.dispatchEvent(new CustomEvent("touch-play", { bubbles: true, detail: on }));
    };
    const play = button("Play", () => {
      run(!clock);
      if (clock) step(true);
    });
    return set(play, { class: "touch-button touch-play" });
  };
  const choice = (label, options, changed) => {
    const select = html("select", { oninput: () => changed(select.value) },
      options.map((option) => {
        const [value, text = value] = [option].flat();
        return html("option", { value }, text);
      }));
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

  // Where an event is, in the coordinates of a board or a part of one.
  const where = (target, { clientX, clientY }) => new DOMPoint(clientX, clientY)
    .matrixTransform(target.getScreenCTM().inverse());
  const tap = (target, chosen) => {
    target.classList.add("touch-tap");
    return set(target, { onclick: (event) => {
      const { x, y } = where(target, event);
      chosen([x, y]);
    } });
  };
  // Follow a pressed pointer, be it a mouse, a finger or a pen: moved([x, y], first).
  const drag = (target, moved) => {
    const follow = (first) => (event) => {
      if (first && event.button === 0) target.setPointerCapture(event.pointerId);
      if (!target.hasPointerCapture(event.pointerId)) return;
      const { x, y } = where(target, event);
      moved([x, y], first);
    };
    target.classList.add("touch-drag");
    set(target, { onpointerdown: follow(true), onpointermove: follow(false) });
    return target;
  };

  // Words that change, over the longest so far, unseen: nothing below moves.
  // There is room for so many letters from the start.
  const steady = (box, words, letters) => {
    box.dataset.longest = "neither ".repeat(letters / 8);
    return (text) => {
      words.textContent = text;
      if (text.length > box.dataset.longest.length) box.dataset.longest = text;
    };
  };
  // The expression that does the same in attn, to copy.
  const expression = (letters) => {
    const code = html("code");
    const copy = button("Copy", async () => {
      await navigator.clipboard.writeText(code.textContent);
      copy.textContent = "Copied";
      setTimeout(() => { copy.textContent = "Copy"; }, 1500);
    });
    const box = html("p", { class: "touch-code" }, code, copy);
    return Object.assign(box, { show: steady(box, code, letters) });
  };
  // What changed, for those who hear the page, too. While a figure plays, nobody
  // could read it: it is grey, and waits.
  const live = (letters) => {
    const line = html("p", { "aria-live": "polite" });
    const box = html("div", { class: "touch-live" }, line);
    const show = steady(box, line, letters);
    let latest = "", waits = false;
    return Object.assign(box, {
      say: (text) => {
        latest = text;
        if (!waits) show(text);
      },
      wait: (on) => {
        waits = box.classList.toggle("waits", on);
        if (!on) show(latest);
      },
    });
  };

  // On a phone what to try is behind the title, and the expression is folded.
  // `turned` hears now, and whenever it changes, whether the page is on a phone.
  const phone = matchMedia("(max-width: 30rem)");
  const onPhone = (turned) => {
    phone.addEventListener("change", () => turned(phone.matches));
    turned(phone.matches);
  };
  const fold = (name, inside, attributes) => {
    const summary = html("summary", attributes, name), box = html("details", {}, summary, inside);
    onPhone((is) => {
      box.open = !is;
      set(summary, { tabindex: is ? 0 : -1 });
    });
    return box;
  };
  // `build` puts the parts of a figure together, those that all have included.
  // `reserve`: letters of the longest sentence, and of the longest expression;
  // `long`: the sentence has the whole width.
  const LAST = [".touch-controls", ".touch-live", ".touch-code"];
  const rank = (part) => LAST.findIndex((kind) => part.matches(kind));
  const figure = (name, build, { title, reserve = [160, 60],
    instead = false, beside = false, long = false }) => {
    const begin = () => {
      for (const place of document.querySelectorAll(`[data-touch="${name}"]`)) {
        if (place.childElementCount) continue;
        const above = place.previousElementSibling;
        const imports = place.nextElementSibling;
        if (instead) (above.querySelector("figure") ?? above).prepend(place);
        else if (imports?.matches("h1 ~ .cell:not(:has(figure))")) imports.after(place);
        const own = { place, live: live(reserve[0]), expression: expression(reserve[1]) };
        const parts = build(data[name], own).flat().sort((a, b) => rank(a) - rank(b));
        const id = `touch-${++serial}`;
        set(place, { role: "group", "aria-labelledby": id,
          "ontouch-play": ({ detail }) => own.live.wait(detail) });
        const form = beside ? " beside" : long ? " long" : "";
        const named = { class: "touch-title", id }, words = data[name].title ?? title;
        const [lead, code] = ["p:not([class])", ".touch-code"].map((kind) =>
          parts.find((part) => part.matches(kind)));
        place.append(html("div", { class: `touch-frame${form}` },
          lead ? fold(words, lead, named) : html("p", named, words),
          parts.filter((part) => part !== lead && part !== code),
          code && fold("In code", code, { class: "touch-hint" })));
        place.querySelectorAll(".touch-panels, .touch-pair").forEach((row) => onPhone((is) =>
          set(row, { tabindex: is ? 0 : -1, role: "group", "aria-label": "Pictures" })));
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
  return { html, svg, set, text, board, weightMap, toggle, slider, steps, player, choice, button, group,
    where, drag, tap, expression, live, figure, glider, still, data };
})();
