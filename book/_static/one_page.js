// "Attention in one page": one picture stays beside the text and turns into the
// drawing of the step that one reads, and the lines of code that do it light up.
// The drawings of book/figures/one_page.py are below their steps without a script.
document.addEventListener("DOMContentLoaded", () => {
  const { html, button } = Play;
  const stills = [...document.querySelectorAll("svg.still")];
  const steps = stills.map((still) => still.closest("section"));
  const lines = [...document.querySelectorAll(".nine-lines .code")].map((line) => line.cloneNode(true));
  const quotes = steps.map((step) => step.querySelector(".does")?.textContent.split("\n").map((x) => x.trim()));
  const bare = (line) => line.textContent.replace(/ +#.*/, "").trim();

  const drawing = stills[0].cloneNode(true);
  const become = (still) => {  // the rows move; what is around them is another
    const own = drawing.querySelectorAll(".token, .token *");
    still.querySelectorAll(".token, .token *").forEach((part, i) => {
      own[i].removeAttribute("text-anchor");
      for (const { name, value } of part.attributes) own[i].setAttribute(name, value);
      if (part.matches("text")) own[i].textContent = part.textContent;
    });
    drawing.ariaLabel = still.ariaLabel;
    drawing.querySelector(".more").replaceWith(still.querySelector(".more").cloneNode(true));
  };
  let now;
  const show = (n) => {
    if (n !== now) become(stills[now = n]);
    picture.dataset.step = n + 1;
    for (const line of lines) line.classList.toggle("lit", !!quotes[n]?.includes(bare(line)));
    count.textContent = `step ${n + 1} of ${steps.length}`;
    [back.disabled, next.disabled] = [n === 0, n === steps.length - 1];
  };

  // One reads in the middle of what the picture leaves free.
  const isAbove = () => picture.offsetWidth > 0.7 * page.offsetWidth;
  const top = () => isAbove() ? picture.offsetHeight + parseFloat(getComputedStyle(picture).top) : 0;
  const y = (step) => step.getBoundingClientRect().top;
  const look = () => show(Math.max(0, steps.findLastIndex((step) => y(step) < (innerHeight + top()) / 2)));
  const go = (by) => {
    const step = steps[now + by];
    const room = isAbove() ? 8 : Math.max(0, (innerHeight - step.offsetHeight) / 2);
    scrollBy({ top: y(step) - top() - room, behavior: Play.still() ? "instant" : "smooth" });
  };
  const [back, next] = [button("Back", () => go(-1)), button("Next", () => go(1))];
  const count = html("span", { role: "status" });
  const picture = html("div", { class: "one-picture touch", role: "group", "aria-label": "The picture of the step" },
    drawing, html("pre", { class: "highlight", "aria-hidden": "true" }, lines), html("div", { class: "touch-row" }, back, count, next));
  const page = html("div", { class: "one-page" }, picture);
  steps[0].before(page);
  page.append(html("div", {}, steps));
  look();
  for (const moved of ["scroll", "resize"]) addEventListener(moved, look, { passive: true });
});
