// "Attention in one page": one picture stays beside the text and turns into the
// drawing of the step that one reads, while the lines of code that do this step
// light up. The drawings are those of book/figures/one_page.py, which a page
// without JavaScript shows below each step: sixteen rows, and what is around.
document.addEventListener("DOMContentLoaded", () => {
  const { html, set, button } = Play;
  const stills = [...document.querySelectorAll("svg.still")];
  const steps = stills.map((still) => still.closest("section"));
  const written = (text) => text.replace(/ +#.*/, "").trim();
  const lines = [...document.querySelectorAll(".nine-lines .code")].map((line) => line.cloneNode(true));
  const does = steps.map((step) => lines.filter((line) =>
    step.querySelector(".does")?.textContent.split("\n").some((x) => written(x) === written(line.textContent))));

  const drawing = stills[0].cloneNode(true);
  const become = (still) => {  // the rows move; what is around them is another
    drawing.ariaLabel = still.ariaLabel;
    const own = drawing.querySelectorAll(".token, .token *");
    still.querySelectorAll(".token, .token *").forEach((part, i) => {
      for (const { name, value } of part.attributes) own[i].setAttribute(name, value);
      if (!part.hasAttribute("text-anchor")) own[i].removeAttribute("text-anchor");
      if (part.matches("text")) own[i].textContent = part.textContent;
    });
    drawing.querySelector(".more").replaceWith(still.querySelector(".more").cloneNode(true));
  };
  let now = -1;
  const show = (n) => {
    if (n === now) return;
    now = n;
    become(stills[n]);
    picture.dataset.step = n + 1;
    lines.forEach((line) => line.classList.toggle("lit", does[n].includes(line)));
    count.textContent = `step ${n + 1} of ${steps.length}`;
    back.disabled = n === 0;
    next.disabled = n === steps.length - 1;
  };

  // One reads in the middle of what the picture leaves free.
  const isBelow = () => picture.getBoundingClientRect().width > 0.7 * page.offsetWidth;
  const top = () => isBelow() ? picture.offsetHeight + parseFloat(getComputedStyle(picture).top) : 0;
  const look = () => {
    const line = top() + 0.5 * (innerHeight - top());
    show(Math.max(0, steps.findLastIndex((step) => step.getBoundingClientRect().top < line)));
  };
  const go = (by) => {
    const step = steps[now + by];
    const room = isBelow() ? 8 : Math.max(0, (innerHeight - step.offsetHeight) / 2);
    scrollTo({ top: scrollY + step.getBoundingClientRect().top - top() - room,
      behavior: Play.still() ? "instant" : "smooth" });
  };
  const [back, next] = [button("Back", () => go(-1)), button("Next", () => go(1))];
  const count = html("span", { role: "status" });
  const picture = html("div", { class: "one-picture touch", role: "group", "aria-label": "The picture of the step" },
    drawing, html("pre", { class: "nine-lines highlight", "aria-hidden": "true" }, lines),
    html("div", { class: "touch-row" }, back, count, next));
  const page = html("div", { class: "one-page" }, picture);
  steps[0].before(page);
  page.append(html("div", {}, steps));
  look();
  addEventListener("scroll", look, { passive: true });
  addEventListener("resize", look);
});
