// The search page: a chapter comes before the functions named like it, and
// excerpts quote the text, not the code and its output.
// A page that is found by its title and by its text is one result.
const sought = new URLSearchParams(location.search).get("q")?.trim().toLowerCase();
const words = (title) => title.replace(/<[^>]*>/g, "").replace(/^[\d.]+\s/, "").toLowerCase();
Scorer.score = (result) => {
  const [page, section] = result[1].split(" > ");
  if (section && words(section) === words(page)) Object.assign(result, { 1: page, 2: "" });
  return result[4] + (!result[2] && words(result[1]) === sought ? 100 : 0);
};
Search.htmlToText = (html, anchor) => {
  const page = new DOMParser().parseFromString(html, "text/html");
  const unread = ".cell_input, .cell_output :is(pre, table), .highlight, .drawn, " +
    ".katex-mathml, .headerlink, summary, script, style";
  for (const part of page.querySelectorAll(unread)) part.remove();
  const article = page.querySelector(".bd-article");
  const found = (anchor && article.querySelector(anchor)) || article;
  // A term of the glossary is quoted with what it means.
  const meaning = found.matches("dt") ? `: ${found.nextElementSibling.textContent}` : "";
  return (found.textContent + meaning).replace(/\s+/g, " ");
};

// A page opened as a file may not read the others.
if (location.protocol === "file:") {
  DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
  document.addEventListener("DOMContentLoaded", () => {
    const line = document.createElement("p");
    line.textContent = "The results have no excerpts, because the book is " +
      "opened from a file. After “make serve” they have.";
    document.querySelector("#search-results").before(line);
  });
}
