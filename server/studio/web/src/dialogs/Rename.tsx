// Give an operator of an expert another name; chains and inputs that name it follow.

import { type FormEvent, type ReactElement, useState } from "react";
import { focusDrawn } from "../canvas/keys";
import { useCommands, useStore, useStudio } from "../store";
import { Dialog } from "./Dialog";

export function Rename({ node }: { node: string }): ReactElement {
  const title = useStudio((state) => state.document?.nodes.find((each) => each.id === node)?.title ?? node);
  const { dispatch } = useStore();
  const commands = useCommands();
  const [name, setName] = useState(title);
  const rename = async (event: FormEvent): Promise<void> => {
    event.preventDefault();
    const renamed = name.trim() === title ? node : await commands.rename(node, name.trim());
    if (!renamed) return;
    dispatch({ type: "dialog", dialog: null });
    requestAnimationFrame(() => focusDrawn(renamed));
  };
  return (
    <Dialog title={`Rename ${title}`} className="operator">
      <form className="fields" onSubmit={(event) => void rename(event)}>
        <label className="part first"><span className="part-name">Name</span>
          <input type="text" dir="auto" required data-field autoComplete="off" spellCheck={false} value={name} onFocus={(event) => event.target.select()} onChange={(event) => setName(event.target.value)} />
        </label>
        <footer>
          <span className="soft">Chains and inputs that name it follow.</span>
          <span className="room" />
          <button type="submit" className="main">Rename</button>
        </footer>
      </form>
    </Dialog>
  );
}
