// Write the value of a node, by the types that it declares; it is pinned.

import { type FormEvent, type ReactElement, useState } from "react";
import { InputField } from "../panels/InputField";
import { useCommands, useStore, useStudio } from "../store";
import type { Fields, Json } from "../types";
import { Dialog } from "./Dialog";

export function EditValue({ node, outputs }: { node: string; outputs: Fields }): ReactElement | null {
  const found = useStudio((state) => state.document?.nodes.find((each) => each.id === node));
  const { dispatch } = useStore();
  const commands = useCommands();
  const [changed, setChanged] = useState<Fields>({});
  if (!found) return null;
  const pin = async (event: FormEvent): Promise<void> => {
    event.preventDefault();
    if (await commands.pin(node, changed)) dispatch({ type: "dialog", dialog: null });
  };
  return (
    <Dialog title={`Value of ${found.name}`} className="operator values">
      <form className="fields" onSubmit={(event) => void pin(event)}>
        {found.outputs.map(({ name, type }) => (
          <InputField
            key={name} input={{ name, title: name, type }} value={name in changed ? (changed[name] ?? null) : type.includes("file") ? null : (outputs[name] ?? null)}
            change={(value: Json) => setChanged((before) => ({ ...before, [name]: value }))}
          />
        ))}
        <footer>
          <span className="soft">The node gives it without running, until it is unpinned.</span>
          <span className="room" />
          <button type="submit" className="main" disabled={!Object.keys(changed).length}>Pin this value</button>
        </footer>
      </form>
    </Dialog>
  );
}
