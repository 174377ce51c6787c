// Markdown of a run's texts. No HTML passes through, no picture of others is fetched, links open elsewhere.

import MarkdownIt from "markdown-it";
import { type ReactElement, useMemo } from "react";

const markdown = new MarkdownIt("default", { html: false, linkify: false, typographer: false });

markdown.renderer.rules["image"] = (tokens, at) => {
  const token = tokens[at];
  const source = String(token?.attrGet("src") ?? "");
  const name = markdown.utils.escapeHtml(token?.content ?? "");
  if (/^data\/runs\/[\w-]+\/files\/\d+$/.test(source)) return `<img src="${source}" alt="${name}">`; // of this run
  return `<span class="no-picture">${markdown.utils.escapeHtml(token?.content || "picture")}</span>`;
};
markdown.renderer.rules["link_open"] = (tokens, at, options, _, self) => {
  tokens[at]?.attrSet("target", "_blank");
  tokens[at]?.attrSet("rel", "noopener noreferrer");
  return self.renderToken(tokens, at, options);
};
// A chart of the node type echarts: its numbers as a table with bars.
const fence = markdown.renderer.rules["fence"];
markdown.renderer.rules["fence"] = (tokens, at, options, env, self) => {
  const token = tokens[at];
  const drawn = token?.info.trim() === "echarts" ? chart(token.content) : null;
  return drawn ?? fence?.(tokens, at, options, env, self) ?? "";
};

interface Series {
  data?: (number | { name?: string; value?: number })[];
}

function chart(option: string): string | null {
  let said;
  try {
    said = JSON.parse(option) as { title?: { text?: string }; xAxis?: { data?: unknown[] }; series?: Series[] } | null;
  } catch {
    return null;
  }
  const [series, more] = said?.series ?? [];
  if (!said || !Array.isArray(series?.data) || more) return null; // of several series, the option says more than a table can
  const rows = series.data.map((each, at): [string, number] =>
    typeof each === "number" ? [String(said.xAxis?.data?.[at] ?? at + 1), each] : [String(each?.name ?? at + 1), Number(each?.value)]);
  const most = Math.max(...rows.map(([, value]) => value));
  if (!rows.length || rows.some(([, value]) => !Number.isFinite(value))) return null;
  const bars = rows.every(([, value]) => value >= 0) && most > 0;
  const escaped = markdown.utils.escapeHtml;
  const lines = rows.map(([name, value]) =>
    `<tr><th scope="row">${escaped(name)}</th><td class="number">${value}</td>${bars ? `<td><progress aria-label="${escaped(name)}" max="${most}" value="${value}"></progress></td>` : ""}</tr>`);
  return `<table class="chart"><caption>${escaped(String(said.title?.text ?? ""))}</caption><tbody>${lines.join("")}</tbody></table>`;
}

// The page's policy allows no style attributes; a class does as well.
for (const cell of ["th_open", "td_open"]) {
  markdown.renderer.rules[cell] = (tokens, at, options, _, self) => {
    const token = tokens[at];
    if (token?.attrs) token.attrs = token.attrs.filter(([name]) => name !== "style");
    return self.renderToken(tokens, at, options);
  };
}

export default function Markdown({ text }: { text: string }): ReactElement {
  const html = useMemo(() => markdown.render(text), [text]);
  return <div className="markdown" dir="auto" dangerouslySetInnerHTML={{ __html: html }} />;
}
