// What the theme leaves undone for a keyboard, a phone, a screen reader, paper.
document.addEventListener("DOMContentLoaded", () => {
  const all = (selector) => document.querySelectorAll(selector);

  // What scrolls by itself must be reachable by keyboard, and nothing else. Its
  // edge fades where there is more.
  const scrolls = ".bd-article pre, .pst-scrollable-table-container, .text_html, " +
    ".bd-article div.math, .drawn";
  const fade = (box) => {
    const { scrollLeft, clientWidth, scrollWidth } = box;
    const more = [scrollLeft > 1 && "left",
      scrollLeft + clientWidth < scrollWidth - 1 && "right"].filter(Boolean);
    if (more.length) box.dataset.more = more.join(" ");
    else delete box.dataset.more;
  };
  const reach = () => {
    for (const box of all(scrolls)) {
      if (box.scrollWidth > box.clientWidth + 1) box.tabIndex = 0;
      else box.removeAttribute("tabindex");
      fade(box);
    }
  };
  reach();
  window.addEventListener("resize", reach);
  document.fonts.ready.then(reach);
  document.addEventListener("toggle", reach, true); // a fold has been opened
  document.addEventListener("scroll", ({ target }) => {
    if (target.matches?.(scrolls)) fade(target);
  }, { capture: true, passive: true });

  // The entry of the page is in view in the column of chapters, where the theme
  // restores how far another page's was scrolled.
  const current = () => {
    const entry = [...all(".bd-sidebar-primary .current > a")].pop();
    const column = entry?.closest(".bd-sidebar-primary, dialog");
    if (!column) return;
    const { top, bottom } = entry.getBoundingClientRect();
    const box = column.getBoundingClientRect();
    if (top < box.top + 64 || bottom > Math.min(box.bottom, innerHeight)) {
      column.scrollTop += (top + bottom - box.top - Math.min(box.bottom, innerHeight)) / 2;
    }
  };
  setTimeout(current); // after the theme
  document.addEventListener("click", ({ target }) => {
    if (target.closest(".primary-toggle")) setTimeout(current);
  }, true);

  // The contents mark the section that one is in, also after a jump, which may
  // pass every heading that the theme watches.
  const contents = all(".bd-sidebar-secondary .page-toc a");
  const mark = () => {
    const heading = (link) => document.getElementById(decodeURIComponent(link.hash.slice(1)));
    const above = [...contents].filter((link) =>
      link.hash && heading(link)?.getBoundingClientRect().top < 0.3 * innerHeight);
    for (const link of contents) {
      link.classList.toggle("active", link === above.at(-1));
      link.toggleAttribute("aria-current", link === above.at(-1));
    }
  };
  document.addEventListener("scrollend", mark);

  // On a phone the sidebars are drawers: each has a button to close it, and an
  // entry that is chosen closes it.
  for (const side of ["primary", "secondary"]) {
    const sidebar = document.querySelector(`#pst-${side}-sidebar`);
    const drawer = document.querySelector(`#pst-${side}-sidebar-modal`);
    if (!sidebar || !drawer) continue;
    const button = document.createElement("button");
    Object.assign(button, { type: "button", className: "drawer-close",
      textContent: "Close", onclick: () => drawer.close() });
    sidebar.prepend(button); // the theme moves all of it into the drawer
    drawer.addEventListener("click", ({ target }) => {
      if (target.closest("a[href]")) drawer.close();
    });
    drawer.addEventListener("close", () => setTimeout(leave));
  }
  // Escape ends a tooltip, also one that the focus opens as a drawer closes.
  const leave = () => {
    for (const button of all("[aria-describedby^=tooltip]")) {
      button.dispatchEvent(new FocusEvent("focusout", { bubbles: true }));
      button.dispatchEvent(new MouseEvent("mouseout", { bubbles: true }));
    }
  };
  document.addEventListener("keydown", ({ key }) => { if (key === "Escape") leave(); });

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
