// The start screen: the folder's files, examples, an empty workflow, one from a sentence, import by drop.

import { type FormEvent, type ReactElement, useState } from "react";
import { Icon } from "../icons";
import { base64Of } from "../panels/InputField";
import { ThemeButton } from "../ThemeButton";
import { useCommands, useStudio } from "../store";
import type { FileEntry, RecentFile } from "../types";
import { bytes } from "../../shared/numbers";

export function Start(): ReactElement {
  const files = useStudio((state) => state.files);
  const opening = useStudio((state) => state.opening);
  const commands = useCommands();
  const [over, setOver] = useState(false);
  const [sentence, setSentence] = useState("");
  const take = async (given: FileList | null): Promise<void> => {
    const [file] = given ?? [];
    if (!file) return;
    const most = files?.limits.file ?? Infinity;
    if (file.size > most) commands.say(`${file.name} is larger than ${bytes(most)} and cannot be imported.`, "error");
    else await commands.make({ new: "import", name: file.name, base64: await base64Of(file) });
  };
  const fromSentence = async (event: FormEvent): Promise<void> => {
    event.preventDefault();
    const text = sentence.trim();
    if (!text) return;
    const made = await commands.make({ new: "empty", path: freePath(files?.files ?? [], slug(text)) });
    if (!made) return;
    commands.panel("chat");
    void commands.chat(text);
  };
  const without = files?.model.configured === false;
  const all = files?.files ?? [];
  return (
    <main
      className={over ? "start over" : "start"}
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={(event) => {
        if (event.target === event.currentTarget) setOver(false);
      }}
      onDrop={(event) => {
        event.preventDefault();
        setOver(false);
        void take(event.dataTransfer.files);
      }}
    >
      <div className="start-inner">
        <header>
          <h1>Operad studio</h1>
          <span className="soft folder" title={files?.folder}>{files?.folder}</span>
          <span className="room" />
          <ThemeButton />
        </header>
        <form className="sentence" onSubmit={(event) => void fromSentence(event)}>
          <label htmlFor="sentence">New from a sentence</label>
          <div>
            <input id="sentence" type="text" placeholder="Summarise a document, then translate the summary into French" value={sentence} disabled={without} onChange={(event) => setSentence(event.target.value)} />
            <button type="submit" className="main" disabled={without || !sentence.trim()}>Create</button>
          </div>
          {without && <p className="notice">{files?.model.missing || "No model is set; set OPENAI_API_KEY and OPENAI_MODEL."}</p>}
        </form>
        <div className="start-ways">
          <button type="button" className="way" onClick={() => void commands.make({ new: "empty", path: freePath(all, "workflow") })}>
            <Icon name="plus" /><span><strong>Empty workflow</strong><span className="soft">Draw it on the canvas</span></span>
          </button>
          <button type="button" className="way" onClick={() => void commands.make({ new: "experts", path: freePath(all, "experts") })}>
            <Icon name="plus" /><span><strong>Empty expert</strong><span className="soft">Steps whose result an evaluator checks and repairs</span></span>
          </button>
          <label className="way">
            <Icon name="import" /><span><strong>Import a file</strong><span className="soft">From Dify, Coze, ComfyUI; or drop it here</span></span>
            <input type="file" className="hidden" aria-label="Import a file" onChange={(event) => void take(event.target.files)} />
          </label>
        </div>
        {(all.length > FEW || files?.recent.some((file) => file.command || file.missing)) && <Recent recent={files?.recent ?? []} />}
        <section aria-label="Files">
          <h2>Files</h2>
          {!all.length && <p className="soft">{files ? "No workflow in this folder yet." : "Looking…"}</p>}
          <ul className="file-list">
            {all.map((file) => (
              <li key={file.path}>
                <button type="button" disabled={file.error !== null || opening !== null} title={file.error ?? undefined} onClick={() => void commands.open(file.path)} aria-busy={opening === file.path}>
                  <Icon name="file" />
                  <span className="file-name" dir="auto">{file.path}<span className="soft">{file.error ?? (file.path.replace(/\.[^.]*$/, "") === file.name ? "" : file.name)}</span></span>
                  <span className="chip">{file.format || "not read"}</span>
                  <span className="soft count">{file.nodes ? `${file.nodes} ${file.nodes === 1 ? "node" : "nodes"}` : ""}</span>
                  <span className="soft when">{ago(file.modified)}</span>
                </button>
              </li>
            ))}
          </ul>
        </section>
        {(files?.examples.length ?? 0) > 0 && (
          <section aria-label="Examples">
            <h2>Start from an example</h2>
            <div className="examples">
              {files?.examples.map((example) => (
                <button type="button" className="way" key={example.name} onClick={() => void commands.make({ new: "example", name: example.name, path: freePath(all, example.name) })}>
                  <Icon name="tidy" /><span><strong>{example.title}</strong></span>
                </button>
              ))}
            </div>
          </section>
        )}
      </div>
      {over && <div className="drop-here">Drop a workflow to import it</div>}
    </main>
  );
}

/** Files that were opened lately; one of another folder is opened by a command, which is copied. */
function Recent({ recent }: { recent: readonly RecentFile[] }): ReactElement {
  const opening = useStudio((state) => state.opening);
  const commands = useCommands();
  const open = async (file: RecentFile): Promise<void> => {
    if (file.name) return commands.open(file.name);
    const copied = await navigator.clipboard.writeText(file.command ?? "").then(() => true, () => false);
    commands.say(`${copied ? "Copied. " : ""}This file is in another folder; open it with: ${file.command}`);
    return undefined;
  };
  return (
    <section aria-label="Recent">
      <h2>Recent</h2>
      <ul className="file-list">
        {recent.map((file) => (
          <li key={file.place} className={file.missing ? "missing" : ""}>
            <button type="button" disabled={file.missing || opening !== null} title={file.command ? `Copy: ${file.command}` : file.place} aria-busy={opening !== null && opening === file.name} onClick={() => void open(file)}>
              <Icon name={file.command ? "copy" : "file"} />
              <span className="file-name" dir="auto">{file.name ?? file.place.replace(/^.*[/\\]/, "")}<span className="soft">{file.command && folderOf(file.place)}</span></span>
              {file.missing && <span className="chip missing-chip">missing</span>}
              {file.command && !file.missing && <span className="chip">other folder</span>}
              <span className="soft when">{ago(file.at)}</span>
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** Files that are found at a glance, without a list of those opened lately. */
const FEW = 8;

const folderOf = (place: string): string => place.replace(/[/\\][^/\\]*$/, "");

const slug = (text: string): string =>
  text.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "_").split("_").filter(Boolean).slice(0, 4).join("_") || "workflow";

function freePath(files: readonly FileEntry[], name: string): string {
  const taken = new Set(files.map((file) => file.path));
  const stem = name.replace(/\.ya?ml$/, "");
  for (let number = 1; ; number++) {
    const path = `${stem}${number > 1 ? `_${number}` : ""}.yaml`;
    if (!taken.has(path)) return path;
  }
}

function ago(modified: number | string): string {
  const when = typeof modified === "number" ? modified * 1000 : Date.parse(modified);
  const minutes = Math.round((Date.now() - when) / 60_000);
  if (!Number.isFinite(minutes)) return "";
  if (minutes < 1) return "just now";
  if (minutes < 60) return `${minutes} min ago`;
  if (minutes < 60 * 24) return `${Math.round(minutes / 60)} h ago`;
  return new Date(when).toLocaleDateString([], { day: "numeric", month: "short", year: "numeric" });
}
