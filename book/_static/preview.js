// A link shows what it leads to, under the mouse or the keyboard's focus: a
// figure of its page, or what book/ext/attn_book/previews.py keeps of others.
{
  const kept = new URL("preview.data.js", document.currentScript.src).href;
  // A card and a button say it all.
  const links =
    ".bd-article a.reference.internal:not(.sd-btn, .chapter *)";
  const tip = document.createElement("div");
  Object.assign(tip, { id: "preview", role: "tooltip", hidden: true });
  let link, timer, loading;

  // Loaded before the first preview, as a script: a file cannot be fetched.
  const load = () => loading ??= new Promise((done) => {
    const script = document.createElement("script");
    Object.assign(script, { src: kept, onload: done, onerror: done });
    document.head.append(script);
  });
  // A copy has ids of its own, and no link or other stop for the keyboard.
  const figure = ({ pathname, hash }) => {
    const here = pathname === location.pathname;
    const found = document.getElementById(here ? hash.slice(1) : "");
    if (!found?.matches("figure, div.math")) return null;
    const copy = found.cloneNode(true);
    for (const part of copy.querySelectorAll(".touch, .headerlink")) part.remove();
    return copy.outerHTML.replace(/<\/?a\b[^>]*>| tabindex="0"/g, "")
      .replace(/\b(id="|url\(#|href="#)/g, "$1preview-");
  };

  const hide = () => {
    clearTimeout(timer);
    link?.removeAttribute("aria-describedby");
    link = null;
    tip.hidden = true;
  };
  const show = async (wanted) => {
    hide();
    link = wanted;
    const file = link.pathname.split("/").pop() + link.hash;
    const shown = figure(link) ?? (await load(), window.previews?.[file]);
    if (!shown || link !== wanted) return;
    document.querySelector(".bd-article").append(tip);
    tip.innerHTML = shown;
    tip.hidden = false;
    link.setAttribute("aria-describedby", tip.id);
    place();
  };
  // Below the link, above where there is no room; inside the window.
  const place = () => {
    const { left, top, bottom } = link.getBoundingClientRect();
    const { width, height } = tip.getBoundingClientRect();
    const origin = tip.offsetParent.getBoundingClientRect();
    const { clientWidth, clientHeight } = document.documentElement;
    const above = clientHeight - bottom < Math.min(height + 8, top);
    const x = Math.max(8, Math.min(left, clientWidth - width - 8));
    tip.style.left = `${x - origin.left}px`;
    tip.style.top = `${(above ? top - height - 4 : bottom + 4) - origin.top}px`;
  };

  // It stays while the mouse is on the link or on the preview; a finger
  // follows the link.
  const on = (event, act) => document.addEventListener(event, act);
  on("pointerover", ({ target, pointerType }) => {
    if (pointerType === "touch") return;
    const over = target.closest(`${links}, #preview`);
    clearTimeout(timer);
    if (over === tip || (over && over === link)) return;
    if (over) timer = setTimeout(show, 300, over);
    else if (!link?.matches(":focus-visible")) timer = setTimeout(hide, 300);
  });
  on("focusin", ({ target }) => {
    if (target.matches(links) && target.matches(":focus-visible")) show(target);
  });
  on("focusout", ({ target }) => { if (target === link) hide(); });
  on("click", ({ target }) => { if (!tip.contains(target)) hide(); });
  on("keydown", ({ key }) => { if (key === "Escape") hide(); });
}
