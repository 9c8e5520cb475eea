// What scrolls by itself must be reachable by keyboard.
document.addEventListener("DOMContentLoaded", () => {
  const wide = ".bd-article pre, .bd-article table, .bd-article .math";
  for (const box of document.querySelectorAll(wide)) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
  }
});
