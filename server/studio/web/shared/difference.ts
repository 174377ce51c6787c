// What has changed from one text to another: the longest common subsequence of its words, or of its lines where it is long.

import { count } from "./numbers";

const MOST_COMPARED = 4_000_000; // cells of the table
const LONGEST_SAME = 1200;

export interface Piece {
  kind: "same" | "gone" | "new";
  text: string;
}

/** The pieces of both texts in order; null where they are too long to compare. */
export function difference(before: string, after: string): Piece[] | null {
  const words = /\p{Script=Han}|\p{Script=Hiragana}|\p{Script=Katakana}|[\p{L}\p{N}\p{M}_]+|\s+|[^]/gu;
  const lines = /[^\n]*\n|[^\n]+/g;
  const of = (parts: RegExp): Piece[] | null => compared(before.match(parts) ?? [], after.match(parts) ?? []);
  const pieces = of(words) ?? of(lines);
  return pieces && gathered(pieces).map(shortened);
}

/** As few pieces as read well: what is the same by chance between two changes, a word or a full stop, is part of them. */
function gathered(pieces: readonly Piece[]): Piece[] {
  const made: Piece[] = [];
  let [gone, fresh] = ["", ""];
  const end = (): void => {
    if (gone) made.push({ kind: "gone", text: gone });
    if (fresh) made.push({ kind: "new", text: fresh });
    [gone, fresh] = ["", ""];
  };
  pieces.forEach((piece, at) => {
    const { kind, text } = piece;
    const byChance = kind === "same" && at && at < pieces.length - 1 && !text.includes("\n") && (text.match(/[\p{L}\p{N}]/gu) ?? []).length < 4;
    if (kind === "same" && !byChance) {
      end();
      made.push(piece);
      return;
    }
    if (kind !== "new") gone += text;
    if (kind !== "gone") fresh += text;
  });
  end();
  return made;
}

function compared(a: readonly string[], b: readonly string[]): Piece[] | null {
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
  const [x, y] = [a.slice(start, a.length - end), b.slice(start, b.length - end)];
  if (x.length * y.length > MOST_COMPARED) return null;
  const pieces: Piece[] = [];
  const add = (kind: Piece["kind"], text = ""): void => {
    const last = pieces.at(-1);
    if (last?.kind === kind) last.text += text;
    else pieces.push({ kind, text });
  };
  a.slice(0, start).forEach((piece) => add("same", piece));
  const width = y.length + 1;
  const table = new Uint32Array((x.length + 1) * width); // the length of the longest one from here on
  const longest = (i: number, j: number): number => table[i * width + j] ?? 0;
  for (let i = x.length - 1; i >= 0; i--) {
    for (let j = y.length - 1; j >= 0; j--) {
      table[i * width + j] = x[i] === y[j] ? longest(i + 1, j + 1) + 1 : Math.max(longest(i + 1, j), longest(i, j + 1));
    }
  }
  for (let i = 0, j = 0; i < x.length || j < y.length; ) {
    if (i < x.length && j < y.length && x[i] === y[j]) {
      add("same", x[i++]);
      j++;
    } else if (j >= y.length || (i < x.length && longest(i + 1, j) >= longest(i, j + 1))) add("gone", x[i++]);
    else add("new", y[j++]);
  }
  a.slice(a.length - end).forEach((piece) => add("same", piece));
  return pieces;
}

/** Of long stretches that are the same only the ends. */
function shortened({ kind, text }: Piece): Piece {
  if (kind !== "same" || text.length <= LONGEST_SAME) return { kind, text };
  return { kind, text: `${text.slice(0, 500)}\n[… ${count(text.length - 1000)} characters that are the same …]\n${text.slice(-500)}` };
}
