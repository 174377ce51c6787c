import type { ReactElement } from "react";
import { KEYS } from "../canvas/keys";
import { Dialog } from "./Dialog";

export function Help(): ReactElement {
  return (
    <Dialog title="Keys" className="help">
      <dl className="keys" tabIndex={0} aria-label="Keys">
        {KEYS.map(([keys, what]) => <div key={keys}><dt>{keys}</dt><dd>{what}</dd></div>)}
      </dl>
      <p className="soft">
        Drag from a port to connect; drop an edge on the canvas to add a node there. Scroll to pan, Ctrl and scroll to zoom,
        Shift and drag to select. The graph is drawn by React Flow and laid out by ELK; the licences of all packages are in LICENSES.txt of the bundle.
      </p>
    </Dialog>
  );
}
