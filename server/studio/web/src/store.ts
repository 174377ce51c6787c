// The one store of the page: a reducer, and those who listen. It is made in main.tsx and handed down.

import { createContext, useContext, useSyncExternalStore } from "react";
import type { Commands } from "./commands";
import { type Action, type State, reduce } from "./state";

export interface Store {
  get(): State;
  dispatch(action: Action): void;
  listen(changed: () => void): () => void;
}

export function createStore(initial: State): Store {
  let state = initial;
  const listeners = new Set<() => void>();
  return {
    get: () => state,
    dispatch(action) {
      const next = reduce(state, action);
      if (next === state) return;
      state = next;
      for (const changed of listeners) changed();
    },
    listen(changed) {
      listeners.add(changed);
      return () => listeners.delete(changed);
    },
  };
}

export interface Studio {
  store: Store;
  commands: Commands;
}

export const StudioContext = createContext<Studio | null>(null);

function useContextOf(): Studio {
  const studio = useContext(StudioContext);
  if (!studio) throw new Error("outside of the studio");
  return studio;
}

/** A part of the state; `select` must return the same object as long as nothing it reads has changed. */
export function useStudio<Part>(select: (state: State) => Part): Part {
  const { store } = useContextOf();
  return useSyncExternalStore(store.listen, () => select(store.get()));
}

export const useCommands = (): Commands => useContextOf().commands;
export const useStore = (): Store => useContextOf().store;
