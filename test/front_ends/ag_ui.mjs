// Talk to an agent with the client of AG-UI, which checks each event, and print what it got.
// The argument: {url, headers, turns}, where a turn is a text, or {answers: {question: payload}} or {cancel: true}.
import { HttpAgent } from "@ag-ui/client";

const { url, headers, turns } = JSON.parse(process.argv[2]);
const agent = new HttpAgent({ url, headers, threadId: "thread" });
const runs = [];
for (const [number, turn] of turns.entries()) {
  const events = [];
  const told = { events, asked: [], error: null };
  let resume;
  if (typeof turn === "string") agent.addMessage({ id: `user-${number}`, role: "user", content: turn });
  else
    resume = agent.pendingInterrupts.map(({ id, message }) => ({
      interruptId: id,
      ...(turn.cancel ? { status: "cancelled" } : { status: "resolved", payload: turn.answers[message] ?? turn.answers[""] }),
    }));
  try {
    await agent.runAgent({ runId: `run-${number}`, resume }, { onEvent: ({ event }) => void events.push(event) });
  } catch (error) {
    told.error = String(error.message ?? error);
  }
  told.asked = agent.pendingInterrupts;
  runs.push(told);
}
console.log(JSON.stringify({ runs, messages: agent.messages }));
