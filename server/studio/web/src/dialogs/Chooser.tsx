// A search field over a list; arrows move, Enter chooses.

import { type ReactElement, type ReactNode, useId, useState } from "react";
import { Icon } from "../icons";
import { ranked } from "../search";

export interface Choice {
  key: string;
  words: string;
  group?: string;
  /** Why it cannot be chosen. */
  refused?: string | null;
  content: ReactNode;
}

interface Props {
  label: string;
  placeholder: string;
  choices: readonly Choice[];
  empty: string;
  choose(key: string): void;
}

export function Chooser({ label, placeholder, choices, empty, choose }: Props): ReactElement {
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const id = useId();
  const wanted = text.trim();
  const found = ranked(choices, text, (choice) => choice.words);
  const here = Math.min(at, Math.max(0, found.length - 1));
  const move = (to: number): void => {
    const next = Math.max(0, Math.min(found.length - 1, to));
    setAt(next);
    document.getElementById(`${id}-${next}`)?.scrollIntoView({ block: "nearest" });
  };
  const take = (choice: Choice | undefined): void => {
    if (choice && !choice.refused) choose(choice.key);
  };
  return (
    <div className="chooser">
      <div className="chooser-search">
        <Icon name="search" />
        <input
          type="text" role="combobox" aria-expanded="true" aria-controls={`${id}-list`} aria-label={label} placeholder={placeholder} autoFocus
          aria-activedescendant={found.length ? `${id}-${here}` : undefined} autoComplete="off" spellCheck={false} value={text}
          onChange={(event) => {
            setText(event.target.value);
            setAt(0);
          }}
          onKeyDown={(event) => {
            if (event.key === "ArrowDown") move(here + 1);
            else if (event.key === "ArrowUp") move(here - 1);
            else if (event.key === "Enter") take(found[here]);
            else return;
            event.preventDefault();
          }}
        />
      </div>
      <ul role="listbox" id={`${id}-list`} aria-label={label}>
        {found.map((choice, row) => (
          <li
            key={choice.key} id={`${id}-${row}`} role="option" aria-selected={row === here} aria-disabled={choice.refused ? true : undefined}
            className={choice.group && choice.group !== found[row - 1]?.group && !wanted ? "first-of-group" : ""} data-group={choice.group}
            onClick={() => take(choice)} onPointerMove={() => setAt(row)}
          >
            {choice.content}
          </li>
        ))}
      </ul>
      {!found.length && <p className="soft chooser-empty">{empty}</p>}
    </div>
  );
}
