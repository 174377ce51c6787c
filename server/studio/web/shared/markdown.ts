// Markdown as elements: markdown-it reads it, and each of its tokens becomes an element, so that no text becomes markup.

import MarkdownIt, { type Token } from "markdown-it";
import { make } from "./dom";
import { parsed } from "./exact";
import { visible } from "./visible";

const LINK = /^https?:\/\/[^\s"<>]+$/i;
export const FILE = /^data\/runs\/[\w-]+\/files\/\d+$/; // a file of a run, on the page's own server

const reader = new MarkdownIt("default", { html: false, linkify: false, typographer: false });
reader.validateLink = (url) => LINK.test(url) || FILE.test(url); // all else stays text

export function markdown(text: string): Node[] {
  const root = new DocumentFragment();
  add(root, reader.parse(text, {}));
  for (const table of root.querySelectorAll("table:not(.chart)")) {
    const region = make("div.wide", { tabIndex: 0, role: "region", "aria-label": "Table" });
    table.replaceWith(region);
    region.append(table);
  }
  return [...root.childNodes];
}

function add(root: ParentNode & Node, tokens: readonly Token[]): void {
  let here: Node = root;
  for (const token of tokens) {
    if (token.hidden) continue; // the paragraphs of a list without empty lines
    if (token.nesting < 0) here = here.parentNode ?? root;
    else if (token.type === "inline") add(here as Element, token.children ?? []);
    else {
      const made = nodeOf(token);
      here.appendChild(made);
      if (token.nesting > 0) here = made;
    }
  }
}

function nodeOf(token: Token): Node {
  const { type, tag, content } = token;
  switch (type) {
    case "softbreak":
      return new Text("\n");
    case "code_inline":
      return make("code", { textContent: content });
    case "fence":
    case "code_block":
      return (token.info.trim() === "echarts" && chart(content)) || make("pre.code", { tabIndex: 0 }, make("code", { textContent: content.replace(/\n$/, "") }));
    case "link_open": {
      const href = String(token.attrGet("href"));
      return make("a", { href, target: "_blank", rel: "noopener noreferrer", title: href });
    }
    case "image": {
      const source = String(token.attrGet("src"));
      return FILE.test(source) ? make("img", { src: source, alt: visible(content) }) : make("span.no-picture", { textContent: `![${content}](${source})` }); // others' pictures are not fetched
    }
    case "heading_open":
      return make(`h${Math.min(6, Number(tag.slice(1)) + 3)}.${tag}`); // below the headings of the page
  }
  if (!tag) return new Text(visible(content));
  const element = make(tag);
  const start = token.attrGet("start");
  if (start !== null) (element as HTMLOListElement).start = Number(start);
  const align = /text-align:(\w+)/.exec(String(token.attrGet("style")))?.[1];
  if (align) element.style.textAlign = align;
  return element;
}

interface Series {
  data?: (number | { name?: string; value?: number })[];
}

/** A chart of the node type echarts: its numbers as a table with bars; null where a table cannot say as much. */
function chart(option: string): HTMLElement | null {
  let said;
  try {
    said = parsed<{ title?: { text?: string }; xAxis?: { data?: unknown[] }; series?: Series[] } | null>(option);
  } catch {
    return null;
  }
  const [series, more] = said?.series ?? [];
  if (!said || !Array.isArray(series?.data) || more) return null;
  const rows = series.data.map((each, at): [string, number] =>
    typeof each === "number" ? [String(said.xAxis?.data?.[at] ?? at + 1), each] : [String(each?.name ?? at + 1), Number(each?.value)]);
  const most = Math.max(...rows.map(([, value]) => value));
  if (!rows.length || rows.some(([, value]) => !Number.isFinite(value))) return null;
  const bars = rows.every(([, value]) => value >= 0) && most > 0;
  return make("table.chart", {},
    make("caption", { textContent: said.title?.text ?? "" }),
    make("tbody", {}, rows.map(([name, value]) => make("tr", {},
      make("th", { scope: "row", textContent: name }), make("td.number", { textContent: value }),
      bars && make("td", {}, make("progress", { "aria-label": name, max: most, value }))))));
}
