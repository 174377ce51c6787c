// Find a node, or go to one: the outline of the graph, searched by titles, ids and all that nodes say.

import type { ReactElement } from "react";
import { focusDrawn } from "../canvas/keys";
import { Icon, iconOf } from "../icons";
import { stateInWords } from "../../shared/states";
import { shownDocument } from "../state";
import { useCommands, useStore, useStudio } from "../store";
import type { Document, Json, NodeDocument } from "../types";
import { Chooser } from "./Chooser";
import { Dialog } from "./Dialog";

export function Find(): ReactElement | null {
  const document = useStudio(shownDocument);
  const catalogue = useStudio((state) => state.catalogue);
  const run = useStudio((state) => state.run?.nodes);
  const { dispatch } = useStore();
  const commands = useCommands();
  if (!document) return null;
  const choices = outline(document).map(({ node, depth }) => {
    const state = run?.[node.id]?.state;
    const issues = document.issues.filter((issue) => issue.node === node.id).length;
    return {
      key: node.id,
      words: `${node.name} ${node.id}\n${catalogue.get(node.type)?.title ?? node.type} ${node.type} ${textsOf(node.params)}`,
      content: (
        <>
          <span className="card-icon" style={{ marginInlineStart: depth * 18 }}><Icon name={iconOf(node.type)} /></span>
          <span className="choice-words">
            <span dir="auto">{node.name} <span className="soft">{node.id}</span></span>
            <span className="soft" dir="auto">{node.summary}</span>
          </span>
          {issues > 0 && <span className="card-mark blamed">{issues} {issues === 1 ? "issue" : "issues"}</span>}
          {state && <span className={`run-mark is-${state}`}><span className="run-dot" aria-hidden="true" />{stateInWords(state)}</span>}
        </>
      ),
    };
  });
  return (
    <Dialog title="Find a node" bare className="quick">
      <Chooser
        label="Find a node" placeholder="Find a node by its name, or by what it says" choices={choices} empty="No node says this."
        choose={(id) => {
          dispatch({ type: "dialog", dialog: null });
          commands.select([id]);
          commands.panel("inspector");
          requestAnimationFrame(() => focusDrawn(id));
        }}
      />
    </Dialog>
  );
}

/** The nodes in the order of their edges, what is inside a container behind it. */
function outline(document: Document): { node: NodeDocument; depth: number }[] {
  const ids = new Set(document.nodes.map((node) => node.id));
  const children = new Map<string, NodeDocument[]>();
  for (const node of document.nodes) {
    const parent = node.parent && ids.has(node.parent) ? node.parent : "";
    children.set(parent, [...(children.get(parent) ?? []), node]);
  }
  const within = (parent: string, depth: number): { node: NodeDocument; depth: number }[] =>
    depth > 20 ? [] : inOrder(document, children.get(parent) ?? []).flatMap((node) => [{ node, depth }, ...within(node.id, depth + 1)]);
  return within("", 0);
}

/** Nodes behind all that lead to them; of nodes that edges lead round, the first comes first. */
function inOrder(document: Document, nodes: readonly NodeDocument[]): NodeDocument[] {
  const left = new Map(nodes.map((node) => [node.id, node]));
  const after = new Map<string, string[]>();
  const before = new Map<string, number>();
  for (const { source, target } of document.edges) {
    if (source === target || !left.has(source) || !left.has(target)) continue;
    after.set(source, [...(after.get(source) ?? []), target]);
    before.set(target, (before.get(target) ?? 0) + 1);
  }
  const made: NodeDocument[] = [];
  const free = nodes.filter((node) => !before.get(node.id));
  while (left.size) {
    const node = free.shift() ?? left.values().next().value;
    if (!node || !left.delete(node.id)) continue;
    made.push(node);
    for (const id of after.get(node.id) ?? []) {
      const still = (before.get(id) ?? 1) - 1;
      before.set(id, still);
      const next = left.get(id);
      if (!still && next) free.push(next);
    }
  }
  return made;
}

/** All texts in the parameters of a node. */
const textsOf = (value: Json | undefined): string =>
  typeof value === "string" ? value
  : Array.isArray(value) ? value.map(textsOf).join(" ")
  : value && typeof value === "object" ? Object.values(value).map(textsOf).join(" ")
  : value === null || value === undefined ? "" : String(value);
