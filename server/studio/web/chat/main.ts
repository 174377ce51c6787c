// The page of `operad serve`: a chat with one of its experts, through the Responses protocol.

import { byId, make } from "../shared/dom";
import { markdown } from "../shared/markdown";
import { isMarkdown } from "../shared/markup";
import { keptTheme, setTheme } from "../shared/theme";
import { visible } from "../shared/visible";
import "./chat.css";

interface Expert {
  name: string;
  opening?: string;
  questions?: string[];
}

interface Refusal {
  error?: { message?: string };
}

type ServerEvent =
  | { type: "response.output_text.delta"; delta: string }
  | { type: "response.completed"; response: { id: string } }
  | { type: "response.failed"; response: { error: { message: string } } };

const [form, expert, key, message] = [byId("form"), byId<HTMLSelectElement>("expert"), byId<HTMLInputElement>("key"), byId<HTMLTextAreaElement>("message")];
const [talk, sendButton, stopButton] = [byId("talk"), byId<HTMLButtonElement>("send"), byId<HTMLButtonElement>("stop")];
let experts: readonly Expert[] = [];
let previous: string | null = null;
let answering: AbortController | null = null;

function headers(): Record<string, string> {
  const given = key.value.trim();
  return { "Content-Type": "application/json", ...(given && { Authorization: `Bearer ${given}` }) };
}

function add(who: string, text: string): HTMLElement {
  const line = make(`div.${who}`, { dir: "auto" });
  show(line, text);
  talk.append(line);
  line.scrollIntoView({ block: "nearest" });
  return line;
}

function show(line: HTMLElement, text: string): void {
  const formatted = line.classList.contains("assistant") && isMarkdown(text);
  line.classList.toggle("markdown", formatted);
  line.replaceChildren(...(formatted ? markdown(text) : [visible(text)]));
}

async function refusal(reply: Response): Promise<string> {
  const said = (await reply.json().catch(() => ({}))) as Refusal;
  if (reply.status === 401) byId("keyed").hidden = false;
  return said.error?.message ?? `HTTP ${reply.status}`;
}

async function loadExperts(): Promise<void> {
  const reply = await fetch("experts", { headers: headers() });
  if (!reply.ok) throw new Error(await refusal(reply));
  experts = ((await reply.json()) as { experts: Expert[] }).experts;
  expert.replaceChildren(...experts.map(({ name }) => new Option(name, name)));
  greet();
}

function greet(): void {
  const { opening, questions = [] } = experts.find((each) => each.name === expert.value) ?? {};
  if (previous || talk.childElementCount) return;
  if (opening) add("assistant", opening);
  talk.append(...questions.map((question) => make("button", {
    type: "button", textContent: question,
    onclick: () => {
      message.value = question;
      void send();
    },
  })));
}

/** Show an answer as it arrives. */
async function read(reply: Response, line: HTMLElement): Promise<void> {
  let [rest, said] = ["", ""];
  const take = (block: string): void => {
    const data = block.split("\n").find((each) => each.startsWith("data: "));
    if (!data) return;
    const event = JSON.parse(data.slice(6)) as ServerEvent;
    if (event.type === "response.output_text.delta") show(line, (said += event.delta));
    if (event.type === "response.completed") previous = event.response.id;
    if (event.type === "response.failed") throw new Error(event.response.error.message);
    line.scrollIntoView({ block: "nearest" });
  };
  const decoder = new TextDecoder();
  const reader = reply.body?.getReader();
  for (let part = await reader?.read(); part && !part.done; part = await reader?.read()) {
    const blocks = (rest + decoder.decode(part.value, { stream: true })).split("\n\n");
    rest = blocks.pop() ?? "";
    blocks.forEach(take);
  }
}

async function send(): Promise<void> {
  const text = message.value.trim();
  if (!text || answering) return;
  answering = new AbortController();
  sendButton.disabled = true;
  stopButton.disabled = false;
  const [mine, line] = [add("user", text), add("assistant", "")];
  message.value = "";
  try {
    if (!expert.value) await loadExperts();
    const body = { model: expert.value, input: text, stream: true, previous_response_id: previous };
    const reply = await fetch("v1/responses", { method: "POST", headers: headers(), body: JSON.stringify(body), signal: answering.signal });
    if (!reply.ok) throw new Error(await refusal(reply));
    await read(reply, line);
  } catch (error) {
    if (!line.textContent) line.remove();
    add("error", (error as Error).name === "AbortError" ? "stopped" : (error as Error).message);
    if (!message.value) message.value = text;
    mine.remove();
  }
  answering = null;
  sendButton.disabled = false;
  stopButton.disabled = true;
  message.focus();
}

function startAnew(): void {
  answering?.abort();
  previous = null;
  talk.replaceChildren();
  greet();
}

const tryToLoad = (): void => void loadExperts().catch((error: Error) => add("error", error.message));

setTheme(keptTheme());
form.addEventListener("submit", (event) => {
  event.preventDefault();
  void send();
});
message.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  void send();
});
stopButton.addEventListener("click", () => answering?.abort());
byId("anew").addEventListener("click", startAnew);
expert.addEventListener("change", startAnew);
key.addEventListener("change", tryToLoad);
tryToLoad();
