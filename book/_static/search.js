// The search page: excerpts quote the text, not the code and its output.
Search.htmlToText = (html, anchor) => {
  const page = new DOMParser().parseFromString(html, "text/html");
  const unread = ".cell_input, .cell_output :is(pre, table), .highlight, .drawn, " +
    ".katex-mathml, .headerlink, summary, script, style";
  for (const part of page.querySelectorAll(unread)) part.remove();
  const article = page.querySelector(".bd-article");
  const found = (anchor && article.querySelector(anchor)) || article;
  return found.textContent.replace(/\s+/g, " ");
};

// A page opened as a file may not read the others.
if (location.protocol === "file:") {
  DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
  document.addEventListener("DOMContentLoaded", () => {
    const line = document.createElement("p");
    line.textContent = "The results have no excerpts, because the book is " +
      "opened from a file. With `make serve` they have.";
    document.querySelector("#search-results").before(line);
  });
}
