// What the theme leaves undone for those who do not use a mouse, or eyes.
document.addEventListener("DOMContentLoaded", () => {
  const all = (selector) => document.querySelectorAll(selector);

  // What scrolls by itself must be reachable by keyboard.
  for (const box of all(".bd-article pre, .bd-article table, .bd-article .math")) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
  }
  // A button is called what is written on it.
  for (const button of all(".search-button-field")) {
    button.removeAttribute("aria-label");
  }
  for (const button of all(".theme-switch-button")) {
    button.ariaLabel = "Color mode: Light, Dark or System Settings";
  }
  // The entries of a bibliography are no list items.
  for (const list of all(".citation-list[role=list]")) {
    list.removeAttribute("role");
  }
});
