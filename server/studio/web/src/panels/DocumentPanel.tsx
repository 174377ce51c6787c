// The inspector when no node is selected: the workflow itself.

import type { ReactElement } from "react";
import { Losses } from "../Losses";
import { useCommands } from "../store";
import type { Document } from "../types";

export function DocumentPanel({ document }: { document: Document }): ReactElement {
  const commands = useCommands();
  const notes = document.notes ?? [];
  return (
    <div className="inspector">
      <header className="node-head"><h2 dir="auto">{document.name}</h2></header>
      <dl className="facts">
        <div><dt>File</dt><dd>{document.path}</dd></div>
        <div><dt>Format</dt><dd>{document.format}</dd></div>
        <div><dt>Nodes</dt><dd>{document.nodes.length}</dd></div>
        <div><dt>Edges</dt><dd>{document.edges.length}</dd></div>
        <div><dt>Issues</dt><dd>{document.issues.length ? <button type="button" className="link" onClick={() => commands.panel("issues")}>{document.issues.length}</button> : "none"}</dd></div>
      </dl>
      {notes.length > 0 && (
        <section className="block">
          <h3>Notes</h3>
          <ul className="plain-list">{notes.map((note, at) => <li key={at} dir="auto">{note}</li>)}</ul>
        </section>
      )}
      {document.lossy.length > 0 && (
        <section className="block">
          <h3>Not kept by this format</h3>
          <Losses losses={document.lossy} />
        </section>
      )}
      <p className="soft">Select a node to edit it, or press <kbd>/</kbd> to add one.</p>
    </div>
  );
}
