// What the theme leaves undone for a keyboard, a phone, a screen reader, paper.
document.addEventListener("DOMContentLoaded", () => {
  const all = (selector) => document.querySelectorAll(selector);

  // What scrolls by itself must be reachable by keyboard, and nothing else.
  const scrolls = ".bd-article pre, .pst-scrollable-table-container, .text_html, " +
    ".bd-article div.math, .drawn";
  const reach = () => {
    for (const box of all(scrolls)) {
      if (box.scrollWidth > box.clientWidth + 1) box.tabIndex = 0;
      else box.removeAttribute("tabindex");
    }
  };
  reach();
  window.addEventListener("resize", reach);
  document.fonts.ready.then(reach);

  // A long identifier may break after a dot, an underscore or a slash.
  for (const code of all(".bd-article code:not(pre code)")) {
    if (code.textContent.length < 16 || code.querySelector("wbr")) continue;
    const walk = document.createTreeWalker(code, NodeFilter.SHOW_TEXT);
    const texts = [];
    while (walk.nextNode()) texts.push(walk.currentNode);
    for (const text of texts) {
      const parts = text.data.split(/(?<=[._/])(?=[^._/])/);
      text.replaceWith(...parts.flatMap((part, i) =>
        i ? [document.createElement("wbr"), part] : [part]));
    }
  }

  // Hints come one at a time: the next appears when the one before is open.
  for (const box of all("details.exercise-hint")) {
    const next = box.nextElementSibling;
    if (!next?.matches(".exercise-hint")) continue;
    next.hidden = true;
    box.addEventListener("toggle", () => { next.hidden = false; }, { once: true });
  }

  // A button is called what is written on it.
  for (const button of all(".search-button-field")) {
    button.removeAttribute("aria-label");
  }
  for (const button of all(".theme-switch-button")) {
    button.ariaLabel = "Color mode: Light, Dark or System Settings";
  }

  // On paper: black on white, the answers to questions open.
  const page = document.documentElement;
  let theme, opened = [];
  window.addEventListener("beforeprint", () => {
    theme = page.dataset.theme;
    page.dataset.theme = "light";
    opened = [...all(".bd-article details:not([open])")];
    for (const box of opened) box.open = true;
  });
  window.addEventListener("afterprint", () => {
    page.dataset.theme = theme;
    for (const box of opened) box.open = false;
  });
});
