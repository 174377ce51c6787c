// Faults that an evaluator finds, and their places.

/** What is wrong in an operator's result. */
export interface Fault {
  operator: string;
  item: number | null;
  wrong: string;
  right: string;
  lesson: string;
  sure: boolean;
}

export const MOST_FAULTS = 50;
const LONGEST_QUOTE = 2000;

export const quoted = (text: string): string => (text.length > LONGEST_QUOTE ? `${text.slice(0, LONGEST_QUOTE)}…` : text);

/** The place of a fault: the operator with the index of the item. */
export const placeOf = ({ operator, item }: Pick<Fault, "operator" | "item">): string => (item === null || item === undefined ? operator : `${operator}[${item}]`);

/** Whether a place, such as sums[3] or draft/body, is that of an operator or of a part of it. */
export const concerns = (place: string, operator: string): boolean => place === operator || place.startsWith(`${operator}/`) || place.startsWith(`${operator}[`);
