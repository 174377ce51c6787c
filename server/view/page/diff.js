// What has changed from one text to another: the longest common subsequence of its words, or of its lines where it is long.

const MOST_COMPARED = 4_000_000; // cells of the table

/** Pieces in order: {kind: "same" | "gone" | "new", text}; null where the texts are too long to compare. */
function difference(before, after) {
  const words = /\p{Script=Han}|\p{Script=Hiragana}|\p{Script=Katakana}|[\p{L}\p{N}\p{M}_]+|\s+|[^]/gu;
  const lines = /[^\n]*\n|[^\n]+/g;
  const of = (parts) => compared(before.match(parts) ?? [], after.match(parts) ?? []);
  const pieces = of(words) ?? of(lines);
  return pieces && gathered(pieces);
}

/** As few pieces as read well: what is the same by chance between two changes, a word or a full stop, is part of them. */
function gathered(pieces) {
  const made = [];
  let [gone, fresh] = ["", ""];
  const end = () => {
    if (gone) made.push({ kind: "gone", text: gone });
    if (fresh) made.push({ kind: "new", text: fresh });
    [gone, fresh] = ["", ""];
  };
  pieces.forEach(({ kind, text: said }, at) => {
    const byChance = kind === "same" && at && at < pieces.length - 1 && !said.includes("\n") && (said.match(/[\p{L}\p{N}]/gu) ?? []).length < 4;
    if (kind === "same" && !byChance) {
      end();
      made.push({ kind, text: said });
      return;
    }
    if (kind !== "new") gone += said;
    if (kind !== "gone") fresh += said;
  });
  end();
  return made;
}

function compared(a, b) {
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
  const [x, y] = [a.slice(start, a.length - end), b.slice(start, b.length - end)];
  if (x.length * y.length > MOST_COMPARED) return null;
  const pieces = [];
  const add = (kind, piece) => {
    const last = pieces.at(-1);
    if (last?.kind === kind) last.text += piece;
    else pieces.push({ kind, text: piece });
  };
  a.slice(0, start).forEach((piece) => add("same", piece));
  const width = y.length + 1;
  const table = new Uint32Array((x.length + 1) * width); // the length of the longest one from here on
  for (let i = x.length - 1; i >= 0; i--) {
    for (let j = y.length - 1; j >= 0; j--) {
      table[i * width + j] = x[i] === y[j] ? table[(i + 1) * width + j + 1] + 1 : Math.max(table[(i + 1) * width + j], table[i * width + j + 1]);
    }
  }
  for (let i = 0, j = 0; i < x.length || j < y.length; ) {
    if (i < x.length && j < y.length && x[i] === y[j]) add("same", x[i++], j++);
    else if (j >= y.length || (i < x.length && table[(i + 1) * width + j] >= table[i * width + j + 1])) add("gone", x[i++]);
    else add("new", y[j++]);
  }
  a.slice(a.length - end).forEach((piece) => add("same", piece));
  return pieces;
}

/** Both texts as one, what is gone struck out and what is new underlined. */
function changes(before, after) {
  if (before === after) return make("p.soft", { textContent: "It said the same." });
  const pieces = difference(before, after);
  if (!pieces) return make("div.both", {}, make("h4", { textContent: "before" }), text(before), make("h4", { textContent: "after" }), text(after));
  const marks = { same: "span", gone: "del", new: "ins" };
  return make("pre.text.diff", { dir: "auto" }, pieces.map(({ kind, text: said }) => make(marks[kind], { textContent: shortened(kind, said) })));
}

/** Of long stretches that are the same only the ends. */
function shortened(kind, said) {
  return kind === "same" && said.length > 1200 ? `${said.slice(0, 500)}\n[… ${count(said.length - 1000)} characters that are the same …]\n${said.slice(-500)}` : said;
}
