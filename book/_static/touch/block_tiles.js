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
  const paint = (pairs, may) => {
    painted = true;
    for (at of pairs) allowed[at[0]][at[1]] = may;
    draw();
  };
  const controls = {
    mask: Play.choice("mask", Object.keys(masks), load),
    size: Play.steps("block size", 12, 4, draw),
  };
  const cells = each(length, (i) => each(length, (j) => svg("rect", {
    x: 1 + j * CELL, y: 1 + i * CELL, width: CELL - 2, height: CELL - 2,
    style: "--weight: .7" })));
  const grid = svg("g", { "pointer-events": "none" });
  const frame = svg("rect", { class: "frame", width: CELL - 2, height: CELL - 2,
    "pointer-events": "none" });
  const onkeydown = (event) => {
    const [i, j] = at;
    const step = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1],
      ArrowLeft: [0, -1] }[event.key];
    if (event.key === " " || event.key === "Enter") paint([at], !allowed[i][j]);
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
  // A stroke paints what its first pair becomes. A quick hand jumps over pairs:
  // they are those on the way from the pair before.
  let brush;
  Play.drag(board, ([x, y], first) => {
    const to = [y, x].map((n) => Math.floor((n - 1) / CELL));
    if (to.some((n) => !(n in cells))) return;
    if (first) brush = !allowed[to[0]][to[1]];
    const from = first ? to : at;
    const steps = Math.max(...to.map((n, k) => Math.abs(n - from[k])), 1);
    paint(each(steps, (s) => to.map((n, k) =>
      Math.round(from[k] + (n - from[k]) * (s + 1) / steps))), brush);
  });
  load();
  return [
    html("p", {}, "Choose a mask and a block size, or paint pairs with the mouse or a "
      + "finger: one is enough to make an empty block partial."),
    html("div", { class: "touch-controls" }, Object.values(controls)),
    board, expression, live,
  ];
}, { title: "Block masks: what is skipped", reserve: [110, 80], beside: true });
