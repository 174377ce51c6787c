// Add an operator or an evaluator to an expert, an expert, or the leader: its name, and what it is to do.

import { type FormEvent, type ReactElement, useState } from "react";
import { focusDrawn } from "../canvas/keys";
import { freeName } from "../operations";
import { type Dialog as Which, edgeId } from "../state";
import { useCommands, useStore, useStudio } from "../store";
import type { Document } from "../types";
import { Dialog } from "./Dialog";

/** The operator that ends the only chain of the only expert, after which a new one comes unless another one is selected. */
function lastOperator({ nodes, edges }: Document): string | undefined {
  const operators = new Set(nodes.filter((node) => node.type === "operator").map((node) => node.id));
  const [last, ...others] = [...operators].filter((id) => !edges.some((edge) => edge.source === id && operators.has(edge.target)));
  return others.length || nodes.filter((node) => node.type === "expert").length > 1 ? undefined : last;
}

export function AddOperator({ dialog }: { dialog: Extract<Which, { kind: "palette" }> }): ReactElement | null {
  const document = useStudio((state) => state.document);
  const { dispatch } = useStore();
  const commands = useCommands();
  const edge = document?.edges.find((each) => edgeId(each) === dialog.edge);
  const source = edge?.source ?? dialog.source ?? (document ? lastOperator(document) : undefined);
  const before = document?.nodes.find((node) => node.id === source);
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
  /** Add it; with `more`, show the dialog again for the next one, which comes after it. */
  const add = async (event: FormEvent<HTMLFormElement>): Promise<void> => {
    event.preventDefault();
    const more = ((event.nativeEvent as SubmitEvent).submitter?.dataset["more"] ?? null) !== null;
    const where = kind === "operator" && expert === within && after ? { source: after.id, port: dialog.port, edge: dialog.edge } : {};
    const made = await commands.addOperator({ kind, name: name.trim(), instruction, expert, desc: desc.trim(), operator: first.trim(), ...where });
    if (!made) return;
    if (more) {
      dispatch({ type: "dialog", dialog: { kind: "palette", source: made } });
      return;
    }
    dispatch({ type: "dialog", dialog: null });
    requestAnimationFrame(() => focusDrawn(made));
  };
  const kinds = ["operator", "evaluator", "expert", ...(document.nodes.some((node) => node.type === "leader") ? [] : ["leader"])];
  const places: Record<string, string> = {
    operator: edge ? "It comes into the selected edge." : after ? `It comes after ${after.title}.` : `It starts a new chain of ${expert}.`,
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
            <textarea dir="auto" rows={3} required value={instruction} onKeyDown={(event) => {
              if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) event.currentTarget.form?.requestSubmit();
            }} placeholder={kind === "evaluator" ? "Every sentence rests on a claim." : "List the claims of the text."} onChange={(event) => setInstruction(event.target.value)} />
          </label>
        )}
        <footer>
          <span className="soft place">{places[kind]}</span>
          <span className="room" />
          <button type="submit" className="main" title="Ctrl+Enter">Add</button>
          {kind === "operator" && <button type="submit" data-more title="Add it, and another one after it">Add and next</button>}
        </footer>
      </form>
    </Dialog>
  );
}
