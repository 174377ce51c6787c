// The canvas: the graph of the document, drawn and edited by React Flow.

import {
  type Connection, type FinalConnectionState, MiniMap, type NodeChange, type EdgeChange, ReactFlow,
  SelectionMode, applyNodeChanges, getViewportForBounds, useConnection, useReactFlow, useStore as useFlow,
} from "@xyflow/react";
import { type CSSProperties, type DragEvent, type ReactElement, useCallback, useEffect, useMemo, useRef, useState } from "react";
import { Icon } from "../icons";
import { isNote } from "../notes";
import { absolute, foldedIn, sizes } from "../place";
import { shownDocument } from "../state";
import { useCommands, useStore, useStudio } from "../store";
import { Card } from "./Card";
import { Note } from "./Note";
import { Line } from "./Line";
import { type CanvasNode, type LineEdge, canvasNodes, lineEdges } from "./elements";
import { type View, clipboard, pageKey, renamable } from "./keys";

const nodeTypes = { card: Card, note: Note };
const edgeTypes = { line: Line };
const LABELS = {
  "node.a11yDescription.default": "Press Enter to edit, arrows to go to another node, question mark for all keys.",
  "minimap.ariaLabel": "Overview of the graph",
};

/** The zoom at which cards can be read: a larger graph is shown from its beginning. */
const READABLE = 0.33;

/** Below this zoom, cards show their titles alone, in letters that are the larger the smaller the cards. */
const FAR = 0.62;

/** Pixels of these letters on the screen; on a card, the most, and the most beside which states have room. */
const LETTERS = { seen: 11.5, most: 32, beside: 21 };

/** The room between a node that is gone to and the edge of the canvas. */
const EDGE = 28;

/** Milliseconds within which a second click may follow the first. */
const DOUBLE_CLICK = 500;

export const DRAGGED = "application/x-operad-node";

const NONE: ReadonlySet<string> = new Set();

export function Canvas(): ReactElement | null {
  const whole = useStudio(shownDocument);
  const folds = useStudio((state) => (state.overlay ? NONE : state.folded)); // all changes of a draft can be seen
  const document_ = useMemo(() => whole && foldedIn(whole, folds), [whole, folds]);
  const positions = useStudio((state) => state.positions);
  const selection = useStudio((state) => state.selection);
  const overlay = useStudio((state) => state.overlay);
  const catalogue = useStudio((state) => state.catalogue);
  const path = useStudio((state) => state.document?.path);
  const store = useStore();
  const commands = useCommands();
  const flow = useReactFlow<CanvasNode, LineEdge>();
  const [nodes, setNodes] = useState<CanvasNode[]>([]);
  const edgesBefore = useRef<LineEdge[]>([]);
  const pointing = useRef(false); // a pointer selects by itself; the keyboard selects by focus
  const pressed = useRef(-Infinity); // when
  const refusals = useRef<Record<string, string | null>>({});
  const containers = useMemo(
    () => new Set([...catalogue.values()].filter((each) => each.container).map((each) => each.type)),
    [catalogue],
  );

  useEffect(() => {
    if (document_) setNodes((before) => canvasNodes({ document: document_, positions, selection, overlay, containers, folded: folds }, before));
  }, [document_, positions, selection, overlay, containers, folds]);

  const edges = useMemo(() => {
    edgesBefore.current = document_ ? lineEdges(document_, selection, overlay, edgesBefore.current) : [];
    return edgesBefore.current;
  }, [document_, selection, overlay]);

  const fitted = useRef(true); // until a person moves the view, all of the graph stays in it
  const view = useMemo<View>(() => ({
    fit: () => {
      fitted.current = true;
      void flow.fitView({ padding: 0.07, duration: 200, maxZoom: 1 });
    },
    zoomIn: () => void flow.zoomIn({ duration: 120 }),
    zoomOut: () => void flow.zoomOut({ duration: 120 }),
    reveal: (id) => {
      const node = document.querySelector(`.react-flow__node[data-id="${CSS.escape(id)}"]`)?.getBoundingClientRect();
      const room = document.querySelector(".canvas")?.getBoundingClientRect();
      if (!node || !room) return;
      const beyond = (from: number, to: number, least: number, most: number): number =>
        from < least + EDGE ? least + EDGE - from : to > most - EDGE ? Math.max(most - EDGE - to, least + EDGE - from) : 0;
      const [x, y] = [beyond(node.left, node.right, room.left, room.right), beyond(node.top, node.bottom, room.top, room.bottom)];
      const at = flow.getViewport();
      if (x || y) void flow.setViewport({ ...at, x: at.x + x, y: at.y + y }, { duration: 150 });
    },
  }), [flow]);

  const laying = useStudio((state) => state.laying);
  const layouts = useStudio((state) => state.layouts);
  const [width, height] = [useFlow((state) => state.width), useFlow((state) => state.height)];
  useEffect(() => {
    if (overlay) fitted.current = true; // a draft of the chat may lie elsewhere: all of it is shown
    if (!fitted.current || !width || !height) return undefined;
    let frame = 0;
    const fit = (): void => {
      const drawn = flow.getNodes();
      const [first] = drawn;
      const whole = getViewportForBounds(flow.getNodesBounds(drawn), width, height, 0.01, 1, 0.07);
      const readable = whole.zoom >= READABLE || overlay || !first;
      void flow.setViewport(readable ? whole : { zoom: 0.7, x: 40 - first.position.x * 0.7, y: height / 2 - first.position.y * 0.7 });
    };
    // A click that opens a panel narrows the canvas: nodes stay where they are until it cannot become a double click.
    const wait = Math.max(0, pressed.current + DOUBLE_CLICK - performance.now());
    const timer = setTimeout(() => {
      frame = requestAnimationFrame(fit);
    }, wait);
    return () => {
      clearTimeout(timer);
      cancelAnimationFrame(frame);
    };
  }, [flow, path, width, height, layouts, overlay]);

  // A new node comes into view, unless a person has chosen the view.
  const count = document_?.nodes.length ?? 0;
  const counted = useRef(count);
  useEffect(() => {
    const more = count > counted.current;
    counted.current = count;
    if (!more || !fitted.current) return undefined;
    const frame = requestAnimationFrame(() => {
      const bounds = flow.getNodesBounds(flow.getNodes());
      const { x, y, zoom } = flow.getViewport();
      const [left, top] = [bounds.x * zoom + x, bounds.y * zoom + y];
      const inside = left >= 0 && top >= 0 && left + bounds.width * zoom <= width && top + bounds.height * zoom <= height;
      if (!inside) void flow.setViewport(getViewportForBounds(bounds, width, height, READABLE, 1, 0.07));
    });
    return () => cancelAnimationFrame(frame);
  }, [flow, count, width, height]);

  useEffect(() => {
    const key = (event: KeyboardEvent): void => {
      if (!event.defaultPrevented && pageKey(event, store, commands, view)) event.preventDefault();
    };
    const clip = (event: ClipboardEvent): void => clipboard(event, store, commands);
    window.addEventListener("keydown", key);
    for (const type of ["copy", "cut", "paste"] as const) document.addEventListener(type, clip);
    return () => {
      window.removeEventListener("keydown", key);
      for (const type of ["copy", "cut", "paste"] as const) document.removeEventListener(type, clip);
    };
  }, [store, commands, view]);

  const onNodesChange = useCallback((changes: NodeChange<CanvasNode>[]) => {
    const chosen = changes.filter((change) => change.type === "select");
    if (chosen.length) {
      const now = new Set(store.get().selection.nodes);
      for (const change of chosen) {
        if (change.selected) now.add(change.id);
        else now.delete(change.id);
      }
      commands.select([...now], store.get().selection.edges);
    }
    const others = changes.filter((change) => change.type !== "select" && change.type !== "remove");
    if (others.length) setNodes((before) => applyNodeChanges(others, before));
  }, [store, commands]);

  const onEdgesChange = useCallback((changes: EdgeChange<LineEdge>[]) => {
    const now = new Set(store.get().selection.edges);
    let changed = false;
    for (const change of changes) {
      if (change.type !== "select") continue;
      changed = true;
      if (change.selected) now.add(change.id);
      else now.delete(change.id);
    }
    if (changed) commands.select(store.get().selection.nodes, [...now]);
  }, [store, commands]);

  const onConnectStart = useCallback((_: unknown, from: { nodeId: string | null; handleId: string | null; handleType: string | null }) => {
    refusals.current = {};
    if (!from.nodeId || from.handleType !== "source") return;
    void commands.connectable(from.nodeId, Number(from.handleId ?? 0)).then((targets) => {
      refusals.current = targets;
    });
  }, [commands]);

  const isValid = useCallback((edge: Connection | LineEdge): boolean => !refusals.current[edge.target], []);

  const onConnect = useCallback((made: Connection) => {
    void commands.connect(made.source, Number(made.sourceHandle ?? 0), made.target);
  }, [commands]);

  const onConnectEnd = useCallback((event: MouseEvent | TouchEvent, end: FinalConnectionState) => {
    const source = end.fromNode?.id;
    if (!source || end.fromHandle?.type !== "source") return;
    const port = Number(end.fromHandle.id ?? 0);
    const over = event.target instanceof Element ? event.target.closest<HTMLElement>(".react-flow__node") : null;
    const target = end.toNode?.id ?? over?.dataset["id"];
    if (target && isNote(target)) return;
    if (target) {
      const reason = refusals.current[target];
      if (reason) commands.say(`Not connected: ${reason}`, "error");
      else if (!end.isValid && target !== source) void commands.connect(source, port, target);
      return;
    }
    const point = "changedTouches" in event ? event.changedTouches[0] : event;
    if (!point || (event.target instanceof Element && !event.target.closest(".react-flow__pane"))) return;
    const at = within(flow.screenToFlowPosition({ x: point.clientX, y: point.clientY }), store.get().document?.nodes.find((node) => node.id === source)?.parent ?? "");
    store.dispatch({ type: "dialog", dialog: { kind: "palette", source, port, at } });
  }, [commands, flow, store]);

  const within = (point: { x: number; y: number }, parent: string): { x: number; y: number } => {
    const state = store.get();
    if (!parent || !state.document) return point;
    const around = absolute(state.document, state.positions, parent);
    return { x: point.x - around.x, y: point.y - around.y };
  };

  const onDrop = (event: DragEvent): void => {
    const type = event.dataTransfer.getData(DRAGGED);
    const state = store.get();
    if (!type || !state.document) return;
    event.preventDefault();
    const point = flow.screenToFlowPosition({ x: event.clientX, y: event.clientY });
    const measured = sizes(state.document, state.positions);
    const around = state.document.nodes.filter((node) => containers.has(node.type)).flatMap((node) => {
      const at = absolute(state.document!, state.positions, node.id);
      const size = measured.get(node.id);
      const hit = size && point.x > at.x && point.y > at.y && point.x < at.x + size.width && point.y < at.y + size.height;
      return hit ? [{ id: node.id, area: size.width * size.height }] : [];
    });
    const inside = around.sort((one, other) => one.area - other.area)[0]?.id ?? "";
    const at = within({ x: point.x - 110, y: point.y - 24 }, inside);
    void commands.add(type, { at: { x: Math.round(at.x), y: Math.round(at.y) }, inside });
  };

  const letters = useFlow(({ transform: [, , zoom] }) => (zoom < FAR ? Math.min(LETTERS.most, Math.round(LETTERS.seen / zoom)) : 0));
  if (!document_) return null;
  return (
    <section
      className={["canvas", letters > 0 && "far", letters > LETTERS.beside && "farther"].filter(Boolean).join(" ")}
      style={{ "--letters": `${letters}px` } as CSSProperties}
      aria-label="Canvas"
      aria-busy={laying}
      tabIndex={-1}
      onDragOver={(event) => {
        if (event.dataTransfer.types.includes(DRAGGED)) event.preventDefault();
      }}
      onDrop={onDrop}
      onPointerDownCapture={() => {
        pressed.current = performance.now();
        pointing.current = true;
        setTimeout(() => {
          pointing.current = false;
        });
      }}
      onFocus={(event) => {
        const node = event.target.closest<HTMLElement>(".react-flow__node");
        const id = node?.dataset["id"];
        if (id && node === event.target && !pointing.current && !store.get().selection.nodes.includes(id)) {
          commands.select([id]);
          view.reveal(id);
        }
      }}
    >
      <ReactFlow<CanvasNode, LineEdge>
        nodes={nodes}
        edges={edges}
        nodeTypes={nodeTypes}
        edgeTypes={edgeTypes}
        onNodesChange={onNodesChange}
        onEdgesChange={onEdgesChange}
        onConnect={onConnect}
        onConnectStart={onConnectStart}
        onConnectEnd={onConnectEnd}
        isValidConnection={isValid}
        onNodeDragStop={(_, __, moved) =>
          commands.move(Object.fromEntries(moved.map((node) => [node.id, { x: Math.round(node.position.x), y: Math.round(node.position.y) }])))}
        onNodeClick={() => {
          const { panel } = store.get();
          if (panel !== "chat" && panel !== "run") commands.panel("inspector"); // what is written in these two stays in sight
        }}
        onNodeDoubleClick={({ target }, { id }) => {
          if (isNote(id)) return;
          if (target instanceof Element && target.closest(".card-title") && renamable(store.get(), id)) store.dispatch({ type: "dialog", dialog: { kind: "rename", node: id } });
          else commands.panel("inspector");
        }}
        onPaneClick={() => commands.select([])}
        onMoveStart={(event) => {
          if (event) fitted.current = false;
        }}
        deleteKeyCode={null}
        disableKeyboardA11y
        edgesFocusable={false}
        nodesConnectable={!overlay && !document_.readonly}
        selectionMode={SelectionMode.Partial}
        multiSelectionKeyCode={["Shift", "Meta", "Control"]}
        panOnScroll
        minZoom={0.08}
        maxZoom={2}
        connectionRadius={28}
        ariaLabelConfig={LABELS}
        proOptions={{ hideAttribution: true }}
      >
        <MiniMap<CanvasNode>
          pannable zoomable className="minimap" nodeBorderRadius={12} maskColor="var(--mask)" bgColor="var(--card)"
          nodeColor={(node) => node.type === "note" ? `var(--note-${node.data.note.color})` : `var(--${node.data.mark ?? (node.data.container ? "hover" : node.data.errors ? "failed" : "map-node")})`}
        />
      </ReactFlow>
      <Refusal refusals={refusals} />
      <Tools view={view} />
      {document_.nodes.length === 0 && <EmptyHint />}
    </section>
  );
}

/** The reason why an edge cannot end where the pointer is. */
function Refusal({ refusals }: { refusals: { current: Record<string, string | null> } }): ReactElement | null {
  const over = useConnection((connection) =>
    connection.inProgress && connection.toNode ? { id: connection.toNode.id, ...connection.pointer } : null);
  const transform = useFlow((state) => state.transform);
  const reason = over ? refusals.current[over.id] : null;
  if (!over || !reason) return null;
  const [x, y] = [over.x * transform[2] + transform[0], over.y * transform[2] + transform[1]];
  return <div className="refusal" role="status" style={{ left: x + 14, top: y + 14 }}>{reason}</div>;
}

function Tools({ view }: { view: View }): ReactElement {
  const zoom = useFlow((state) => Math.round(state.transform[2] * 100));
  const commands = useCommands();
  const notes = useStudio((state) => state.document?.kind === "workflow" && !state.document.readonly && !state.overlay);
  const several = useStudio((state) => state.selection.nodes.length > 1);
  return (
    <div className="canvas-tools" role="toolbar" aria-label="View of the canvas">
      <button type="button" aria-label="Zoom out" title="Zoom out  −" onClick={view.zoomOut}><Icon name="minus" /></button>
      <output aria-label="Zoom">{zoom}%</output>
      <button type="button" aria-label="Zoom in" title="Zoom in  +" onClick={view.zoomIn}><Icon name="plus" /></button>
      <button type="button" aria-label="Fit the graph" title="Fit  f" onClick={view.fit}><Icon name="fit" /></button>
      <button type="button" aria-label="Tidy up the layout" title="Tidy up  t" onClick={() => void commands.tidy().then(view.fit)}><Icon name="tidy" /></button>
      {notes && <button type="button" aria-label="Add a note" title="Add a note  n" onClick={() => void commands.addNote()}><Icon name="note" /></button>}
      {several && (
        <>
          <span className="rule" />
          <button type="button" onClick={() => commands.align("left")}>Align left</button>
          <button type="button" onClick={() => commands.align("top")}>Align top</button>
          <button type="button" onClick={() => commands.align("columns")}>In a row</button>
          <button type="button" onClick={() => commands.align("rows")}>In a column</button>
        </>
      )}
    </div>
  );
}

function EmptyHint(): ReactElement {
  return (
    <div className="empty-hint">
      <p><strong>An empty workflow</strong></p>
      <p>Press <kbd>/</kbd> to add a node, drag one from the list, or press <kbd>m</kbd> and say what you need.</p>
    </div>
  );
}
