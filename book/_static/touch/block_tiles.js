// Chapter 14: what a BlockMask skips, and what it still computes.
Play.figure("block_tiles", ({ length, masks }, { expression, live }) => {
  const { html, svg, set } = Play;
  const CELL = 14, KINDS = ["empty", "partial", "full"];
  const each = (count, make) => Array.from({ length: count }, (_, i) => make(i));
  const allowed = each(length, () => Array(length).fill(false));

  // The kind of each block: how many of all its pairs may attend.
  const kinds = (size) => {
    const sides = Math.ceil(length / size);
    return each(sides, (i) => each(sides, (j) => {
      let count = 0;
      for (let y = i * size; y < Math.min((i + 1) * size, length); y++) {
        for (let x = j * size; x < Math.min((j + 1) * size, length); x++) {
          count += allowed[y][x];
        }
      }
      return count === size * size ? 2 : Number(count > 0);
    }));
  };

  const draw = () => {
    const size = controls.size.value(), found = kinds(size);
    const counts = [0, 0, 0];
    let pairs = 0;
    found.flat().forEach((kind) => { counts[kind]++; });
    cells.forEach((row, i) => row.forEach((cell, j) => {
      pairs += allowed[i][j];
      const kind = KINDS[found[Math.floor(i / size)][Math.floor(j / size)]];
      cell.setAttribute("class", `${allowed[i][j] ? "on" : "off"} ${kind}`);
    }));
    grid.replaceChildren(...found.flatMap((row, i) => row.map((kind, j) =>
      svg("rect", { class: `block ${KINDS[kind]}`, x: 1 + j * size * CELL,
        y: 1 + i * size * CELL,
        width: Math.min(size, length - j * size) * CELL - 2,
        height: Math.min(size, length - i * size) * CELL - 2 }))));
    const visited = counts[1] + counts[2], all = found.length ** 2;
    const of = (part, whole) => `${Math.round(100 * part / whole)} %`;
    live.say(`${counts[2]} full, ${counts[1]} partial, ${counts[0]} empty blocks: `
      + `${visited} of ${all} are computed, ${of(visited, all)}. `
      + `${of(pairs, length ** 2)} of the pairs may attend.`);
    const name = controls.mask.value();
    expression.show(painted ? "painted by hand"
      : `${/[&|]/.test(name) ? `(${name})` : name}.block_mask(${length}, block_size=${size})`);
    frame.setAttribute("x", 1 + at[1] * CELL);
    frame.setAttribute("y", 1 + at[0] * CELL);
  };

  let painted = false, at = [0, 0];
  const load = () => {
    painted = false;
    masks[controls.mask.value()].forEach((row, i) =>
      [...row].forEach((bit, j) => { allowed[i][j] = bit === "1"; }));
    draw();
  };
  const paint = (i, j) => {
    painted = true;
    at = [i, j];
    allowed[i][j] = !allowed[i][j];
    draw();
  };
  const controls = {
    mask: Play.choice("mask", Object.keys(masks).map((name) => [name, name]), load),
    size: Play.slider("block size", 1, 12, 4, draw),
  };
  const cells = each(length, (i) => each(length, (j) => svg("rect", {
    x: 1 + j * CELL, y: 1 + i * CELL, width: CELL - 2, height: CELL - 2,
    style: "--weight: .7", onclick: () => paint(i, j) })));
  const grid = svg("g", { "pointer-events": "none" });
  const frame = svg("rect", { class: "frame", width: CELL - 2, height: CELL - 2,
    "pointer-events": "none" });
  const onkeydown = (event) => {
    const [i, j] = at;
    const step = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1],
      ArrowLeft: [0, -1] }[event.key];
    if (event.key === " " || event.key === "Enter") paint(i, j);
    else if (!step) return;
    else {
      at = [i + step[0], j + step[1]].map((n) => Math.min(Math.max(n, 0), length - 1));
      draw();
    }
    event.preventDefault();
  };
  const side = length * CELL + 2;
  const board = set(Play.board("blocks", `0 0 ${side} ${side}`,
    "Queries down, keys across. Arrow keys move, space paints a pair.",
    cells.flat(), grid, frame), { role: "application", tabindex: 0, onkeydown });
  load();
  return [
    html("p", {}, "Choose a mask and a block size, or paint pairs yourself: one pair "
      + "is enough to make an empty block partial."),
    html("div", { class: "touch-controls" }, Object.values(controls)),
    board, expression, live,
  ];
});
