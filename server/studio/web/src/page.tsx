import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./App";
import { createCommands } from "./commands";
import type { Layout } from "./layout";
import { type Theme, initialState } from "./state";
import { StudioContext, createStore } from "./store";
import type { Document } from "./types";

/** Show the page: the document that is on its way, if there is one, before anything else is asked for. */
export function show(layout: Layout, opening: { path: string; document: Promise<Document> } | null): void {
  const kept = localStorage.getItem("operad-theme");
  const theme: Theme = kept === "light" || kept === "dark" ? kept : "system";
  const store = createStore({ ...initialState(theme), opening: opening?.path ?? null });
  const commands = createCommands(store, layout);
  commands.theme(theme);
  const root = document.getElementById("root");
  if (!root) return;
  createRoot(root).render(
    <StrictMode>
      <StudioContext value={{ store, commands }}>
        <App />
      </StudioContext>
    </StrictMode>,
  );
  const first = opening ? commands.open(opening.path, opening.document) : Promise.resolve();
  void first.then(() => {
    void commands.files();
    void commands.catalogue();
  });
}
