// Markdown as elements: headings, lists, tables, quotes, code, emphasis, links to http. HTML and all else stays text.

const MARKUP = /(^|\n)\s{0,3}(#{1,6} |[-*+] |\d+[.)] |> |```|~~~|\|.+\|)|\*\*\S|`[^`\n]+`|\[[^\]\n]+\]\(https?:/;
const DEEPEST = 6;
const LONGEST_LINE = 5000; // characters of a line in which marks are looked for

/** A text that somebody said, formatted where it is Markdown; the reader can have it as text. */
function rich(value) {
  if (typeof value !== "string" || !MARKUP.test(value.slice(0, MOST_AT_ONCE))) return text(value, typeof value === "string" ? "" : "code");
  const shown = beginning(value);
  const formatted = make("div.rich", { dir: "auto" }, blocks(shown.split("\n")));
  const asText = text(value);
  asText.hidden = true;
  const box = make("div.said-text", {}, formatted, asText);
  const turn = make("button.more", {
    textContent: "As text",
    onclick: () => {
      formatted.hidden = !formatted.hidden;
      asText.hidden = !asText.hidden;
      turn.textContent = formatted.hidden ? "Formatted" : "As text";
      if (more) more.hidden = formatted.hidden || more.done;
    },
  });
  const more = shown.length < value.length ? make("button.more", {
    textContent: `Show ${value.length > MOST_AT_ONCE ? "more" : "all"} (${count(value.length)} characters)`,
    onclick: () => {
      formatted.replaceChildren(...blocks(value.slice(0, MOST_AT_ONCE).split("\n")));
      more.hidden = more.done = true;
    },
  }) : null;
  box.append(...[more, turn].filter(Boolean));
  return box;
}

const FENCE = /^\s{0,3}(```+|~~~+)/;
const HEADING = /^\s{0,3}(#{1,6})\s+(.*)$/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const QUOTE = /^\s{0,3}>\s?(.*)$/;
const RULE = /^\s{0,3}([-*_])(\s*\1){2,}\s*$/;
const COLUMNS = /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;

/** The elements of lines. */
function blocks(lines, depth = 0) {
  const made = [];
  let paragraph = [];
  const end = () => {
    if (paragraph.length) made.push(make("p", {}, inline(paragraph.join("\n"))));
    paragraph = [];
  };
  for (let at = 0; at < lines.length; at++) {
    const line = lines[at];
    const fence = FENCE.exec(line);
    const heading = HEADING.exec(line);
    const nested = depth < DEEPEST;
    if (fence) {
      end();
      const from = ++at;
      while (at < lines.length && !lines[at].trimStart().startsWith(fence[1])) at++;
      made.push(make("pre.text.code", { tabIndex: 0, textContent: lines.slice(from, at).join("\n") }));
    } else if (heading) {
      end();
      made.push(make(`p.h.h${heading[1].length}`, { role: "heading", "aria-level": String(Math.min(6, heading[1].length + 3)) }, inline(heading[2].replace(/\s#+\s*$/, ""))));
    } else if (RULE.test(line)) {
      end();
      made.push(make("hr"));
    } else if (nested && QUOTE.test(line)) {
      end();
      const from = at;
      while (at + 1 < lines.length && QUOTE.test(lines[at + 1])) at++;
      made.push(make("blockquote", {}, blocks(lines.slice(from, at + 1).map((each) => QUOTE.exec(each)[1]), depth + 1)));
    } else if (nested && ITEM.test(line)) {
      end();
      const [list, last] = listOf(lines, at, depth);
      made.push(list);
      at = last;
    } else if (line.includes("|") && at + 1 < lines.length && lines[at + 1].includes("-") && COLUMNS.test(lines[at + 1])) {
      end();
      const from = at;
      at++;
      while (at + 1 < lines.length && lines[at + 1].includes("|")) at++;
      made.push(tableOf(lines[from], lines.slice(from + 2, at + 1)));
    } else if (line.trim()) paragraph.push(line);
    else end();
  }
  end();
  return made;
}

/** A list that begins at a line, and its last line. */
function listOf(lines, at, depth) {
  const [, indent, mark] = ITEM.exec(lines[at]);
  const ordered = /\d/.test(mark);
  const items = [];
  let last = at;
  for (let here = at; here < lines.length; here++) {
    const item = ITEM.exec(lines[here]);
    if (item && item[1].length <= indent.length + 1 && item[1].length >= indent.length - 1) {
      if (/\d/.test(item[2]) !== ordered) break;
      items.push([item[3]]);
    } else if (item ? item[1].length > indent.length : /^\s{2,}\S/.test(lines[here])) items.at(-1).push(lines[here].slice(Math.min(indent.length + 2, /^\s*/.exec(lines[here])[0].length)));
    else if (!lines[here].trim() && here + 1 < lines.length && (ITEM.test(lines[here + 1]) || /^\s{2,}\S/.test(lines[here + 1]))) items.at(-1).push("");
    else break;
    last = here;
  }
  const list = make(ordered ? "ol" : "ul", {}, items.map((each) => {
    const inside = blocks(each, depth + 1);
    return make("li", {}, inside.length === 1 && inside[0].tagName === "P" ? [...inside[0].childNodes] : inside);
  }));
  if (ordered) list.start = Number.parseInt(mark, 10);
  return [list, last];
}

function tableOf(head, rows) {
  const cells = (line) => line.trim().replace(/^\||\|$/g, "").split(/(?<!\\)\|/).map((each) => each.trim().replaceAll("\\|", "|"));
  const names = cells(head);
  return make("div.wide", { tabIndex: 0, role: "region", "aria-label": "Table" }, make("table", {},
    make("thead", {}, make("tr", {}, names.map((name) => make("th", { scope: "col" }, inline(name))))),
    make("tbody", {}, rows.map((row) => make("tr", {}, cells(row).slice(0, names.length).map((cell) => make("td", {}, inline(cell))))))));
}

const MARKS = [["**", "strong"], ["__", "strong"], ["~~", "s"], ["*", "em"], ["_", "em"]];

/** Texts and elements of a line: code, emphasis, links. A mark without its end stays as it is. */
function inline(said, depth = 0) {
  if (said.length > LONGEST_LINE || depth > DEEPEST) return [said];
  const made = [];
  const endless = new Set(); // marks that do not come again
  let plainFrom = 0;
  const put = (at, element, end) => {
    if (at > plainFrom) made.push(said.slice(plainFrom, at));
    made.push(element);
    plainFrom = end;
    return end;
  };
  for (let at = 0; at < said.length; ) {
    if (said[at] === "\\" && /[\\`*_~[\]()#|!>-]/.test(said[at + 1] ?? "")) at = put(at, said[at + 1], at + 2);
    else if (said[at] === "`") {
      const mark = /^`+/.exec(said.slice(at))[0];
      const end = endless.has(mark) ? -1 : said.indexOf(mark, at + mark.length);
      if (end < 0) {
        endless.add(mark);
        at += mark.length;
      } else at = put(at, make("code", { textContent: said.slice(at + mark.length, end) }), end + mark.length);
    } else if (said[at] === "[") at = linkAt(said, at, endless, put) ?? at + 1;
    else at = emphasisAt(said, at, depth, endless, put) ?? at + 1;
  }
  if (plainFrom < said.length) made.push(said.slice(plainFrom));
  return made;
}

/** A link to a page on the web; to anything else it stays text, and so does a picture, which would be fetched. */
function linkAt(said, at, endless, put) {
  if (said[at - 1] === "!" || endless.has("](")) return undefined;
  const middle = said.indexOf("](", at);
  const end = middle < 0 ? -1 : said.indexOf(")", middle);
  if (end < 0) {
    endless.add("](");
    return undefined;
  }
  const [label, href] = [said.slice(at + 1, middle), said.slice(middle + 2, end)];
  if (!label || label.includes("[") || !/^https?:\/\/[^\s"<>]+$/.test(href)) return undefined;
  return put(at, make("a", { href, target: "_blank", rel: "noopener noreferrer", title: href, textContent: label }), end + 1);
}

function emphasisAt(said, at, depth, endless, put) {
  for (const [mark, tag] of MARKS) {
    if (!said.startsWith(mark, at) || endless.has(mark) || /\s/.test(said[at + mark.length] ?? " ")) continue;
    if (mark[0] === "_" && /[\p{L}\p{N}]/u.test(said[at - 1] ?? "")) continue;
    let end = said.indexOf(mark, at + mark.length + 1);
    if (mark.length === 1) while (end > 0 && (said[end + 1] === mark || said[end - 1] === mark)) end = said.indexOf(mark, end + 2);
    if (end < 0) endless.add(mark);
    else if (!/\s/.test(said[end - 1]) && !(mark[0] === "_" && /[\p{L}\p{N}]/u.test(said[end + mark.length] ?? ""))) {
      return put(at, make(tag, {}, inline(said.slice(at + mark.length, end), depth + 1)), end + mark.length);
    }
  }
  return undefined;
}
