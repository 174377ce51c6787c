// Add an operator or an evaluator to an expert, an expert, or the leader: its name, and what it is to do.

import { type FormEvent, type ReactElement, useState } from "react";
import { focusDrawn } from "../canvas/keys";
import { freeName } from "../operations";
import { type Dialog as Which, edgeId } from "../state";
import { useCommands, useStore, useStudio } from "../store";
import { Dialog } from "./Dialog";

export function AddOperator({ dialog }: { dialog: Extract<Which, { kind: "palette" }> }): ReactElement | null {
  const document = useStudio((state) => state.document);
  const { dispatch } = useStore();
  const commands = useCommands();
  const edge = document?.edges.find((each) => edgeId(each) === dialog.edge);
  const before = document?.nodes.find((node) => node.id === (edge?.source ?? dialog.source));
  const experts = document?.nodes.filter((node) => node.type === "expert") ?? [];
  const within = before?.type === "expert" ? before.id : before?.parent;
  const after = before?.type === "operator" ? before : undefined;
  const [kind, setKind] = useState(dialog.part ?? "operator");
  const [expert, setExpert] = useState(within ?? experts[0]?.id ?? "");
  const [name, setName] = useState(() => (document ? freeName(document, dialog.part ?? "operator") : ""));
  const [instruction, setInstruction] = useState("");
  const [desc, setDesc] = useState("");
  const [first, setFirst] = useState(() => (document ? freeName(document, "operator") : ""));
  if (!document) return null;
  const add = async (event: FormEvent): Promise<void> => {
    event.preventDefault();
    const where = kind === "operator" && expert === within && after ? { source: after.id, port: dialog.port, edge: dialog.edge } : {};
    const made = await commands.addOperator({ kind, name: name.trim(), instruction, expert, desc: desc.trim(), operator: first.trim(), ...where });
    if (!made) return;
    dispatch({ type: "dialog", dialog: null });
    requestAnimationFrame(() => focusDrawn(made));
  };
  const kinds = ["operator", "evaluator", "expert", ...(document.nodes.some((node) => node.type === "leader") ? [] : ["leader"])];
  const places: Record<string, string> = {
    operator: edge ? "It comes into the selected edge." : after ? `It comes after ${after.title}.` : `It begins a chain of ${expert}.`,
    evaluator: `It judges the result of ${expert}.`,
    expert: "It is a workflow of its own, which a leader can give jobs.",
    leader: "It splits a job over the experts; their descriptions say what each is good at.",
  };
  const inExpert = kind === "operator" || kind === "evaluator";
  return (
    <Dialog title={`Add ${/^[aeiou]/.test(kind) ? "an" : "a"} ${kind}`} className="operator">
      <form className="fields" onSubmit={(event) => void add(event)}>
        <div className="ports-choice" role="radiogroup" aria-label="Kind">
          {kinds.map((each) => (
            <label key={each}>
              <input
                type="radio" name="kind" checked={kind === each} onChange={() => {
                  setKind(each);
                  if (/^(operator|evaluator|expert|leader)(-\d+)?$/.test(name)) setName(freeName(document, each));
                }}
              /> {each.charAt(0).toUpperCase() + each.slice(1)}
            </label>
          ))}
        </div>
        {inExpert && experts.length > 1 && (
          <label className="part"><span className="part-name">Expert</span>
            <select value={expert} onChange={(event) => setExpert(event.target.value)}>{experts.map((each) => <option key={each.id}>{each.id}</option>)}</select>
          </label>
        )}
        {kind !== "leader" && (
          <label className="part"><span className="part-name">Name</span>
            <input type="text" dir="auto" required data-field autoComplete="off" spellCheck={false} value={name} onFocus={(event) => event.target.select()} onChange={(event) => setName(event.target.value)} />
          </label>
        )}
        {kind === "expert" && (
          <>
            <label className="part"><span className="part-name">Description</span>
              <input type="text" dir="auto" autoComplete="off" value={desc} placeholder="Checks what a text claims." onChange={(event) => setDesc(event.target.value)} />
            </label>
            <label className="part"><span className="part-name">First operator</span>
              <input type="text" dir="auto" required autoComplete="off" spellCheck={false} value={first} onChange={(event) => setFirst(event.target.value)} />
            </label>
          </>
        )}
        {kind !== "leader" && (
          <label className="part"><span className="part-name">{kind === "evaluator" ? "Criteria" : "Instruction"}</span>
            <textarea dir="auto" rows={3} required value={instruction} placeholder={kind === "evaluator" ? "Every sentence rests on a claim." : "List the claims of the text."} onChange={(event) => setInstruction(event.target.value)} />
          </label>
        )}
        <footer>
          <span className="soft place">{places[kind]}</span>
          <span className="room" />
          <button type="submit" className="main">Add</button>
        </footer>
      </form>
    </Dialog>
  );
}
