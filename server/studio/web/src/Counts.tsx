// How many nodes a change adds, changes and removes; what is none is left out.

import type { ReactElement } from "react";
import type { Changes } from "./types";

export function Counts({ changes }: { changes: Changes }): ReactElement {
  const counts = { added: changes.added.length, changed: changes.changed.length, removed: changes.removed.length };
  const shown = Object.entries(counts).filter(([, count]) => count > 0);
  if (!shown.length) return <span className="soft">no changes</span>;
  return <>{shown.map(([name, count]) => <span key={name} className={name}>{count} {name}</span>)}</>;
}
