// Every text of the drawings shown: its size in pixels, its contrast to what is
// behind it, another text under it, how far it leaves its drawing.
() => {
  const channels = (color) => color.match(/[\d.]+/g).slice(0, 3).map(Number);
  const luminance = (color) => color.map((c) => c / 255).map((c) =>
    c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const contrast = (a, b) => {
    const [dark, bright] = [a, b].map(luminance).sort((x, y) => x - y);
    return (bright + 0.05) / (dark + 0.05);
  };
  const page = channels(getComputedStyle(document.body).backgroundColor);
  const behind = (text, box) => {
    const svg = text.ownerSVGElement;
    const at = new DOMPoint(box.x + box.width / 2, box.y + box.height / 2)
      .matrixTransform(svg.getScreenCTM().inverse());
    let color = page;
    for (const path of svg.querySelectorAll("g > path")) {
      const { fill, opacity, fillOpacity } = getComputedStyle(path);
      if (!fill.startsWith("rgb") || !path.isPointInFill(at)) continue;
      const group = getComputedStyle(path.parentNode);
      const share = opacity * fillOpacity * group.opacity;
      color = channels(fill).map((c, i) => c * share + color[i] * (1 - share));
    }
    return color;
  };
  const found = [];
  for (const svg of document.querySelectorAll(".drawn svg")) {
    if (!svg.getClientRects().length) continue;
    const scale = svg.getScreenCTM().a;
    const texts = [...svg.querySelectorAll("text")].filter((t) => t.textContent.trim());
    const boxes = texts.map((text) => text.getBoundingClientRect());
    const edge = svg.getBoundingClientRect();
    texts.forEach((text, i) => {
      const box = boxes[i];
      const under = boxes.findIndex((other, j) => j < i
        && Math.min(box.right, other.right) - Math.max(box.left, other.left) > 3
        && Math.min(box.bottom, other.bottom) - Math.max(box.top, other.top) > 6);
      const style = getComputedStyle(text);
      found.push({
        figure: svg.closest("figure").id, text: text.textContent,
        size: parseFloat(style.fontSize) * scale,
        contrast: contrast(channels(style.fill), behind(text, box)),
        over: under < 0 ? null : texts[under].textContent,
        outside: Math.max(edge.left - box.left, box.right - edge.right),
      });
    });
  }
  return found;
}
