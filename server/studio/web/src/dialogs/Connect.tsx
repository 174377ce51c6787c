// Connect mode of the keyboard: choose a port and a target; those refused say why.

import { type ReactElement, useEffect, useState } from "react";
import { Icon, iconOf } from "../icons";
import { useCommands, useStore, useStudio } from "../store";
import { Chooser } from "./Chooser";
import { Dialog } from "./Dialog";

export function Connect({ source }: { source: string }): ReactElement | null {
  const document = useStudio((state) => state.document);
  const commands = useCommands();
  const { dispatch } = useStore();
  const node = document?.nodes.find((each) => each.id === source);
  const used = document?.edges.filter((edge) => edge.source === source).map((edge) => edge.port) ?? [];
  const [port, setPort] = useState(() => Math.max(0, node?.ports.findIndex((_, at) => !used.includes(at)) ?? 0));
  const [refusals, setRefusals] = useState<Record<string, string | null> | null>(null);
  useEffect(() => {
    let gone = false;
    setRefusals(null);
    void commands.connectable(source, port).then((found) => {
      if (!gone) setRefusals(found);
    });
    return () => {
      gone = true;
    };
  }, [commands, source, port]);
  if (!document || !node) return null;
  const choices = document.nodes
    .filter((each) => each.id !== source && (each.parent ?? "") === (node.parent ?? ""))
    .map((each) => ({ each, refused: refusals?.[each.id] ?? null }))
    .sort((one, other) => Number(one.refused !== null) - Number(other.refused !== null))
    .map(({ each, refused }) => ({
      key: each.id,
      words: `${each.name} ${each.id} ${each.type}`,
      refused,
      content: (
        <>
          <span className="card-icon"><Icon name={iconOf(each.type)} /></span>
          <span className="choice-words">
            <span dir="auto">{each.name}</span>
            <span className={refused ? "fault" : "soft"}>{refused ?? each.summary}</span>
          </span>
        </>
      ),
    }));
  return (
    <Dialog title={`Connect ${node.title}`} bare className="quick">
      {node.ports.length > 1 && (
        <div className="ports-choice" role="radiogroup" aria-label="Port">
          {node.ports.map((label, at) => (
            <label key={at}><input type="radio" name="port" checked={port === at} onChange={() => setPort(at)} /> {label}</label>
          ))}
        </div>
      )}
      {refusals && (
        <Chooser
          label={`Connect ${node.title} to`} placeholder={`Connect ${node.title} to…`} choices={choices} empty="There is no such node."
          choose={(target) => {
            dispatch({ type: "dialog", dialog: null });
            void commands.connect(source, port, target);
          }}
        />
      )}
    </Dialog>
  );
}
