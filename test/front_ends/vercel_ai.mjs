// Talk to an agent with the chat of the Vercel AI SDK, which is that of useChat without React, and print what it got.
// The argument: {url, headers, turns}, where a turn is a text, or {approved, reason} for the tool calls that wait.
import { AbstractChat, DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses } from "ai";

class State {
  status = "ready";
  error = undefined;
  messages = [];
  pushMessage = (message) => void (this.messages = [...this.messages, message]);
  popMessage = () => void (this.messages = this.messages.slice(0, -1));
  replaceMessage = (index, message) => void (this.messages = this.messages.with(index, message));
  snapshot = (value) => structuredClone(value);
}
class Chat extends AbstractChat {}

const { url, headers, turns } = JSON.parse(process.argv[2]);
const [steps, errors, requests] = [[], [], []];
const fetched = (...request) => (requests.push(JSON.parse(request[1].body)), fetch(...request));
const chat = new Chat({
  id: "chat",
  state: new State(),
  transport: new DefaultChatTransport({ api: url, headers, fetch: fetched }),
  sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
  onData: (part) => void steps.push(part),
  onError: (error) => void errors.push(String(error.message ?? error)),
});
const settled = async () => {
  while (chat.status === "submitted" || chat.status === "streaming") await new Promise((done) => setTimeout(done, 5));
};
for (const turn of turns) {
  if (typeof turn === "string") await chat.sendMessage({ text: turn });
  else
    for (const part of chat.lastMessage.parts.filter(({ state }) => state === "approval-requested"))
      await chat.addToolApprovalResponse({ id: part.approval.id, ...turn });
  await settled();
}
console.log(JSON.stringify({ messages: chat.messages, steps, errors, requests: requests.length }));
