// Chapter 10: a cache that fills token by token, and what it forgets.
Play.figure("cache_slots", ({ most, bytes }, { expression, live }) => {
  const { html, svg, set, text } = Play;
  const LEFT = 88, CELL = 18, ROW = 26;
  const range = (n) => Array.from({ length: n }, (_, i) => i);
  const many = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;
  // "0, 1 and 5 to 8": runs of three or more have an end only.
  const runs = (numbers) => {
    const found = numbers.reduce((all, n) => {
      if (n === all.at(-1)?.at(-1) + 1) all.at(-1).push(n);
      else all.push([n]);
      return all;
    }, []).flatMap((run) => (run.length < 3 ? run : [`${run[0]} to ${run.at(-1)}`]));
    const last = found.pop();
    return found.length ? `${found.join(", ")} and ${last}` : `${last}`;
  };

  const show = () => {
    const read = controls.token.value(), kind = controls.cache.value();
    const window = controls.window.value(), sinks = controls.sinks.value();
    const slides = kind === "sliding";
    controls.window.enable(slides);
    controls.sinks.enable(slides);
    // The tokens whose keys this step attends to, in the order of the memory.
    const held = range(read).filter((t) => !slides || t < sinks || t > read - 1 - window);
    const slots = kind === "static" ? most : held.length;
    const kept = slides ? Math.min(read, sinks + window - 1) : slots;

    const on = {
      text: (i) => held.includes(i),
      cache: (i) => i < held.length,
      mask: (i) => i < held.length,
      computed: (i) => i === read - 1,
      "without it": (i) => i < read,
    };
    for (const [name, cells] of Object.entries(rows)) {
      const ends = name === "cache" || name === "mask" ? slots : most;
      cells.forEach(({ group, rect, says }, i) => {
        set(group, { visibility: i < ends ? "visible" : "hidden" });
        set(rect, { class: on[name](i) ? "on" : "off" });
        says.textContent = name === "text" ? i
          : name === "cache" ? held[i] ?? "" : name === "mask" ? Number(i < held.length) : "";
      });
    }
    set(frames.text, { x: LEFT + (read - 1) * CELL });
    set(frames.cache, { x: LEFT + (held.length - 1) * CELL });

    expression.show(`attn.cache.${{ dynamic: "DynamicCache()",
      static: `StaticCache(1, 3, ${most}, 64)`,
      sliding: `SlidingCache(${window}, num_sink_tokens=${sinks})` }[kind]}`);
    const forgotten = read - held.length;
    const place = held.findIndex((t, i) => t !== i);
    live.say(`Token ${read - 1}: ${many(1, "row")} computed, ${read} without a cache; so far `
      + `${read} and ${read * (read + 1) / 2}. It attends to ${many(held.length, "key")}: `
      + `${runs(held)}. `
      + (forgotten ? `Forgotten: ${runs(range(read).filter((t) => !held.includes(t)))}. ` : "")
      + (place > 0 ? `Slot ${place} has token ${held[place]}: StreamingLLM rotates it to `
        + `position ${place}. ` : "")
      + (slots > held.length ? `The mask hides ${many(slots - held.length, "empty slot")}. ` : "")
      + `Memory for the next step: ${many(kept, kind === "static" ? "slot" : "key")}, `
      + `${(kept * bytes / 1000).toFixed(0)} kB in SmolLM2.`);
  };

  const controls = {
    token: Play.steps("tokens read", most, 9, show),
    cache: Play.choice("cache", [["dynamic", "dynamic"], ["static", "static"],
      ["sliding", "sliding window"]], show),
    window: Play.slider("window", 1, 8, 4, show),
    sinks: Play.slider("sinks", 0, 4, 2, show),
  };
  const names = ["text", "cache", "mask", "computed", "without it"];
  const top = (name) => 6 + names.indexOf(name) * ROW;
  const rows = Object.fromEntries(names.map((name) => [name, range(most).map((i) => {
    const x = LEFT + i * CELL;
    const rect = svg("rect", { x, y: top(name), width: CELL - 2, height: CELL,
      style: `--weight: ${names.indexOf(name) < 3 ? 0.25 : 1}` });
    const says = text(x + CELL / 2 - 1, top(name) + 13.5, "", "middle");
    return { rect, says, group: svg("g", {}, rect, says) };
  })]));
  const frames = Object.fromEntries(["text", "cache"].map((name) => [name, svg("rect",
    { class: "frame", y: top(name) - 1, width: CELL - 2, height: CELL + 2 })]));
  const board = Play.board("slots", `0 0 ${LEFT + most * CELL} ${names.length * ROW + 6}`,
    "The text, the cache's slots, their mask, and the rows computed.",
    names.map((name) => svg("g", { class: name.replace(" ", "-") },
      text(LEFT - 8, top(name) + 13.5, name, "end"), rows[name].map(({ group }) => group))),
    Object.values(frames));
  show();
  return [
    html("p", {}, "Press Next: a token is read. Blue slots hold the keys that it attends to, "
      + "by the number of their token; the last two rows are what this step computes, with "
      + "the cache and without."),
    html("div", { class: "touch-controls" }, Object.values(controls)),
    board, expression, live,
  ];
});
