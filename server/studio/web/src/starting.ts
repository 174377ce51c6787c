// What a new node begins with: it reads what stands before it, so that it works before anything is typed.

import { emptyOf, isSelector, resolved } from "./schema";
import type { Document, Fields, Json, NodeDocument, NodeType, Operation, Schema, Variable } from "./types";

/** A reference to a variable: its name, and the node. */
type Selector = [name: string, node: string];

/** The variable of an iteration inside of it: what an item comes to as long as nothing else is chosen. */
const ITEM = "item";

const reference = ([name, node]: Selector): string => `{{#${node}.${name}#}}`;

/** Nodes whose output says only which way is taken. */
const SORTERS = new Set(["question-classifier", "if-else", "human-input"]);

/** Types whose values are no text, and cannot stand in one. */
const NO_TEXT = /file/;

/** By type, parameters that are made of the nearest variable before the node. */
const READING: Record<string, (variable: Selector, type: string) => Fields> = {
  answer: (variable) => ({ answer: reference(variable) }),
  end: (variable) => ({ outputs: [[variable[0], variable]] }),
  llm: (variable) => ({ user: reference(variable) }),
  agent: (variable) => ({ query: reference(variable) }),
  "human-input": (variable) => ({ question: reference(variable) }),
  code: (variable, type) => ({
    variables: [["value", variable]], outputs: [["result", type]], code: 'def main(value):\n    return {"result": value}\n',
  }),
  "template-transform": (variable) => ({ variables: [["value", variable]], template: "{{ value }}" }),
  "if-else": (variable) => ({ cases: [[null, [[variable, "not empty"]]]] }),
};

/** Where a node comes: behind a node, at one of its ports. */
export interface Behind {
  node: NodeDocument;
  port: number;
}

/** Parameters that a new node needs, empty where nothing before it fits. */
export function startingParams(document: Document, type: NodeType | undefined, id: string, behind?: Behind): Fields {
  const params: Fields = {};
  const schema = type?.schema;
  for (const name of schema?.required ?? []) {
    const field = resolved(schema?.properties?.[name], schema);
    if (isSelector(field)) {
      const found = field?.["x-inside"] ? [ITEM, id] : nearest(document, behind, (output) => output.type === "any" || (field?.["x-types"]?.includes(output.type) ?? true))?.variable;
      if (found) params[name] = found;
    } else if (field?.default !== undefined) params[name] = field.default;
    else if (field?.enum) params[name] = field.enum[0] ?? "";
    else if (field?.type === "string" || field?.["x-editor"] === "prompt") params[name] = "";
    else if (field?.type === "array") params[name] = field.minItems ? firstItems(type, name, field) : [];
    else if (field?.type === "integer" || field?.type === "number") params[name] = field.minimum ?? 1;
    else if (field?.type === "object") params[name] = {};
  }
  const reading = READING[type?.type ?? ""];
  const read = reading && nearest(document, behind, (output, node) => !SORTERS.has(node.type) && (type?.type === "end" || !NO_TEXT.test(output.type)));
  return read ? { ...params, ...reading(read.variable, read.type) } : params;
}

/** What a node that was just connected can read now, in the parameters that nobody has filled in. */
export function filling(document: Document, type: NodeType | undefined, source: string, port: number, target: string): Operation[] {
  const [before, node] = [source, target].map((id) => document.nodes.find((each) => each.id === id));
  if (!before || !node || !type || before.parent !== node.parent) return [];
  const [empty, filled] = [startingParams(document, type, node.id), startingParams(document, type, node.id, { node: before, port })];
  const same = (one: Json | undefined, other: Json | undefined): boolean => JSON.stringify(one) === JSON.stringify(other);
  return Object.entries(filled)
    .filter(([name, value]) => same(node.params[name], empty[name]) && !same(value, empty[name]))
    .map(([path, value]) => ({ op: "set", node: node.id, path, value }));
}

/** The first variable that fits, of a node or of those before it, the nearest first; behind a failure, its message. */
function nearest(
  document: Document, behind: Behind | undefined, fits: (output: Variable, node: NodeDocument) => boolean,
): { variable: Selector; type: string } | null {
  const found = new Set(behind ? [behind.node.id] : []);
  for (const id of found) {
    const node = document.nodes.find((each) => each.id === id);
    const failed = node !== undefined && id === behind?.node.id && behind.port === node.ports.length - 1 && fallsBack(node);
    const output = node && readableOf(document, node, failed).find(({ variable, type }) => fits({ name: variable[0], type }, node));
    if (output) return output;
    for (const edge of document.edges) if (edge.target === id) found.add(edge.source);
  }
  return null;
}

/** Whether the last port of a node is the one taken when it fails. */
const fallsBack = (node: NodeDocument): boolean => {
  const failure = node.params["failure"];
  return !!failure && typeof failure === "object" && !Array.isArray(failure) && failure["then"] === "branch";
};

/** What can be read of a node: its outputs; where the inside of a container begins, what the container gives there. */
function readableOf(document: Document, node: NodeDocument, failed: boolean): { variable: Selector; type: string }[] {
  if (failed) return [{ variable: ["error_message", node.id], type: "string" }];
  const around = document.nodes.find((each) => each.id === node.parent);
  if (node.type === "iteration-start" && around) return [{ variable: [ITEM, around.id], type: "any" }];
  if (node.type === "loop-start" && around) return around.outputs.map(({ name, type }) => ({ variable: [name, around.id], type }));
  return node.outputs.map(({ name, type }) => ({ variable: [name, node.id], type }));
}

/** Let the container of a new node give its result, where it gave its items or the result of the node before. */
export function resulting(document: Document, id: string): Operation[] {
  const node = document.nodes.find((each) => each.id === id);
  const around = document.nodes.find((each) => each.id === node?.parent);
  const output = node?.outputs[0];
  if (!around || !output) return [];
  const before = document.edges.filter((edge) => edge.target === id).map((edge) => document.nodes.find((each) => each.id === edge.source));
  const given = [[ITEM, around.id], ...before.map((each) => [each?.outputs[0]?.name, each?.id])].map((each) => JSON.stringify(each));
  return Object.entries(around.params)
    .filter(([, value]) => given.includes(JSON.stringify(value)))
    .map(([path]) => ({ op: "set", node: around.id, path, value: [output.name, id] }));
}

/** The least items of a list: those of the example, where they read no other node, or empty ones. */
function firstItems(type: NodeType | undefined, name: string, field: Schema): Json {
  const example = type?.example?.[name];
  if (Array.isArray(example) && example.every((each) => typeof each === "string" || isPairOfTexts(each))) return example;
  return Array.from({ length: field.minItems ?? 0 }, () => emptyOf(field.items, type?.schema ?? {}));
}

const isPairOfTexts = (value: Json): boolean =>
  Array.isArray(value) && value.length === 2 && value.every((each) => typeof each === "string");
