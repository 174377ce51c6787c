// The bar at the top: the file, undo and redo, the panels, run.

import type { ReactElement } from "react";
import { adding, openPanel } from "./canvas/keys";
import { Icon, type IconName } from "./icons";
import { type Panel, shownDocument } from "./state";
import { useCommands, useStore, useStudio } from "./store";
import { ThemeButton } from "./ThemeButton";
import type { Issue } from "./types";

const NONE: readonly Issue[] = [];

export function TopBar(): ReactElement | null {
  const document = useStudio((state) => state.document);
  const issues = useStudio((state) => shownDocument(state)?.issues ?? NONE); // those of a draft, while it is shown
  const saving = useStudio((state) => state.saving);
  const connected = useStudio((state) => state.connected);
  const panel = useStudio((state) => state.panel);
  const palette = useStudio((state) => state.palette);
  const running = useStudio((state) => state.run !== null && !state.run.ended);
  const locked = useStudio((state) => state.overlay !== null);
  const { dispatch, get } = useStore();
  const commands = useCommands();
  if (!document) return null;
  const errors = issues.filter((issue) => issue.severity === "error").length;
  const count = issues.length;
  const toggle = (which: Panel): void => commands.panel(panel === which ? null : which);
  return (
    <header className="top">
      <button type="button" className="ghost" aria-label="All files" title="All files" onClick={() => commands.close()}><Icon name="back" /></button>
      {document.kind === "workflow" && <button type="button" className="ghost wide-only" aria-label="Node types" aria-pressed={palette} title="Node types" onClick={() => dispatch({ type: "palette", open: !palette })}><Icon name="panel" /></button>}
      <button type="button" className={document.kind === "experts" ? "ghost" : "ghost narrow-only"} aria-label={document.kind === "experts" ? "Add an operator" : "Add a node"} title={`Add ${document.kind === "experts" ? "an operator, an evaluator, an expert or a leader" : "a node"}  /`} disabled={locked || document.readonly !== null} onClick={() => dispatch({ type: "dialog", dialog: adding(get()) })}><Icon name="plus" /></button>
      <h1 dir="auto" title={document.path}>{document.path}</h1>
      <span className="chip wide-only">{document.format}</span>
      <span className="status soft wide-only" role="status">{connected ? (saving ? "Saving…" : "Saved") : "Not connected"}</span>
      <span className="room" />
      <div className="group">
        <button type="button" className="ghost" aria-label="Undo" title="Undo  Ctrl+Z" disabled={!document.undo || locked} onClick={() => void commands.undo()}><Icon name="undo" /></button>
        <button type="button" className="ghost" aria-label="Redo" title="Redo  Shift+Ctrl+Z" disabled={!document.redo || locked} onClick={() => void commands.redo()}><Icon name="redo" /></button>
      </div>
      <button type="button" className="ghost" aria-label="Find a node" title="Find a node  Ctrl+F" onClick={() => dispatch({ type: "dialog", dialog: { kind: "find" } })}><Icon name="search" /></button>
      <div className="group tabs" role="group" aria-label="Panels">
        <Tab which="issues" icon={count ? "issue" : "check"} label={count ? `${count} ${count === 1 ? "issue" : "issues"}` : "No issues"} short={count ? String(count) : undefined} tone={errors ? "bad" : count ? "warn" : "good"} panel={panel} toggle={toggle} />
        <Tab which="history" icon="history" label="History" panel={panel} toggle={toggle} />
        <Tab which="tests" icon="test" label="Tests" panel={panel} toggle={toggle} />
        <Tab which="chat" icon="chat" label="Chat" panel={panel} toggle={toggle} />
        <button type="button" className="tab wide-only" title="Export" onClick={() => dispatch({ type: "dialog", dialog: { kind: "export" } })}><Icon name="export" /> <span className="wide-only">Export</span></button>
      </div>
      <button type="button" className={running ? "main running" : "main"} title={document.runs ? "Run  Ctrl+Enter" : `Cannot run: ${document.readonly}`} disabled={!document.runs} aria-pressed={panel === "run"} onClick={() => (panel === "run" ? commands.panel(null) : openPanel("run", ".run form", commands))}><Icon name="run" size={14} /> {running ? <><span className="wide-only">Running</span><span className="narrow-only">Run</span></> : "Run"}</button>
      <ThemeButton className="wide-only" />
      <button type="button" className="ghost wide-only" aria-label="Keys" title="Keys  ?" onClick={() => dispatch({ type: "dialog", dialog: { kind: "help" } })}><Icon name="help" /></button>
    </header>
  );
}

interface TabProps {
  which: Panel;
  icon: IconName;
  label: string;
  short?: string | undefined;
  tone?: string;
  panel: Panel | null;
  toggle(which: Panel): void;
}

function Tab({ which, icon, label, short, tone = "", panel, toggle }: TabProps): ReactElement {
  return (
    <button type="button" className={`tab ${tone}`} aria-pressed={panel === which} aria-label={label} title={label} onClick={() => toggle(which)}>
      <Icon name={icon} /> <span className="wide-only">{label}</span>{short && <span className="narrow-only">{short}</span>}
    </button>
  );
}
