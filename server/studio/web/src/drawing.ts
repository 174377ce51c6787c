// The graph as a picture of its own: SVG with the colours of the page, and PNG made of it by the browser.

import { HEAD_PORT, type Point, WIDTH, absolute, portTop, sizes } from "./place";
import { canvasId, notePlaces } from "./notes";
import type { Document } from "./types";

const MARGIN = 32;

const escaped = (text: string): string =>
  text.replace(/[&<>"']/g, (found) => `&#${found.charCodeAt(0)};`).replace(/[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu, "�");
const cut = (text: string, most: number): string => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

export function svgOf(document_: Document, positions: Readonly<Record<string, Point>>): string {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string): string => escaped(style.getPropertyValue(`--${name}`).trim() || "gray");
  const measured = sizes(document_, positions);
  const boxes = new Map(document_.nodes.map((node) => {
    const at = absolute(document_, positions, node.id);
    const size = measured.get(node.id) ?? { width: WIDTH, height: 60 };
    return [node.id, { node, ...at, ...size }] as const;
  }));
  const places = notePlaces(document_, positions);
  const sheets = document_.sticky_notes.map((note) => ({ note, ...(places[canvasId(note)] ?? { x: 0, y: 0 }), width: note.size[0], height: note.size[1] }));
  const all = [...boxes.values()];
  const drawn = [...all, ...sheets];
  const left = Math.min(0, ...drawn.map((box) => box.x)) - MARGIN;
  const top = Math.min(0, ...drawn.map((box) => box.y)) - MARGIN;
  const right = Math.max(WIDTH, ...drawn.map((box) => box.x + box.width)) + MARGIN;
  const bottom = Math.max(80, ...drawn.map((box) => box.y + box.height)) + MARGIN;
  const notes = sheets.map(({ note, x, y, width, height }) =>
    `<rect x="${x}" y="${y}" width="${width}" height="${height}" rx="6" fill="${colour(`note-${note.color}`)}"/>` +
    note.text.split("\n").slice(0, Math.max(1, Math.floor((height - 14) / 17))).map((line, row) =>
      `<text x="${x + 12}" y="${y + 24 + row * 17}">${escaped(cut(line, Math.max(4, Math.floor((width - 24) / 7))))}</text>`).join(""));
  const parents = new Set(document_.nodes.map((node) => node.parent));
  const cards = all.map(({ node, x, y, width, height }) => {
    const around = parents.has(node.id);
    const ports = node.ports.length > 1
      ? node.ports.map((label, port) => `<text x="${x + width - 12}" y="${y + portTop(node, port, { width, height }) + 4}" text-anchor="end" class="s">${escaped(cut(label, 30))}</text>`).join("")
      : "";
    return `<g><rect x="${x}" y="${y}" width="${width}" height="${height}" rx="10" class="${around ? "c" : "n"}"/>` +
      `<text x="${x + 14}" y="${y + 22}" class="t">${escaped(cut(node.title, 28))}</text>` +
      `<text x="${x + 14}" y="${y + 38}" class="s">${escaped(cut(`${node.type} · ${node.id}`, 34))}</text>` +
      (node.summary ? `<text x="${x + 14}" y="${y + 59}" class="s">${escaped(cut(node.summary, 36))}</text>` : "") + `${ports}</g>`;
  });
  const lines = document_.edges.flatMap((edge) => {
    const from = boxes.get(edge.source);
    const to = boxes.get(edge.target);
    if (!from || !to) return [];
    const [x1, y1] = [from.x + from.width, from.y + portTop(from.node, edge.port, from)];
    const [x2, y2] = [to.x, to.y + HEAD_PORT];
    const bend = Math.max(30, Math.abs(x2 - x1) / 2);
    return [`<path d="M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2 - 5} ${y2}" class="e" marker-end="url(#a)"/>`];
  });
  const [width, height] = [Math.ceil(right - left), Math.ceil(bottom - top)];
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="${left} ${top} ${width} ${height}">` +
    `<style>text{font:13px system-ui,sans-serif;fill:${colour("ink")}}.t{font-weight:600}.s{font-size:11.5px;fill:${colour("soft")}}` +
    `.n{fill:${colour("card")};stroke:${colour("line")}}.c{fill:${colour("back")};stroke:${colour("line")};stroke-dasharray:4 3}` +
    `.e{fill:none;stroke:${colour("edge")};stroke-width:1.5}</style>` +
    `<defs><marker id="a" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="${colour("edge")}"/></marker></defs>` +
    `<rect x="${left}" y="${top}" width="${width}" height="${height}" fill="${colour("back")}"/>` +
    `${notes.join("")}${cards.join("")}${lines.join("")}</svg>`;
}

export async function pngOf(svg: string): Promise<Blob> {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await image.decode();
  const scale = Math.min(2, 16_000 / Math.max(image.width, image.height));
  const canvas = document.createElement("canvas");
  canvas.width = Math.round(image.width * scale);
  canvas.height = Math.round(image.height * scale);
  canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve, reject) => {
    canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("the picture is too large; save it as SVG"))), "image/png");
  });
}
