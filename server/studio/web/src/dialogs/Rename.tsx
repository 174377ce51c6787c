// Give a node another title, or an operator of an expert another name: chains and inputs that name it follow.

import { type FormEvent, type ReactElement, useState } from "react";
import { focusDrawn } from "../canvas/keys";
import { useCommands, useStore, useStudio } from "../store";
import { Dialog } from "./Dialog";

export function Rename({ node }: { node: string }): ReactElement {
  const found = useStudio((state) => state.document?.nodes.find((each) => each.id === node));
  const experts = useStudio((state) => state.document?.kind === "experts");
  const title = found?.title ?? node;
  const { dispatch } = useStore();
  const commands = useCommands();
  const [name, setName] = useState(experts ? title : (found?.given_title ?? ""));
  const rename = async (event: FormEvent): Promise<void> => {
    event.preventDefault();
    const renamed = name.trim() === (experts ? title : found?.given_title) ? node : await commands.rename(node, name.trim());
    if (!renamed) return;
    dispatch({ type: "dialog", dialog: null });
    requestAnimationFrame(() => focusDrawn(renamed));
  };
  return (
    <Dialog title={`Rename ${title}`} className="operator">
      <form className="fields" onSubmit={(event) => void rename(event)}>
        <label className="part"><span className="part-name">Name</span>
          <input type="text" dir="auto" required={experts} maxLength={200} placeholder={title} data-field autoComplete="off" spellCheck={false} value={name} onFocus={(event) => event.target.select()} onChange={(event) => setName(event.target.value)} />
        </label>
        <footer>
          <span className="soft">{experts ? "Chains and inputs that name it follow." : `Its id stays ${node}.`}</span>
          <span className="room" />
          <button type="submit" className="main">Rename</button>
        </footer>
      </form>
    </Dialog>
  );
}
