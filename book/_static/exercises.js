// The stubs of exercises become editors when one of them comes near, by what
// `make book` puts into _static/page. A page opened as a file may load none.
{
  const code = new URL("page/answers.mjs", document.currentScript.src);
  const stubs = document.querySelectorAll(".tag_answers");
  const explain = (stub) => {
    const line = Object.assign(document.createElement("p"), { className: "exercise-place",
      innerHTML: '<button type="button">Check</button> <span role="status"></span>' });
    const say = "A page opened as a file runs no Python; one that <code>make serve</code> shows does.";
    line.firstChild.addEventListener("click", () => { line.lastChild.innerHTML = say; });
    stub.nextElementSibling.replaceWith(line);
  };
  const near = new IntersectionObserver((all) => {
    if (!all.some((x) => x.isIntersecting)) return;
    near.disconnect();
    if (location.protocol === "file:") stubs.forEach(explain);
    else import(code).catch(() => {}); // the line below each says where to go
  }, { rootMargin: "50%" });
  stubs.forEach((stub) => near.observe(stub));
}
