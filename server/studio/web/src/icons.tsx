// Icons: strokes on a square of 16, in the colour of the text around them.

import type { ReactElement } from "react";

const PATHS = {
  start: "M5 3.5v9l7-4.5z",
  end: "M4 3.5v9.5M4 4h7.5l-2 2.5 2 2.5H4",
  model: "M8 2.2l1.5 3.9 3.9 1.5-3.9 1.5L8 13l-1.5-3.9-3.9-1.5 3.9-1.5z",
  code: "M5.5 4.5L2 8l3.5 3.5M10.5 4.5L14 8l-3.5 3.5",
  branch: "M4 3v4a2 2 0 0 0 2 2h6M4 9v4M9.5 6.5L12 9l-2.5 2.5",
  loop: "M3 8a5 5 0 0 1 8.8-3.2M13 8a5 5 0 0 1-8.8 3.2M12 2.2v2.8H9.2M4 13.8V11h2.8",
  text: "M3 4h10M3 8h10M3 12h6",
  file: "M4 2.2h5l3 3v8.600H4zM9 2.200v3h3",
  web: "M8 2.200a5.800 5.800 0 1 0 0 11.600a5.800 5.800 0 1 0 0-11.600M2.200 8h11.600M8 2.200c-4 4-4 7.600 0 11.600M8 2.200c4 4 4 7.600 0 11.600",
  test: "M6 2.500h4M7 2.500v4L3.600 12.300a.8.8 0 0 0 .7 1.200h7.400a.8.8 0 0 0 .7-1.200L9 6.500v-4M5.300 9.500h5.400",
  person: "M8 8.200a2.800 2.800 0 1 0 0-5.600a2.800 2.800 0 0 0 0 5.600M3 13.600c.6-2.600 2.600-3.800 5-3.800s4.400 1.200 5 3.800",
  tool: "M9.600 3a3.300 3.300 0 0 0-.4 4.300L3 13.500 M9.600 3l.4 2.600 2.600.4a3.300 3.300 0 0 1-4 2",
  data: "M3 4.500c0-1 2.200-1.800 5-1.800s5 .8 5 1.800-2.200 1.800-5 1.800-5-.8-5-1.800v7c0 1 2.200 1.800 5 1.800s5-.8 5-1.800v-7M3 8c0 1 2.200 1.800 5 1.800s5-.8 5-1.800",
  picture: "M2.500 3.500h11v9h-11zM2.500 10.500l3-3 3 3 2-2 3 3M10 6.300h.1",
  node: "M3.500 3.500h9v9h-9z",
  undo: "M3 6.500h6.500a3.500 3.500 0 0 1 0 7H6M5.800 3.500L2.800 6.500l3 3",
  redo: "M13 6.500H6.500a3.500 3.500 0 0 0 0 7H10M10.200 3.500l3 3-3 3",
  run: "M4.500 2.800v10.400l8-5.200z",
  stop: "M4 4h8v8H4z",
  search: "M7 11.500a4.500 4.500 0 1 0 0-9a4.500 4.500 0 0 0 0 9M10.400 10.400l3.300 3.300",
  close: "M4 4l8 8M12 4l-8 8",
  plus: "M8 3v10M3 8h10",
  minus: "M3 8h10",
  fit: "M2.500 6V2.500H6M10 2.500h3.500V6M13.500 10v3.500H10M6 13.500H2.500V10",
  tidy: "M2.500 3h4v3.500h-4zM9.500 3h4v3.500h-4zM9.500 9.500h4V13h-4zM6.500 4.800h3M8 4.800v6.500h1.500",
  chat: "M2.500 3h11v8H7l-3 2.500V11H2.500z",
  history: "M8 4.500V8l2.500 1.500M3 8a5 5 0 1 0 1.600-3.700M3 2.800v2.400h2.400",
  export: "M8 10V2.500M5 5.200l3-2.900 3 2.900M3 9.500v4h10v-4",
  import: "M8 2.500V10M5 7.200L8 10l3-2.800M3 9.500v4h10v-4",
  issue: "M8 2.500l6 10.800H2zM8 6.500v3M8 11.500v.1",
  check: "M3 8.500l3.200 3.200L13 4.800",
  help: "M6 6a2 2 0 1 1 2.800 1.900c-.6.3-.8.700-.8 1.400M8 11.800v.1M8 1.800a6.200 6.200 0 1 0 0 12.400a6.200 6.200 0 0 0 0-12.400",
  light: "M8 5a3 3 0 1 0 0 6a3 3 0 0 0 0-6M8 1.500v1.300M8 13.200v1.300M1.500 8h1.300M13.200 8h1.300M3.400 3.400l.9.9M11.700 11.700l.9.9M12.600 3.400l-.9.9M4.300 11.700l-.9.9",
  dark: "M13 9.500A5.500 5.500 0 0 1 6.500 3a5.500 5.500 0 1 0 6.500 6.500z",
  system: "M2 3h12v8H2zM6 13.500h4M8 11v2.500",
  back: "M10 3L5 8l5 5",
  more: "M5 3l5 5-5 5",
  copy: "M5.500 5.500h8v8h-8zM3 10.500h-.5v-8h8V3",
  bin: "M3 4.500h10M6.500 4.500v-2h3v2M4.500 4.500l.6 9h5.800l.6-9M6.700 7v4M9.300 7v4",
  connect: "M2.500 8h3M10.500 8h3M5.500 8a1.500 1.500 0 1 0 5 0a1.500 1.500 0 1 0-5 0",
  panel: "M2.500 3h11v10h-11zM6 3v10",
  note: "M2.500 2.500h11v7l-4 4h-7zM13.500 9.500h-4v4M5 5.500h6M5 8h4",
  pin: "M5.500 2.500h5M6.300 2.500v4L4.500 9h7L9.700 6.500v-4M8 9v4.500",
  send: "M8 13V3.500M4 7.200l4-4 4 4",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, size = 16 }: { name: IconName; size?: number }): ReactElement {
  return (
    <svg className="icon" width={size} height={size} viewBox="0 0 16 16" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} />
    </svg>
  );
}

const BY_TYPE: Record<string, IconName> = {
  start: "start", end: "end", answer: "chat", llm: "model", agent: "model", operator: "model", evaluator: "check", expert: "person", leader: "branch", "question-classifier": "branch",
  "if-else": "branch", code: "code", iteration: "loop", loop: "loop", "iteration-start": "start", "loop-start": "start",
  "loop-end": "end", "document-extractor": "file", "markdown-exporter": "file", "http-request": "web", request: "web",
  "google-search": "web", "human-input": "person", tool: "tool", "sub-workflow": "tool", "template-transform": "text",
  "knowledge-retrieval": "data", "variable-aggregator": "data", "parameter-extractor": "data", "list-operator": "data",
  assigner: "data", conversation: "data", text2image: "picture", echarts: "picture", "mermaid-converter": "picture",
};

export const iconOf = (type: string): IconName => BY_TYPE[type] ?? "node";
