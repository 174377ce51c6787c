// The automatic layout: ELK, in a worker of its own that is loaded when the first graph is laid out.

import { AROUND, GAP_X, HEAD_PORT, type Point, cardSize, childrenOf, portTop } from "./place";
import type { Document, NodeDocument } from "./types";

interface ElkNode {
  id: string;
  x?: number;
  y?: number;
  width?: number;
  height?: number;
  children?: ElkNode[];
  edges?: { id: string; sources: string[]; targets: string[] }[];
  ports?: { id: string; x: number; y: number; width: number; height: number; layoutOptions: Record<string, string> }[];
  layoutOptions?: Record<string, string>;
}

interface Elk {
  layout(graph: ElkNode): Promise<ElkNode>;
}

export interface Layout {
  (document: Document): Promise<Record<string, Point>>;
  /** Load the worker, so that it is there when the document is. */
  warm(): void;
}

const OPTIONS = {
  "elk.algorithm": "layered",
  "elk.direction": "RIGHT",
  "elk.layered.spacing.nodeNodeBetweenLayers": String(GAP_X),
  "elk.spacing.nodeNode": "28",
  "elk.spacing.edgeNode": "16",
  "elk.spacing.componentComponent": "48",
  "elk.layered.considerModelOrder.strategy": "NODES_AND_EDGES",
  "elk.layered.considerModelOrder.components": "MODEL_ORDER",
  "elk.layered.nodePlacement.strategy": "NETWORK_SIMPLEX",
  "elk.layered.thoroughness": "4",
  "elk.edgeRouting": "POLYLINE",
};

export function createLayout(): Layout {
  let loading: Promise<Elk> | null = null;
  const load = async (): Promise<Elk> => {
    const [{ default: Elk }, { default: workerUrl }] = await Promise.all([
      import("elkjs/lib/elk-api.js"),
      import("elkjs/lib/elk-worker.min.js?url"),
    ]);
    return new Elk({ workerUrl }) as Elk;
  };
  const loaded = (): Promise<Elk> => (loading ??= load());
  const layout = async (document: Document): Promise<Record<string, Point>> => {
    const elk = await loaded();
    const done = await elk.layout(graphOf(document));
    const positions: Record<string, Point> = {};
    const note = (around: ElkNode): void => {
      for (const node of around.children ?? []) {
        positions[node.id] = { x: Math.round(node.x ?? 0), y: Math.round(node.y ?? 0) };
        note(node);
      }
    };
    note(done);
    return positions;
  };
  // A worker begins to read its script when it gets work: a graph of one node.
  const warm = (): void => void loaded().then((elk) => elk.layout({ id: "", children: [{ id: "1", width: 1, height: 1 }] })).catch(() => undefined);
  return Object.assign(layout, { warm });
}

function graphOf(document: Document): ElkNode {
  const inside = childrenOf(document);
  const ids = new Set(document.nodes.map((node) => node.id));
  const nested = (parent: string, depth: number): Pick<ElkNode, "children" | "edges"> => {
    const nodes = depth < 20 ? (inside.get(parent) ?? []) : [];
    const here = new Set(nodes.map((node) => node.id));
    const edges = document.edges
      .filter((edge) => here.has(edge.source) && here.has(edge.target))
      .map((edge, at) => ({ id: `${parent}/${at}`, sources: [portOf(edge.source, edge.port, document)], targets: [`${edge.target}#in`] }));
    return { children: nodes.map((node) => elkNode(node, depth)), edges };
  };
  const elkNode = (node: NodeDocument, depth: number): ElkNode => {
    const size = cardSize(node);
    const children = inside.get(node.id)?.length ? nested(node.id, depth + 1) : {};
    const holds = "children" in children;
    const ports = [
      { id: `${node.id}#in`, x: 0, y: HEAD_PORT, side: "WEST" },
      ...(node.ports.length > 1 ? node.ports : [""]).map((_, port) => ({ id: `${node.id}#${port}`, x: size.width, y: portTop(node, port, size), side: "EAST" })),
    ];
    return {
      id: node.id, ...size, ...children,
      ports: ports.map(({ id, x, y, side }) => ({ id, x, y, width: 0, height: 0, layoutOptions: { "elk.port.side": side } })),
      layoutOptions: {
        ...OPTIONS,
        "elk.padding": `[top=${AROUND.top},left=${AROUND.left},bottom=${AROUND.bottom},right=${AROUND.right}]`,
        // The ports of a container lie where its size, known only later, puts them.
        "elk.portConstraints": holds ? "FIXED_SIDE" : "FIXED_POS",
        ...(holds ? { "elk.nodeSize.constraints": "MINIMUM_SIZE", "elk.nodeSize.minimum": `(${size.width},${size.height})` } : {}),
      },
    };
  };
  const orphans = document.nodes.filter((node) => node.parent && !ids.has(node.parent));
  const top = nested("", 0);
  return { id: "", layoutOptions: OPTIONS, ...top, children: [...(top.children ?? []), ...orphans.map((node) => elkNode(node, 0))] };
}

function portOf(source: string, port: number, document: Document): string {
  const node = document.nodes.find((each) => each.id === source);
  return `${source}#${node && node.ports.length > 1 && port < node.ports.length ? port : 0}`;
}
