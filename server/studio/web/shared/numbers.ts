// Numbers for people: counts, durations, times, tokens, costs, sizes.

export interface Usage {
  calls: number;
  prompt_tokens: number;
  completion_tokens: number;
  cached_tokens?: number;
  cost: number | null;
  /** Calls whose price is not known. */
  unpriced?: number;
  /** Seconds spent waiting for models. */
  seconds?: number;
}

export const count = (number: number): string => number.toLocaleString("en");

export const plural = (number: number, one: string, many = `${one}s`): string => `${count(number)} ${number === 1 ? one : many}`;

const two = (number: number): string => String(number).padStart(2, "0");

export function duration(seconds: number): string {
  if (seconds < 0.0005) return "0 s";
  if (seconds < 0.9995) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 59.95) return `${seconds.toFixed(seconds < 9.95 ? 2 : 1)} s`;
  const whole = Math.round(seconds);
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${two(whole % 60)} s`;
  return `${Math.floor(whole / 3600)} h ${two(Math.floor((whole % 3600) / 60))} min`;
}

/** Seconds since the beginning, as exact as the step between ticks. */
export function clock(seconds: number, step = 0.01): string {
  const digits = step >= 1 ? 0 : step >= 0.1 ? 1 : step >= 0.01 ? 2 : 3;
  if (seconds < 60) return `${seconds.toFixed(digits)} s`;
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor((seconds % 3600) / 60)];
  const rest = (seconds % 60).toFixed(digits).padStart(digits ? digits + 3 : 2, "0");
  return hours ? `${hours}:${two(minutes)}:${rest}` : `${minutes}:${rest}`;
}

/** The price of model calls; never 0 where a price is not known. */
export function price({ calls, cost, unpriced }: Usage): string {
  if (!calls) return "";
  if (!cost && unpriced) return "unknown";
  const known = `${(cost ?? 0).toLocaleString("en", { maximumSignificantDigits: 3 })} USD`;
  return unpriced ? `${known} + ${plural(unpriced, "call")} unpriced` : known;
}

export const cost = (usage: Usage): string => (usage.calls ? `cost ${price(usage)}` : "");

export function tokens(usage: Usage): string {
  if (!usage.calls) return "";
  const cached = usage.cached_tokens ? ` (${count(usage.cached_tokens)} cached)` : "";
  return `${count(usage.prompt_tokens)}${cached} → ${count(usage.completion_tokens)} tokens`;
}

export const bytes = (size: number): string =>
  size < 1024 ? `${size} bytes` : size < 1024 ** 2 ? `${(size / 1024).toFixed(0)} kB` : `${(size / 1024 ** 2).toFixed(1).replace(".0", "")} MB`;
