// The page of open questions of all runs, with a form for each.

import { byId, make } from "../shared/dom";
import { keptTheme, setTheme } from "../shared/theme";
import { answerForm } from "../view/answer";
import type { Schema } from "../view/data";
import "./inbox.css";

interface Question {
  run: string;
  id: string;
  expert: string;
  goal: string;
  operator: string;
  text: string;
  form: (Schema & { approval?: { arguments?: unknown } }) | null;
  asked: string | null;
  answer_by: string[];
  may_answer: boolean;
}

const SECONDS = 10;
const [expert, mine, key] = [byId<HTMLSelectElement>("expert"), byId<HTMLInputElement>("mine"), byId<HTMLInputElement>("key")];
const [list, said] = [byId("questions"), byId("said")];
const shown = new Map<string, HTMLElement>();
const linked = new URLSearchParams(location.search).get("run"); // by a message about its question

async function request(path: string, body?: string): Promise<unknown> {
  const given = key.value.trim();
  const headers = { "Content-Type": "application/json", ...(given && { Authorization: `Bearer ${given}` }) };
  const reply = await fetch(path, body === undefined ? { headers } : { method: "POST", headers, body });
  const value = (await reply.json().catch(() => ({}))) as { error?: { message?: string } };
  if (reply.status === 401) byId("keyed").hidden = false;
  if (!reply.ok) throw new Error(value.error?.message ?? `HTTP ${reply.status}`);
  return value;
}

const nameOf = ({ run, id }: Question): string => JSON.stringify([run, id]);

/** How long ago a time was, in words. */
function ago(time: string): string {
  const seconds = (Date.now() - Date.parse(time)) / 1000;
  for (const [unit, size] of [["day", 86400], ["hour", 3600], ["minute", 60]] as const) {
    const number = Math.floor(seconds / size);
    if (number >= 1) return `${number} ${unit}${number > 1 ? "s" : ""} ago`;
  }
  return "just now";
}

function item(question: Question): HTMLElement {
  const { run, id, form } = question;
  const fault = make("p.fault", { role: "alert" });
  const line = make("li");
  const answer = async (json: string): Promise<void> => {
    fault.textContent = "";
    try {
      await request(`runs/${encodeURIComponent(run)}/answers/${encodeURIComponent(id)}`, `{"answer":${json}}`);
      shown.delete(nameOf(question));
      line.remove();
      said.textContent = `Answered: ${question.expert}, run ${run}`;
      await load();
    } catch (error) {
      fault.textContent = (error as Error).message;
    }
  };
  const call = form?.approval ? JSON.stringify(form.approval.arguments, null, 1) : undefined;
  const since = make("time", { dateTime: question.asked ?? "", title: question.asked ?? "" });
  line.append(
    make("h2", { textContent: question.text, dir: "auto" }),
    make("p.soft", {}, `${question.expert}, ${question.operator} · `, since),
    question.goal ? make("p.soft", { textContent: `Goal: ${question.goal}`, dir: "auto" }) : "",
    question.answer_by.length ? make("p.soft", { textContent: `May be answered by: ${question.answer_by.join(", ")}` }) : "",
    question.may_answer ? answerForm({ schema: form, arguments: call }, (json) => void answer(json), (text) => { fault.textContent = text; }) : "",
    fault,
    make("p.soft", { textContent: `Run ${run}` }),
  );
  return line;
}

/** Show the open questions. What is being written in a form stays. */
async function load(): Promise<void> {
  const query = new URLSearchParams({ mine: String(mine.checked), ...(expert.value && { expert: expert.value }) });
  const { questions } = (await request(`questions?${query}`)) as { questions: Question[] };
  const names = new Set(questions.map(nameOf));
  for (const [name, line] of shown) {
    if (names.has(name)) continue;
    line.remove();
    shown.delete(name);
  }
  for (const question of questions) {
    const line = shown.get(nameOf(question)) ?? item(question);
    const since = line.querySelector("time");
    if (since) since.textContent = question.asked ? `asked ${ago(question.asked)}` : "";
    if (!shown.has(nameOf(question))) {
      list.append(line);
      if (question.run === linked) line.scrollIntoView();
    }
    shown.set(nameOf(question), line);
  }
  document.title = questions.length ? `(${questions.length}) Inbox` : "Inbox";
  if (!questions.length) said.textContent = "No open questions";
  else if (said.textContent === "No open questions") said.textContent = "";
}

async function loadExperts(): Promise<void> {
  const { experts } = (await request("experts")) as { experts: { name: string }[] };
  expert.replaceChildren(new Option("all", ""), ...experts.map(({ name }) => new Option(name, name)));
  await load();
}

const attempt = (work: () => Promise<void>): void => void work().catch((error: Error) => { said.textContent = error.message; });

setTheme(keptTheme());
byId("filters").addEventListener("submit", (event) => event.preventDefault());
for (const each of [expert, mine]) each.addEventListener("change", () => attempt(load));
key.addEventListener("change", () => attempt(loadExperts));
setInterval(() => { if (!document.hidden) attempt(load); }, SECONDS * 1000);
attempt(loadExperts);
