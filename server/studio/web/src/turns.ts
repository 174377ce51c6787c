// Requests one after the other, and what is said where one is refused.

import { Refused } from "./api";
import type { Store } from "./store";

export function createTurns({ dispatch }: Store) {
  let queue: Promise<unknown> = Promise.resolve();
  let turns = 0; // that have not ended
  let leaving = false;
  window.addEventListener("pagehide", () => {
    leaving = true;
  });
  window.addEventListener("pageshow", () => {
    leaving = false;
  });

  const say = (text: string, kind: "info" | "error" = "info"): void => dispatch({ type: "toast", toast: { kind, text } });

  const refused = (error: unknown): void => {
    if (error instanceof Refused) {
      if (error.document) dispatch({ type: "document", document: error.document });
      if (error.status === 0) dispatch({ type: "connected", connected: false });
      const others = error.issues.map((issue) => issue.what).filter((what) => !error.message.includes(what));
      say([error.message, ...others.slice(0, 2)].join("; "), "error");
    } else if (!(error instanceof DOMException && error.name === "AbortError")) {
      say(error instanceof Error ? error.message : String(error), "error");
    }
  };

  const quietly = async <Answer>(work: () => Promise<Answer>): Promise<Answer | undefined> => {
    try {
      return await work();
    } catch (error) {
      refused(error);
      return undefined;
    }
  };

  /** Do one thing after another; what fails is told, and does not stop what follows. */
  const inTurn = <Answer>(work: () => Promise<Answer>): Promise<Answer | undefined> => {
    turns++;
    const turn = queue.then(async () => {
      dispatch({ type: "saving", saving: true });
      try {
        return await quietly(work);
      } finally {
        turns--;
        dispatch({ type: "saving", saving: false });
      }
    });
    queue = turn;
    return turn;
  };

  /** Whether the page is left before its turn would come. */
  const tooLate = (): boolean => leaving && turns > 0;

  return { say, refused, quietly, inTurn, tooLate };
}
