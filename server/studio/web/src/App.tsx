// The page: the start screen, or the editor of one file.

import { ReactFlowProvider } from "@xyflow/react";
import { type ReactElement, useEffect } from "react";
import { Banner } from "./Banner";
import { Canvas } from "./canvas/Canvas";
import { AddOperator } from "./dialogs/AddOperator";
import { Connect } from "./dialogs/Connect";
import { CompareRuns } from "./dialogs/CompareRuns";
import { CompareVersions } from "./dialogs/CompareVersions";
import { EditValue } from "./dialogs/EditValue";
import { Export } from "./dialogs/Export";
import { Find } from "./dialogs/Find";
import { Help } from "./dialogs/Help";
import { MakeTest } from "./dialogs/MakeTest";
import { QuickAdd } from "./dialogs/QuickAdd";
import { Rename } from "./dialogs/Rename";
import { Try } from "./dialogs/Try";
import { RunNode } from "./dialogs/RunNode";
import { Icon } from "./icons";
import { Chat } from "./panels/Chat";
import { History } from "./panels/History";
import { Inspector } from "./panels/Inspector";
import { Issues } from "./panels/Issues";
import { Palette } from "./panels/Palette";
import { RunPanel } from "./panels/RunPanel";
import { Tests } from "./panels/Tests";
import { Start } from "./start/Start";
import type { Panel } from "./state";
import { useCommands, useStore, useStudio } from "./store";
import { TopBar } from "./TopBar";

export function App(): ReactElement {
  const open = useStudio((state) => state.document !== null);
  const first = useStudio((state) => state.opening !== null && state.files === null); // the address names a file
  const commands = useCommands();
  useEffect(() => {
    return commands.follow();
  }, [commands]);
  useEffect(() => {
    window.addEventListener("hashchange", commands.visit);
    return () => window.removeEventListener("hashchange", commands.visit);
  }, [commands]);
  return (
    <>
      {open ? <Editor /> : first ? <main className="opening" aria-busy="true" /> : <><Banner /><Start /></>}
      <Toast />
    </>
  );
}

function Editor(): ReactElement {
  const palette = useStudio((state) => state.palette && state.document?.kind !== "experts");
  const panel = useStudio((state) => state.panel);
  const path = useStudio((state) => state.document?.path ?? "");
  useEffect(() => {
    const idle = setTimeout(() => void import("./form/CodeField"), 600); // so that the first prompt opens at once
    return () => clearTimeout(idle);
  }, []);
  useEffect(() => {
    // A file that misses its field would be opened by the browser, in place of the page.
    const stay = (event: DragEvent): void => {
      if (event.dataTransfer?.types.includes("Files")) event.preventDefault();
    };
    window.addEventListener("dragover", stay);
    window.addEventListener("drop", stay);
    return () => {
      window.removeEventListener("dragover", stay);
      window.removeEventListener("drop", stay);
    };
  }, []);
  useEffect(() => {
    document.title = `${path} · Operad studio`;
    return () => {
      document.title = "Operad studio";
    };
  }, [path]);
  return (
    <div className="editor">
      <TopBar />
      <Banner />
      <main className={`work ${palette ? "with-palette" : ""} ${panel ? "with-panel" : ""}`}>
        {palette && <Palette />}
        <ReactFlowProvider key={path}><Canvas /></ReactFlowProvider>
        {panel && <Side panel={panel} />}
      </main>
      <Dialogs />
    </div>
  );
}

const TITLES: Record<Panel, string> = { inspector: "Inspector", issues: "Issues", run: "Run", chat: "Chat", history: "History", tests: "Tests" };

function Side({ panel }: { panel: Panel }): ReactElement {
  const commands = useCommands();
  return (
    <aside className={`side ${panel}-side`} aria-label={TITLES[panel]}>
      <header>
        <h2>{TITLES[panel]}</h2>
        <button type="button" className="ghost small" aria-label={`Close ${TITLES[panel]}`} onClick={() => commands.panel(null)}><Icon name="close" size={14} /></button>
      </header>
      <div className="side-body">
        {panel === "inspector" && <Inspector />}
        {panel === "issues" && <Issues />}
        {panel === "run" && <RunPanel />}
        {panel === "chat" && <Chat />}
        {panel === "history" && <History />}
        {panel === "tests" && <Tests />}
      </div>
    </aside>
  );
}

function Dialogs(): ReactElement | null {
  const dialog = useStudio((state) => state.dialog);
  const experts = useStudio((state) => state.document?.kind === "experts");
  switch (dialog?.kind) {
    case "palette":
      return experts ? <AddOperator key={dialog.source} dialog={dialog} /> : <QuickAdd dialog={dialog} />;
    case "connect":
      return <Connect source={dialog.source} />;
    case "rename":
      return <Rename node={dialog.node} />;
    case "edit-value":
      return <EditValue node={dialog.node} outputs={dialog.outputs} />;
    case "run-node":
      return <RunNode node={dialog.node} />;
    case "export":
      return <Export />;
    case "runs":
      return <CompareRuns rows={dialog.runs} />;
    case "find":
      return <Find />;
    case "test":
      return <MakeTest run={dialog.run} />;
    case "versions":
      return <CompareVersions versions={dialog.versions} />;
    case "try":
      return <Try node={dialog.node} />;
    case "help":
      return <Help />;
    default:
      return null;
  }
}

function Toast(): ReactElement {
  const toast = useStudio((state) => state.toast);
  const { dispatch } = useStore();
  useEffect(() => {
    if (!toast) return undefined;
    const timer = setTimeout(() => dispatch({ type: "toast", toast: null }), toast.kind === "error" ? 9000 : 4000);
    return () => clearTimeout(timer);
  }, [toast, dispatch]);
  return (
    <div className="toasts" role="status" aria-live="polite">
      {toast && (
        <div className={`toast ${toast.kind}`}>
          <span>{toast.text}</span>
          <button type="button" className="ghost small" aria-label="Dismiss" onClick={() => dispatch({ type: "toast", toast: null })}><Icon name="close" size={14} /></button>
        </div>
      )}
    </div>
  );
}
