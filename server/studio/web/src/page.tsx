import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { keptTheme } from "../shared/theme";
import { App } from "./App";
import { wanted } from "./address";
import { createCommands } from "./commands";
import type { Layout } from "./layout";
import { rememberRun } from "./remember";
import { initialState } from "./state";
import { StudioContext, createStore } from "./store";
import type { Document } from "./types";

/** Show the page: the document that is on its way, if there is one, before anything else is asked for. */
export function show(layout: Layout, opening: { path: string; document: Promise<Document> } | null): void {
  const theme = keptTheme();
  const store = createStore({ ...initialState(theme, localStorage.getItem("operad-model") ?? ""), opening: opening?.path ?? null });
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
  const asked = wanted();
  if (opening && asked.run) rememberRun(opening.path, asked.run);
  const first = opening ? commands.open(opening.path, opening.document) : Promise.resolve();
  void first.then(() => {
    commands.arrive(asked);
    void commands.files();
    void commands.catalogue();
  });
}
