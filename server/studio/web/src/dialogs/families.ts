// The node types of the palette, by family, those that a person adds themselves.

import type { NodeType } from "../types";

const ORDER = ["Flow", "Models", "Logic", "Data", "Tools", "People", "Files", "Containers"];

/** Types that nobody adds: they come with their container, or another type does the same and more. */
const NEVER_ADDED = new Set(["iteration-start", "loop-start", "http-request"]);

/** Of a workflow, not of what runs inside a container: a body begins and ends by itself. */
const OF_WORKFLOWS = new Set(["start", "end", "conversation"]);

/** Types that belong into a container, given by its type; outside of all, `null`. */
const belongs = (type: string, holder: string | null): boolean =>
  holder === null ? type !== "loop-end" : !OF_WORKFLOWS.has(type) && (type !== "loop-end" || holder === "loop");

/**
 * The types in the order of their families; `next` for what comes after a node, models first; `holder` is the type of
 * the container that the node comes into, and `undefined` where that is not known.
 */
export function listed(catalogue: ReadonlyMap<string, NodeType>, next = false, holder?: string | null): NodeType[] {
  const place = (family: string): number => {
    const at = ORDER.indexOf(family);
    return at < 0 || (next && at === 0) ? ORDER.length : at;
  };
  return [...catalogue.values()]
    .filter((each) => !NEVER_ADDED.has(each.type) && !(next && each.type === "start") && (holder === undefined || belongs(each.type, holder)))
    .map((each, at) => ({ each, at }))
    .sort((one, other) => place(one.each.family) - place(other.each.family) || one.at - other.at)
    .map(({ each }) => each);
}

/** What a search finds a type by: its name, and what it does. */
export const wordsOfType = (type: NodeType): string => `${type.title}\n${type.type} ${type.family} ${type.summary}`;
