// What kind of field a JSON Schema asks for.

import type { Json, Schema } from "./types";

export const resolved = (schema: Schema | undefined, root: Schema | undefined): Schema | undefined => {
  const name = schema?.$ref?.replace("#/$defs/", "");
  return name ? { ...root?.$defs?.[name], ...schema, $ref: undefined, ...(name === "Selector" ? { title: "Selector" } : {}) } : schema;
};

/** A variable of another node: [name, node id]. */
export const isSelector = (schema: Schema | undefined): boolean =>
  schema?.title === "Selector" ||
  (schema?.prefixItems?.length === 2 && schema.prefixItems[0]?.title === "Variable" && schema.prefixItems[1]?.title === "Node");

export type Kind =
  | { kind: "selector" }
  | { kind: "choice"; options: Json[] }
  | { kind: "condition"; operators: Record<string, string[]> }
  | { kind: "boolean" }
  | { kind: "number"; integer: boolean; minimum?: number; maximum?: number }
  | { kind: "text" }
  | { kind: "long"; language: "prompt" | "template" | "code" }
  | { kind: "list"; item: Schema; unique: boolean }
  | { kind: "tuple"; items: Schema[]; least: number }
  | { kind: "object"; fields: [string, Schema][] }
  | { kind: "optional"; of: Schema }
  | { kind: "either"; options: Schema[] }
  | { kind: "json" };

/** Texts that are long in the forms of expert operators, whose schemas have no hints. */
const LONG = new Set(["instruction", "question", "answer"]);

export function kindOf(given: Schema | undefined, root: Schema, name = ""): Kind {
  const schema = resolved(given, root);
  if (!schema) return { kind: "json" };
  if (isSelector(schema)) return { kind: "selector" };
  if (schema.enum) return { kind: "choice", options: schema.enum };
  if (schema.anyOf) {
    const options = schema.anyOf.filter((each) => each.type !== "null");
    const only = options[0];
    const optional = options.length < schema.anyOf.length;
    if (options.length === 1 && only?.enum && optional) return { kind: "choice", options: [null, ...only.enum] };
    if (options.length === 1 && only && optional) return { kind: "optional", of: { description: schema.description, ...only } };
    return { kind: "either", options };
  }
  if (schema["x-operators"]) return { kind: "condition", operators: schema["x-operators"] };
  if (schema.prefixItems) return { kind: "tuple", items: schema.prefixItems, least: schema.minItems ?? schema.prefixItems.length };
  switch (schema.type) {
    case "boolean":
      return { kind: "boolean" };
    case "integer":
    case "number":
      return { kind: "number", integer: schema.type === "integer", minimum: schema.minimum, maximum: schema.maximum };
    case "string": {
      const told = schema["x-editor"];
      if (told === "prompt" || told === "template" || told === "code") return { kind: "long", language: told };
      return schema.description?.includes("{{#") || LONG.has(name) ? { kind: "long", language: "prompt" } : { kind: "text" };
    }
    case "array":
      return schema.items ? { kind: "list", item: schema.items, unique: schema.uniqueItems === true } : { kind: "json" };
    case "object":
      return schema.properties ? { kind: "object", fields: Object.entries(schema.properties) } : { kind: "json" };
    default:
      return { kind: "json" };
  }
}

/** An empty value of a schema, for a new row. */
export function emptyOf(given: Schema | undefined, root: Schema): Json {
  const schema = resolved(given, root);
  if (schema?.default !== undefined) return schema.default;
  const kind = kindOf(given, root);
  switch (kind.kind) {
    case "selector":
      return ["", ""];
    case "condition":
      return [["", ""], "is", ""];
    case "choice":
      return kind.options[0] === undefined ? "" : kind.options[0];
    case "boolean":
      return false;
    case "number":
      return kind.minimum ?? 0;
    case "text":
    case "long":
      return "";
    case "list":
      return [];
    case "tuple":
      return kind.items.slice(0, Math.max(kind.least, 1)).map((item) => emptyOf(item, root));
    case "object":
      return Object.fromEntries(kind.fields.filter(([name]) => schema?.required?.includes(name)).map(([name, field]) => [name, emptyOf(field, root)]));
    case "optional":
      return null;
    case "either":
      return emptyOf(kind.options[0], root);
    case "json":
      return null;
  }
}

export const titleOf = (name: string, schema: Schema | undefined): string => {
  const title = schema?.title && schema.title !== "Selector" ? schema.title : name;
  const words = title.replaceAll("_", " ").replace(/ selector$/i, "");
  return words.charAt(0).toUpperCase() + words.slice(1);
};
