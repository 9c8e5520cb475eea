// A sentence of the reader's own: BERT's tokenizer and MiniLM up to the heads
// that the page shows, in plain JavaScript. Chapter 2 has the same model in
// Python. The weights, of 8 bits each, are a file of book/figures/sentence.py;
// it is loaded when a reader asks for it. A matrix is an array of rows, and a
// row is a Float32Array.
window.Sentence ??= (() => {
  const LAYERS = 4, HEADS = 12;
  const SIZE = 9368297, FILE = new URL("minilm.data.js", document.currentScript.src).href;
  const weights = {}, rows = new Map();  // tensors by name; rows of words by piece

  // --- the file ---------------------------------------------------------------
  // 96 weights share a scale; a character is 64 more than its weight, in 8 bits.
  const unpack = ([columns, codes, scales]) => {
    const values = new Float32Array(codes.length);
    for (let i = 0; i < codes.length; i += 1) {
      const value = ((codes.charCodeAt(i) - 64) << 24) >> 24;
      values[i] = value * 2 ** (scales.charCodeAt(i / 96) / 8 - 20);
    }
    return Array.from({ length: values.length / columns }, (_, row) =>
      values.subarray(row * columns, (row + 1) * columns));
  };

  const run = (address) => new Promise((done, failed) => {
    const script = Object.assign(document.createElement("script"), { src: address });
    script.onload = done;
    script.onerror = failed;
    document.head.append(script);
  });

  // progress(share) is called while the file comes. A page that is opened as a
  // file may not fetch; it may run a script.
  const load = async (progress) => {
    if (location.protocol === "file:") await run(FILE);
    else {
      const answer = await fetch(FILE), parts = [];
      if (!answer.ok) throw new Error(`${FILE}: ${answer.status}`);
      const reader = answer.body.getReader();
      for (let part, come = 0; !(part = await reader.read()).done;) {
        parts.push(part.value);
        progress((come += part.value.length) / SIZE);
      }
      const type = "text/javascript;charset=utf-8";
      const whole = URL.createObjectURL(new Blob(parts, { type }));
      await run(whole);
      URL.revokeObjectURL(whole);
    }
    const { pieces, ...tensors } = Sentence.model;
    for (const name in tensors) weights[name] = unpack(tensors[name]);
    pieces.split(" ").forEach((piece, row) => rows.set(piece, row));
    delete Sentence.model;
  };

  // --- from characters to pieces ----------------------------------------------
  const IDEOGRAPH = /[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u{20000}-\u{2fa1f}]/gu;
  const SIGN = /[!-/:-@[-`{-~]|\p{P}/gu;

  // Words and signs: lower case, without accents.
  const split = (text) => text.replace(/\s/g, " ").replace(/[\p{C}\ufffd]/gu, "")
    .replace(IDEOGRAPH, " $& ").normalize("NFD").replace(/\p{Mn}/gu, "").toLowerCase()
    .replace(SIGN, " $& ").split(" ").filter(Boolean);

  // The longest piece that begins the word, then the longest that begins the
  // rest; nothing where a letter has no piece.
  const cut = (word) => {
    const pieces = [];
    for (let start = 0, end; start < word.length; start = end) {
      const piece = () => (start ? "##" : "") + word.slice(start, end);
      end = word.length;
      while (end > start && !rows.has(piece())) end -= 1;
      if (end === start) return [];
      pieces.push(piece());
    }
    return pieces;
  };

  // The tokens of a text, [CLS] to [SEP]; words that were cut into pieces, and
  // those that have none; how many words there are past the longest sentence.
  const tokenize = (text) => {
    const words = split(text).map((word) => ({ word, pieces: cut(word) }));
    const tokens = ["[CLS]"], longest = weights.positions.length;
    const fits = ({ pieces }) => tokens.length + pieces.length < longest;
    let read = 0;
    while (read < words.length && fits(words[read])) tokens.push(...words[read++].pieces);
    return { tokens: [...tokens, "[SEP]"], left: words.length - read,
      cut: words.slice(0, read).filter(({ pieces }) => pieces.length > 1),
      unknown: words.filter(({ pieces }) => !pieces.length).map(({ word }) => word) };
  };

  // --- from pieces to attention -----------------------------------------------
  const dot = (a, b) => {  // four sums, which a processor can add side by side
    let i = 0, s = 0, t = 0, u = 0, v = 0;
    for (; i + 3 < a.length; i += 4) {
      s += a[i] * b[i];
      t += a[i + 1] * b[i + 1];
      u += a[i + 2] * b[i + 2];
      v += a[i + 3] * b[i + 3];
    }
    for (; i < a.length; i += 1) s += a[i] * b[i];
    return s + t + u + v;
  };
  const sum = (row) => row.reduce((total, x) => total + x, 0);
  const add = (x, y) => x.map((row, i) => row.map((value, j) => value + y[i][j]));
  const transpose = (x) => Array.from(x[0], (_, j) => Float32Array.from(x, (row) => row[j]));

  // The nine lines of the front page, for one head. Nothing is masked: MiniLM
  // reads in both directions.
  const look = (query, key) => {
    const scale = 1 / Math.sqrt(query[0].length);
    const scores = query.map((q) => Float32Array.from(key, (k) => dot(q, k) * scale));
    return scores.map((row) => {
      const largest = Math.max(...row);
      const exps = row.map((score) => Math.exp(score - largest)), total = sum(exps);
      return exps.map((exp) => exp / total);
    });
  };
  const mix = (weight, value) => {
    const columns = transpose(value);
    return weight.map((row) => Float32Array.from(columns, (column) => dot(row, column)));
  };

  const linear = (x, name) => {  // a weight is read once for all tokens
    const [weight, [bias]] = [weights[`${name}.weight`], weights[`${name}.bias`]];
    return transpose(weight.map((w, i) => Float32Array.from(x, (row) => dot(w, row) + bias[i])));
  };
  const norm = (x, name) => {
    const [[weight], [bias]] = [weights[`${name}.weight`], weights[`${name}.bias`]];
    return x.map((row) => {
      const mean = sum(row) / row.length;
      const centred = row.map((value) => value - mean);
      const deviation = Math.sqrt(dot(centred, centred) / row.length + 1e-12);
      return centred.map((value, i) => value / deviation * weight[i] + bias[i]);
    });
  };
  const splitHeads = (x) => Array.from({ length: HEADS }, (_, head) => x.map((row) =>
    row.subarray(head * row.length / HEADS, (head + 1) * row.length / HEADS)));
  const mergeHeads = (heads) => heads[0].map((_, i) =>
    Float32Array.from(heads.flatMap((head) => [...head[i]])));

  // The error function, to 2e-7: Abramowitz and Stegun 1964, 7.1.26.
  const erf = (x) => {
    const t = 1 / (1 + 0.3275911 * Math.abs(x));
    const series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741
      + t * (-1.453152027 + t * 1.061405429))));
    return Math.sign(x) * (1 - series * Math.exp(-x * x));
  };
  const gelu = (x) => x.map((row) =>
    row.map((value) => value / 2 * (1 + erf(value / Math.SQRT2))));

  // The weights of all heads, layer after layer: maps[head][query][key].
  const attend = (tokens) => {
    const words = tokens.map((token) => weights.words[rows.get(token)]);
    let x = norm(add(words, weights.positions), "embeddings.LayerNorm");
    for (let layer = 0, maps = []; ; layer += 1) {
      const name = `layer.${layer}`;
      const heads = (part) => splitHeads(linear(x, `${name}.attention.self.${part}`));
      const [query, key] = [heads("query"), heads("key")];
      const own = query.map((q, head) => look(q, key[head]));
      maps.push(...own);
      if (layer === LAYERS - 1) return maps;
      const mixed = mergeHeads(heads("value").map((value, head) => mix(own[head], value)));
      const output = linear(mixed, `${name}.attention.output.dense`);
      x = norm(add(x, output), `${name}.attention.output.LayerNorm`);
      const hidden = gelu(linear(x, `${name}.intermediate.dense`));
      x = norm(add(x, linear(hidden, `${name}.output.dense`)), `${name}.output.LayerNorm`);
    }
  };

  return { LAYERS, SIZE, load, tokenize, attend };
})();
