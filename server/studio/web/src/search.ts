// Search by words: in the list of node types, and wherever one of a list is chosen by typing.

/**
 * What contains every word, the best first: what begins with the text, then what has it in its name, then the others in
 * their order. The words of each begin with its name, on a line of its own.
 */
export function ranked<Item>(items: readonly Item[], text: string, wordsOf: (item: Item) => string): Item[] {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return [...items];
  const words = wanted.split(/\s+/);
  const inName = new RegExp(`\\b${escaped(wanted)}`);
  return items
    .map((item) => ({ item, said: wordsOf(item).toLowerCase() }))
    .filter(({ said }) => words.every((word) => said.includes(word)))
    .map(({ item, said }) => ({ item, rank: said.startsWith(wanted) ? 0 : inName.test(said.split("\n")[0] ?? "") ? 1 : 2 }))
    .sort((one, other) => one.rank - other.rank)
    .map(({ item }) => item);
}

const escaped = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
