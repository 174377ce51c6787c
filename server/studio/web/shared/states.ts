// States of runs, rounds and operators: what each is called on every page, and the shape of its mark, so that colour is never all there is.

interface Look {
  label: string;
  /** What it is called where there is little room. */
  short?: string;
  shape: string;
  hollow?: boolean;
}

export const STATES = {
  waiting: { label: "waiting", shape: "M8 3.2a4.8 4.8 0 1 0 .01 0z", hollow: true },
  running: { label: "running", shape: "M5 3l8 5-8 5z" },
  asking: { label: "waits for an answer", shape: "M5.6 6a2.4 2.4 0 1 1 3.4 2.2c-.7.4-1 .8-1 1.6M8 12.2v.6", hollow: true },
  retrying: { label: "waits to try again", short: "retries", shape: "M12.4 6A5 5 0 1 0 13 9M12.8 2.6V6H9.4", hollow: true },
  done: { label: "done", shape: "M3 8.5l3.3 3.3L13 4.8", hollow: true },
  failed: { label: "failed", shape: "M4 4l8 8M12 4l-8 8", hollow: true },
  fell: { label: "failed, went on", shape: "M8 3v6M8 12.2v.6", hollow: true },
  stopped: { label: "stopped", shape: "M4 4h8v8H4z" },
  cancelled: { label: "cancelled", shape: "M4 4h8v8H4z" },
  skipped: { label: "skipped", shape: "M3 4l4 4-4 4M9 4l4 4-4 4", hollow: true },
  cached: { label: "from the cache", shape: "M9 2L4 9h4l-1 5 5-7H8z" },
  kept: { label: "reused from before", short: "reused", shape: "M4.5 2.5h7v11L8 10.5l-3.5 3z" },
  reused: { label: "reused from an earlier round", short: "reused", shape: "M2.5 8.5l2.8 2.8L11 5M13 4v8", hollow: true },
  pinned: { label: "pinned", shape: "M6 2.5h4l-.5 4 2 2.5h-7l2-2.5zM8 9v4.5" },
  stale: { label: "changed since", shape: "M4 8h8", hollow: true },
  idle: { label: "did not run", shape: "M4 8h8", hollow: true },
  interrupted: { label: "interrupted", shape: "M3 8h2M7 8h2M11 8h2", hollow: true },
  cut: { label: "unfinished: its events end before the run does", shape: "M3 8h2M7 8h2M11 8h2", hollow: true },
} satisfies Record<string, Look>;

export type State = keyof typeof STATES;

const isState = (state: string): state is State => Object.hasOwn(STATES, state);

export const lookOf = (state: string): Look => STATES[isState(state) ? state : "idle"];

/** A state in few words, for a card or a list. */
export function stateInWords(state: string): string {
  if (!isState(state)) return state;
  const look: Look = STATES[state];
  return look.short ?? look.label;
}

/** The verdict of a status: accepted; or rejected, with the name of the status. */
export const verdict = (status: string): string => (status === "SUCCESS" ? "accepted" : `rejected (${status.toLowerCase().replaceAll("_", " ")})`);
