// Elements. What models and documents say goes through `text` alone, and never becomes markup.

const byId = (id) => document.getElementById(id);

// What could hide or turn around what a text says is shown as what it is: control characters, and overrides of direction.
const HIDING = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b\u202a-\u202e\ufeff]/g;
const plain = (said) => said.replaceAll("\r\n", "\n").replace(HIDING, (one) => `[U+${one.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}]`);
const SAYING = new Set(["textContent", "title", "aria-label"]);

BigInt.prototype.toJSON = function () {
  return JSON.rawJSON?.(String(this)) ?? Number(this); // old browsers round
};

/** The value of JSON text. Large whole numbers are BigInt, because a number of JavaScript rounds them. */
function parsed(text) {
  if (!/\d{16}/.test(text)) return JSON.parse(text);
  return JSON.parse(text, (_, value, { source } = {}) =>
    typeof value === "number" && !Number.isSafeInteger(value) && /^-?\d+$/.test(source) ? BigInt(source) : value);
}

/** An element: its tag, with classes after dots; its properties; what is in it, elements or texts. */
function make(tag, properties = {}, ...children) {
  const [name, ...classes] = tag.split(".");
  const element = document.createElement(name);
  element.className = classes.join(" ");
  for (const [key, given] of Object.entries(properties)) {
    if (given === undefined || given === null || given === false) continue;
    const value = SAYING.has(key) ? plain(String(given)) : given;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key.includes("-") || key === "role") element.setAttribute(key, value);
    else element[key] = value;
  }
  const inside = children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
  element.append(...inside.map((child) => (typeof child === "string" ? plain(child) : child)));
  return element;
}

function makeSvg(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

// How a state looks: a shape of its own, so that colour is never all there is, and what it is called.
const STATES = {
  waiting: { label: "waiting", shape: "M8 3.2a4.8 4.8 0 1 0 .01 0z", hollow: true },
  running: { label: "running", shape: "M5 3l8 5-8 5z" },
  asking: { label: "asks a person", shape: "M5.6 6a2.4 2.4 0 1 1 3.4 2.2c-.7.4-1 .8-1 1.6M8 12.2v.6", hollow: true },
  retrying: { label: "waits to try again", shape: "M12.4 6A5 5 0 1 0 13 9M12.8 2.6V6H9.4", hollow: true },
  done: { label: "done", shape: "M3 8.5l3.3 3.3L13 4.8", hollow: true },
  failed: { label: "failed", shape: "M4 4l8 8M12 4l-8 8", hollow: true },
  fell: { label: "failed; its fallback went on", shape: "M8 3v6M8 12.2v.6", hollow: true },
  stopped: { label: "stopped", shape: "M4 4h8v8H4z" },
  skipped: { label: "skipped", shape: "M3 4l4 4-4 4M9 4l4 4-4 4", hollow: true },
  cached: { label: "from the cache", shape: "M9 2L4 9h4l-1 5 5-7H8z" },
  kept: { label: "kept from before", shape: "M4.5 2.5h7v11L8 10.5l-3.5 3z" },
  reused: { label: "kept from an earlier round", shape: "M2.5 8.5l2.8 2.8L11 5M13 4v8", hollow: true },
  idle: { label: "did not run", shape: "M4 8h8", hollow: true },
  cut: { label: "unfinished: its events end before the run does", shape: "M3 8h2M7 8h2M11 8h2", hollow: true },
};

function icon(state) {
  const { shape, hollow } = STATES[state];
  const path = makeSvg("path", { d: shape });
  return makeSvg("svg", { viewBox: "0 0 16 16", class: `icon ${hollow ? "hollow" : ""} s-${state}`, "aria-hidden": "true" }, path);
}

function sign(shape) {
  return makeSvg("svg", { viewBox: "0 0 16 16", class: "icon hollow", "aria-hidden": "true" }, makeSvg("path", { d: shape }));
}

const SIGNS = {
  play: "M5 3l8 5-8 5z", pause: "M5 3v10M11 3v10", before: "M12 3L6 8l6 5M4 3v10", after: "M4 3l6 5-6 5M12 3v10",
  theme: "M8 2.5a5.5 5.5 0 1 0 .01 0zM8 2.5v11M10 4v8M12 6v4", folded: "M6 4l4 4-4 4", unfolded: "M4 6l4 4 4-4",
};

const MOST_AT_ONCE = 20000;
const MOST_AT_FIRST = 1600;
const MOST_LINES = 24;

/** A text that somebody said; a long one is folded. */
function text(value, kind = "") {
  const said = typeof value === "string" ? value : JSON.stringify(value, null, 2) ?? "";
  const shown = beginning(said);
  const block = make(`pre.text${kind && "." + kind}`, { dir: "auto", textContent: shown });
  if (shown.length === said.length) return block;
  let end = shown.length;
  const more = make("button.more", {
    textContent: `Show ${said.length > MOST_AT_ONCE ? "more" : "all"} (${count(said.length)} characters)`,
    onclick: () => {
      end = end < MOST_AT_ONCE ? Math.min(MOST_AT_ONCE, said.length) : said.length;
      block.textContent = plain(said.slice(0, end));
      more.textContent = `Show all (${count(said.length)} characters)`;
      more.hidden = end >= said.length;
    },
  });
  return make("div", {}, block, more);
}

function beginning(said) {
  let end = Math.min(said.length, said.length > MOST_AT_FIRST * 1.2 ? MOST_AT_FIRST : said.length);
  for (let at = -1, lines = 0; (at = said.indexOf("\n", at + 1)) >= 0 && at < end; ) {
    if (++lines === MOST_LINES && said.length - at > 200) end = at;
  }
  return said.slice(0, end);
}

// Numbers for people

const count = (number) => number.toLocaleString("en");

function plural(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}

function duration(seconds) {
  if (seconds < 0.0005) return "0 s";
  if (seconds < 0.9995) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 59.95) return `${seconds.toFixed(seconds < 9.95 ? 2 : 1)} s`;
  const whole = Math.round(seconds);
  const two = (number) => String(number).padStart(2, "0");
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${two(whole % 60)} s`;
  return `${Math.floor(whole / 3600)} h ${two(Math.floor((whole % 3600) / 60))} min`;
}

/** What models cost; never 0 where a price is not known. */
function cost(usage) {
  if (!usage.calls) return "";
  if (!usage.cost && usage.unpriced) return "cost unknown";
  const known = `cost ${usage.cost.toLocaleString("en", { maximumSignificantDigits: 3 })} USD`;
  return usage.unpriced ? `${known} + ${plural(usage.unpriced, "call")} unpriced` : known;
}

function tokens(usage) {
  if (!usage.calls) return "";
  const cached = usage.cached_tokens ? ` (${count(usage.cached_tokens)} cached)` : "";
  return `${count(usage.prompt_tokens)}${cached} → ${count(usage.completion_tokens)} tokens`;
}
