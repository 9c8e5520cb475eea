// The front page's figure reads its sentence by itself, up to the token that it
// rests on, in under five seconds, until a reader touches it. Meanwhile what it
// says stays, grey: nobody reads ten in that time. Not where motion is unwelcome.
addEventListener("load", () => {
  const figure = document.querySelector(".touch.short");
  const tokens = [...figure?.querySelectorAll(".touch-token") ?? []];
  const rest = tokens.findIndex((token) => token.ariaChecked === "true");
  if (rest < 1 || Play.still()) return;
  const live = figure.querySelector("[aria-live]");
  live.ariaLive = "off";  // or each step would be spoken
  const box = live.parentElement;
  let next = 0, found;
  const walk = setInterval(() => {
    if (next === rest) return stop();
    if (!next) box.after(found = box.cloneNode(true));
    found.classList.add("waits");
    found.firstChild.removeAttribute("aria-live");
    box.style.display = "none";
    tokens[next++].click();
  }, 4500 / (rest + 1));
  const touched = ["pointerdown", "pointerover", "focusin", "keydown"];
  const stop = () => {
    clearInterval(walk);
    tokens[rest].click();
    found?.remove();
    box.style.display = "";
    live.ariaLive = "polite";
    touched.forEach((kind) => figure.removeEventListener(kind, stop));
  };
  touched.forEach((kind) => figure.addEventListener(kind, stop));
});
