// The reader's own ticks: one an exercise, on the chapters' pages, counted on
// the front page. They stay in this browser, and are no grade.
document.addEventListener("DOMContentLoaded", () => {
  const KEY = "attn-ticks";
  try {
    localStorage.getItem(KEY);
  } catch {
    return; // nothing can be kept: no control is shown
  }
  const all = (selector) => [...document.querySelectorAll(selector)];
  const read = (text) => { // null: no list of exercises
    try {
      const ids = JSON.parse(text ?? "[]");
      return ids.every((id) => typeof id === "string") ? new Set(ids) : null;
    } catch {
      return null;
    }
  };
  const ticked = () => read(localStorage.getItem(KEY)) ?? new Set();
  const keep = (ids) => {
    localStorage.setItem(KEY, JSON.stringify([...ids].sort()));
    show();
  };

  // A chapter: a box on each exercise's card.
  const front = `${document.documentElement.dataset.content_root}book/intro.html#ticks`;
  const boxes = all(".exercise-card > p:first-of-type").map((line, i) => {
    const name = line.querySelector("code").textContent;
    line.insertAdjacentHTML("beforeend", `<span class="tick"><label><input type="checkbox"> done</label>
      ${i ? "" : `<small>(<a href="${front}">your own note</a>, no grade)</small>`}</span>`);
    const box = Object.assign(line.querySelector("input"), { name, ariaLabel: `done: ${name}` });
    box.addEventListener("change", () => {
      const ids = ticked();
      ids[box.checked ? "add" : "delete"](name);
      keep(ids);
    });
    return box;
  });

  // Every page: a count at each chapter in the menu.
  const exercises = JSON.parse(all("#exercises")[0].textContent);
  for (const link of all(".bd-sidebar-primary nav a")) {
    const page = Object.keys(exercises).find((x) => link.href.includes(`/${x}.html`));
    if (page) link.insertAdjacentHTML("beforeend", ` <small data-exercises="${exercises[page].join(" ")}"></small>`);
  }
  // The front page: one on each chapter's card, too, and where to go on.
  const counts = all("[data-exercises]"), [panel] = all("#ticks"), start = all(".begin a").at(-1);
  const begin = start && { href: start.href, title: start.textContent };
  const show = () => {
    const ids = ticked();
    for (const box of boxes) box.checked = ids.has(box.name);
    let sum = 0, total = 0, next;
    for (const count of counts) {
      const own = count.dataset.exercises.split(" ");
      const done = own.filter((id) => ids.has(id)).length;
      const card = count.closest(".chapter");
      count.textContent = done ? `${done} of ${own.length}${card ? " ticked" : ""}` : "";
      count.style.setProperty("--part", done / own.length);
      if (!card) continue;
      if (done < own.length) next ??= card.querySelector(".sd-card-title");
      [sum, total] = [sum + done, total + own.length];
    }
    if (!panel) return;
    panel.hidden = false;
    panel.status.value = `${sum} of ${total} exercises ticked.`;
    panel.save.disabled = panel.erase.disabled = !sum;
    start.href = sum && next ? next.querySelector("a").href : begin.href;
    start.firstElementChild.textContent = sum && next ? `Continue: ${next.textContent.trim()}` : begin.title;
  };
  show();
  addEventListener("pageshow", show); // one comes back to the page
  addEventListener("storage", show); // ticked in another window

  panel?.save.addEventListener("click", () => Object.assign(document.createElement("a"), {
    download: "attn-ticks.json", href: `data:application/json,${encodeURIComponent(localStorage.getItem(KEY))}` }).click());
  panel?.load.addEventListener("click", () => panel.file.click());
  panel?.file.addEventListener("change", async () => {
    const ids = read(await panel.file.files[0].text());
    if (ids) keep([...ticked(), ...ids]);
    else panel.status.value = "That file holds no ticks.";
    panel.file.value = "";
  });
  panel?.erase.addEventListener("click", () => { if (confirm("Erase all ticks?")) keep([]); });
});
