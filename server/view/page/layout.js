// Where the operators of a graph stand: in layers from top to bottom, each below all that it waits for. Pure functions.

const GAP = { x: 18, y: 28, named: 42, dummy: 10, row: 12 };
const MOST_DUMMIES = 1500;

/**
 * Lay out boxes.
 *
 * boxes: [{id, w, h}]; before: Map id → [ids]; widest: the width from which a layer is broken into rows;
 * named: whether the edge from one id to another has a name, for which there is room above the second.
 * Returns {boxes: Map id → {x, y, w, h, row}, edges: [{from, to, points}], width, height}.
 */
function layered(boxes, before, widest, named = () => false) {
  const nodes = new Map(boxes.map((box) => [box.id, { ...box, above: [], below: [], real: true }]));
  const edges = [];
  for (const [to, froms] of before) {
    for (const from of froms) {
      if (nodes.has(from) && nodes.has(to) && from !== to) edges.push({ from: nodes.get(from), to: nodes.get(to), through: [] });
    }
  }
  rank(nodes, edges);
  const wide = new Set(edges.filter(({ from, to }) => named(from.id, to.id)).map(({ to }) => to.rank - 1));
  const gap = (rank) => (wide.has(rank) ? GAP.named : GAP.y);
  const layers = [];
  for (const node of nodes.values()) (layers[node.rank] ??= []).push(node);
  const broken = layers.some((layer) => widthOf(layer) > widest);
  const long = edges.reduce((sum, { from, to }) => sum + to.rank - from.rank - 1, 0);
  for (const edge of edges) link(edge, layers, !broken && long < MOST_DUMMIES);
  order(layers);
  return broken ? placeInRows(layers, edges, widest, gap) : place(layers, edges, gap);
}

/** The longest way from a beginning; what is in a circle, which only a damaged file has, comes last. */
function rank(nodes, edges) {
  const waits = new Map([...nodes.values()].map((node) => [node, 0]));
  const after = new Map();
  for (const edge of edges) {
    waits.set(edge.to, waits.get(edge.to) + 1);
    listed(after, edge.from).push(edge.to);
  }
  const ready = [...nodes.values()].filter((node) => !waits.get(node));
  for (const node of ready) {
    node.rank ??= 0;
    for (const next of after.get(node) ?? []) {
      next.rank = Math.max(next.rank ?? 0, node.rank + 1);
      waits.set(next, waits.get(next) - 1);
      if (!waits.get(next)) ready.push(next);
    }
  }
  for (const node of nodes.values()) node.rank ??= 0;
}

function link(edge, layers, withDummies) {
  let last = edge.from;
  for (let at = edge.from.rank + 1; withDummies && at < edge.to.rank; at++) {
    const dummy = { w: GAP.dummy, h: 0, rank: at, above: [], below: [], real: false };
    layers[at].push(dummy);
    edge.through.push(dummy);
    last.below.push(dummy);
    dummy.above.push(last);
    last = dummy;
  }
  last.below.push(edge.to);
  edge.to.above.push(last);
}

/** Few crossings: each layer in the order of the mean place of its neighbours, downwards and upwards in turn. */
function order(layers) {
  const number = (layer) => layer.forEach((node, at) => (node.at = at / layer.length));
  layers.forEach(number);
  for (let sweep = 0; sweep < 8; sweep++) {
    const down = sweep % 2 === 0;
    for (const layer of down ? layers : [...layers].reverse()) {
      for (const node of layer) {
        const near = down ? node.above : node.below;
        node.want = near.length ? near.reduce((sum, each) => sum + each.at, 0) / near.length : node.at;
      }
      layer.sort((a, b) => a.want - b.want);
      number(layer);
    }
  }
}

const between = (a, b) => (a.real && b.real ? GAP.x : GAP.x * 0.7);

function widthOf(layer) {
  return layer.reduce((sum, node, at) => sum + node.w + (at ? between(layer[at - 1], node) : 0), 0);
}

function place(layers, edges, gap) {
  for (const layer of layers) pack(layer, layer.map(() => 0));
  for (let sweep = 0; sweep < 12; sweep++) {
    const down = sweep % 2 === 0;
    for (const layer of down ? layers : [...layers].reverse()) {
      const wanted = layer.map((node) => {
        const near = sweep < 10 ? (down ? node.above : node.below) : [...node.above, ...node.below];
        return near.length ? near.reduce((sum, each) => sum + each.cx, 0) / near.length : node.cx;
      });
      pack(layer, wanted);
    }
  }
  let y = 0;
  for (const layer of layers) {
    const height = Math.max(...layer.map((node) => node.h));
    for (const node of layer) Object.assign(node, { y: y + (height - node.h) / 2, row: node.rank, top: y, bottom: y + height });
    y += height + gap(layer[0].rank);
  }
  return finished(layers, edges);
}

/** The centres as near to those wanted as they can be side by side (isotonic regression: pool adjacent violators). */
function pack(layer, wanted) {
  const offsets = [];
  layer.forEach((node, at) => {
    offsets.push(at ? offsets[at - 1] + layer[at - 1].w / 2 + between(layer[at - 1], node) + node.w / 2 : 0);
  });
  const pools = [];
  wanted.forEach((want, at) => {
    pools.push({ sum: (want - offsets[at]) * (layer[at].real ? 1 : 3), weight: layer[at].real ? 1 : 3, size: 1 });
    while (pools.length > 1) {
      const [a, b] = pools.slice(-2);
      if (a.sum / a.weight <= b.sum / b.weight) break;
      pools.splice(-2, 2, { sum: a.sum + b.sum, weight: a.weight + b.weight, size: a.size + b.size });
    }
  });
  let at = 0;
  for (const pool of pools) {
    for (let left = pool.size; left; left--, at++) layer[at].cx = pool.sum / pool.weight + offsets[at];
  }
}

/** Layers that are too wide become rows, one below the other. */
function placeInRows(layers, edges, widest, gap) {
  let y = 0;
  let row = 0;
  for (const layer of layers) {
    const even = (widthOf(layer) + 1) / Math.ceil(widthOf(layer) / widest); // so that the last row is not a rest
    const rows = [];
    let width = 0;
    for (const node of layer) {
      (rows[Math.floor((width + node.w / 2) / even)] ??= []).push(node);
      width += node.w + GAP.x;
    }
    const left = -Math.max(...rows.filter(Boolean).map(widthOf)) / 2;
    for (const nodes of rows.filter(Boolean)) {
      let x = left;
      const height = Math.max(...nodes.map((node) => node.h));
      for (const node of nodes) {
        Object.assign(node, { cx: x + node.w / 2, y: y + (height - node.h) / 2, row, top: y, bottom: y + height });
        x += node.w + GAP.x;
      }
      y += height + GAP.row;
      row++;
    }
    y += gap(layer[0].rank) - GAP.row;
  }
  return finished(layers, edges);
}

function finished(layers, edges) {
  const all = layers.flat();
  const left = Math.min(...all.map((node) => node.cx - node.w / 2));
  const placed = new Map();
  for (const node of all) {
    node.cx -= left;
    if (node.real) placed.set(node.id, { x: node.cx - node.w / 2, y: node.y, w: node.w, h: node.h, row: node.row });
  }
  return {
    boxes: placed,
    edges: edges.map(({ from, to, through }) => ({
      from: from.id,
      to: to.id,
      points: [
        [from.cx, from.y + from.h],
        [from.cx, from.bottom],
        ...through.flatMap((dummy) => [[dummy.cx, dummy.top], [dummy.cx, dummy.bottom]]),
        [to.cx, to.top],
        [to.cx, to.y],
      ],
    })),
    width: Math.max(...all.map((node) => node.cx + node.w / 2)),
    height: Math.max(...all.map((node) => node.y + node.h)),
  };
}

/** A line through points, leaving and arriving straight. */
function curve(points) {
  let path = `M${points[0].join(" ")}`;
  for (let at = 1; at < points.length; at++) {
    const [[x1, y1], [x2, y2]] = [points[at - 1], points[at]];
    const middle = (y1 + y2) / 2;
    path += x1 === x2 ? `L${x2} ${y2}` : `C${x1} ${middle} ${x2} ${middle} ${x2} ${y2}`;
  }
  return path;
}
