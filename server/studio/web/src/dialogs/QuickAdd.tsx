// Add a node by typing: after the selected node, in the selected edge, or where an edge was dropped.

import type { ReactElement } from "react";
import { focusDrawn } from "../canvas/keys";
import { Icon, iconOf } from "../icons";
import { type Dialog as Which, edgeId } from "../state";
import { useCommands, useStore, useStudio } from "../store";
import { Chooser } from "./Chooser";
import { Dialog } from "./Dialog";
import { listed, wordsOfType } from "./families";

export function QuickAdd({ dialog }: { dialog: Extract<Which, { kind: "palette" }> }): ReactElement {
  const catalogue = useStudio((state) => state.catalogue);
  const document = useStudio((state) => state.document);
  const { dispatch } = useStore();
  const commands = useCommands();
  const source = document?.nodes.find((node) => node.id === dialog.source);
  const edge = document?.edges.find((each) => edgeId(each) === dialog.edge);
  const parent = document?.nodes.find((node) => node.id === (edge?.source ?? dialog.source))?.parent;
  const holder = document?.nodes.find((node) => node.id === parent)?.type ?? null;
  const where = dialog.edge ? "in the selected edge" : source ? `after ${source.title}` : "";
  const choices = listed(catalogue, source !== undefined || dialog.edge !== undefined, holder).map((type) => ({
    key: type.type,
    words: wordsOfType(type),
    group: type.family,
    content: (
      <>
        <span className="card-icon"><Icon name={iconOf(type.type)} /></span>
        <span className="choice-words"><span>{type.title}</span><span className="soft">{type.summary}</span></span>
      </>
    ),
  }));
  return (
    <Dialog title="Add a node" bare className="quick">
      <Chooser
        label={`Add a node ${where}`.trim()} placeholder={`Add a node ${where}`.trim()} choices={choices} empty="No node type has these words."
        choose={(type) => {
          dispatch({ type: "dialog", dialog: null });
          void commands.add(type, { at: dialog.at, source: dialog.source, port: dialog.port, edge: dialog.edge }).then((id) => {
            if (id) requestAnimationFrame(() => focusDrawn(id));
          });
        }}
      />
      <footer className="keys-line"><kbd>↑</kbd><kbd>↓</kbd> choose <kbd>Enter</kbd> add <kbd>Esc</kbd> close</footer>
    </Dialog>
  );
}
