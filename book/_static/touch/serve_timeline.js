// Chapter 16: sixteen requests on four rows, in fixed batches or step by step.
Play.figure("serve_timeline", (numbers, { expression, live }) => {
  const { html, svg, set, text } = Play;
  const { rows, names, sigmas, pages, page, prompt, answers, static: fixed, continuous } = numbers;
  const most = Math.max(...fixed.map((x) => x.steps), ...continuous.flat().map((x) => x.steps));
  const LEFT = 22, WIDE = 326, TOP = 22, ROW = 19, CELL = WIDE / most, LOW = TOP + rows * ROW;
  const across = (step) => LEFT + step * CELL;
  const list = new Intl.ListFormat("en-GB");
  const many = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;

  // The pages of those that run in a step: of the prompt and the answer so far,
  // what was written before a preemption is computed again.
  const held = (segments, at) => segments.flatMap(([, start, length, request], n) => {
    if (at < start || start + length <= at) return [];
    const before = segments.slice(0, n).filter((x) => x[3] === request)
      .reduce((sum, x) => sum + x[2], 0);
    return [[names[request], Math.ceil((prompt + before + at - start) / page)]];
  });
  const chart = (about, title, low) => {
    const bars = svg("g", { class: "bars" }), lost = svg("g", { class: "lost" });
    const end = svg("path", { class: "end" }), hand = svg("path", { class: "hand" });
    const said = text(LEFT, 14, title);
    const store = svg("g", { class: "bars pages" }), stored = text(LEFT, LOW + 37);
    const draw = ({ steps, segments, preempted }, at, memory) => {
      said.textContent = `${title}: ${steps} steps`;
      bars.replaceChildren(...segments.map(([row, start, length, request]) => {
        const [x, y] = [across(start), TOP + row * ROW];
        const on = start <= at && at < start + length;
        return svg("g", { class: `${request % 2 ? "odd" : "even"}${on ? " on" : ""}`,
          "data-segment": [row, start, length, request].join(" ") },
        svg("rect", { x, y: y + 2, width: length * CELL - 0.8, height: ROW - 4, rx: 2 }),
        length * CELL > 10 ? text(x + length * CELL / 2, y + 15, names[request], "middle") : [],
        svg("title", {}, `${names[request]}: steps ${start + 1} to ${start + length}`));
      }));
      lost.replaceChildren(...preempted.map(([row, step, request]) => svg("path", {
        "data-lost": [row, step, request].join(" "),
        d: `M${across(step) - 4} ${TOP + row * ROW + 6}l8 8m0 -8l-8 8` })));
      set(end, { d: `M${across(steps)} ${TOP - 4}V${LOW + 4}` });
      set(hand, { d: `M${across(at + 0.5)} ${TOP - 2}V${LOW + 2}` });
      if (!memory) return;
      const taken = held(segments, at).flatMap(([name, n]) => Array(n).fill(name)), side = WIDE / 32;
      store.replaceChildren(...Array.from({ length: memory }, (_, i) => svg("g", {
        class: taken[i] ? `taken ${names.indexOf(taken[i]) % 2 ? "odd" : "even"}` : "free",
        "data-page": taken[i] ?? "" },
      svg("rect", { x: LEFT + i * side, y: LOW + 43, width: side - 1.4, height: 17, rx: 2 }),
      taken[i] && taken[i] !== taken[i - 1]
        ? text(LEFT + (i + 0.45) * side, LOW + 56, taken[i], "middle") : [])));
      stored.textContent = `pages: ${taken.length} of ${memory} taken`;
    };
    const ticks = [0, 20, 40, 60].filter((x) => x <= most).map((x) =>
      text(across(x), LOW + 18, x, "middle"));
    const numbers_ = [...Array(rows).keys()].map((row) =>
      text(12, TOP + row * ROW + 15, row, "middle"));
    const board = Play.board("timeline sideways", `0 0 360 ${LOW + (low ? 64 : 26)}`, about, said,
      numbers_, ticks, end, bars, lost, hand, low ? [store, stored] : []);
    return { draw, board: Play.drag(board, ([x]) =>
      controls.step.set(Math.floor((x - LEFT) / CELL) + 1)) };
  };
  const boards = {
    fixed: chart("Four rows by steps, in fixed batches: behind a short answer its row is empty "
      + "until the longest of the batch has ended.", "fixed batches"),
    continuous: chart("The same requests, where a free row takes the next one at once; a cross "
      + "is where a request was preempted. Below, the pages that are taken.", "continuous", true),
  };
  const used = ({ segments, steps }) =>
    Math.round(100 * segments.reduce((sum, x) => sum + x[2], 0) / (rows * steps));
  const during = ({ segments }, at) => segments.filter(([, start, length]) =>
    start <= at && at < start + length).map((x) => names[x[3]]).sort();
  const running = (way, at) => {
    const here = during(way, at);
    if (!here.length) return "nothing is left";
    return `${list.format(here)} ${here.length === 1 ? "runs" : "run"}`;
  };

  const show = () => {
    const i = controls.ragged.value(), j = controls.pages.value(), at = controls.step.value() - 1;
    const one = fixed[i], two = continuous[i][j];
    boards.fixed.draw(one, at);
    boards.continuous.draw(two, at, pages[j]);
    const gone = two.preempted.filter(([, step]) => step === at).map((x) => names[x[2]]);
    const lengths = [Math.min(...answers[i]), Math.max(...answers[i])];
    expression.show("attn.serving.simulate(requests, step_time, attn.serving.Scheduler(\n"
      + `    attn.PageAllocator(${pages[j]}, page_size=4), max_num_seqs=${rows}))`);
    live.say(`Answers of ${lengths[0]} to ${lengths[1]} tokens, ${pages[j]} pages of 4. `
      + `Fixed batches take ${one.steps} steps and use ${used(one)} % of the rows; continuous, `
      + `${two.steps} steps and ${used(two)} %, with ${many(two.preempted.length, "preemption")} `
      + `and ${two.computed} tokens computed. Step ${at + 1}: in fixed batches `
      + `${running(one, at)}; continuous, ${running(two, at)}`
      + `${gone.length ? `, and ${list.format(gone)} lost the pages` : ""}.`);
  };
  const controls = {
    ragged: Play.slider("raggedness", 0, sigmas.length - 1, 4, show, (i) => `${sigmas[i]}`),
    pages: Play.slider("pages", 0, pages.length - 1, 4, show, (i) => `${pages[i]}`),
    step: Play.steps("step", most, 12, show, String, { pace: 400 }),
  };
  show();
  return [
    html("p", {}, "Make the answers more unequal, or take pages away until requests lose theirs. "
      + "A bar is a request on its row; then walk through the steps."),
    html("div", { class: "touch-controls" }, Object.values(controls)),
    html("div", { class: "touch-panels" }, boards.fixed.board, boards.continuous.board),
    html("p", { class: "touch-legend" }, [["now", "runs in this step"], ["lost", "preempted: "
      + "its pages are gone"], ["", "two colours, to tell neighbours apart"]].map(
      ([kind, words]) => html("span", { class: kind }, words))),
    live, expression,
  ];
}, { title: "A schedule, step by step", reserve: [272, 104], instead: true, long: true });
