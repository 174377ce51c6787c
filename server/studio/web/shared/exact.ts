// JSON whose large whole numbers stay exact: they are BigInt here, because a number of JavaScript rounds them.

const WHOLE = /^-?\d+$/;

interface Raw {
  rawJSON?(text: string): unknown;
}

declare global {
  interface BigInt {
    toJSON(): unknown;
  }
}

BigInt.prototype.toJSON = function (this: bigint): unknown {
  return (JSON as Raw).rawJSON?.(String(this)) ?? Number(this); // old browsers round
};

/** The number that a text is. */
export function numberOf(text: string): number | bigint {
  const value = Number(text);
  return Number.isSafeInteger(value) || !WHOLE.test(text) ? value : BigInt(text);
}

/** The value of JSON text. */
export function parsed<Value>(text: string): Value {
  if (!/\d{16}/.test(text)) return JSON.parse(text) as Value;
  const revived = (_: string, value: unknown, context?: { source?: string }): unknown =>
    typeof value === "number" ? numberOf(context?.source ?? String(value)) : value;
  return JSON.parse(text, revived) as Value;
}

/** The text of a number for its field; empty for other values. */
export const numberText = (value: unknown): string => (typeof value === "number" || typeof value === "bigint" ? String(value) : "");

/** The list or object that a text is as JSON; undefined for any other text. */
export function structured<Value>(text: string): Value | undefined {
  if (!/^\s*[[{]/.test(text)) return undefined;
  try {
    return parsed<Value>(text);
  } catch {
    return undefined;
  }
}
