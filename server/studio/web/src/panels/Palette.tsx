// The node types at the side: search, families, drag onto the canvas or press Enter.

import { type ReactElement, useState } from "react";
import { DRAGGED } from "../canvas/Canvas";
import { listed, wordsOfType } from "../dialogs/families";
import { Icon, iconOf } from "../icons";
import { ranked } from "../search";
import { inspected } from "../state";
import { useCommands, useStudio } from "../store";

export function Palette(): ReactElement {
  const catalogue = useStudio((state) => state.catalogue);
  const selected = useStudio(inspected);
  const locked = useStudio((state) => state.document?.readonly !== null || state.overlay !== null);
  const commands = useCommands();
  const [text, setText] = useState("");
  const types = ranked(listed(catalogue), text, wordsOfType);
  const first = text.trim() ? types[0] : undefined; // what Enter adds
  const families = [...new Set(types.map((type) => type.family))];
  return (
    <nav className="palette" aria-label="Node types">
      <div className="palette-search">
        <Icon name="search" size={14} />
        <input
          type="search" aria-label="Search node types" placeholder="Search nodes" value={text} spellCheck={false}
          onChange={(event) => setText(event.target.value)}
          onKeyDown={(event) => {
            if (event.key === "Enter" && first && !locked) void commands.add(first.type, selected ? { source: selected } : {});
          }}
        />
      </div>
      <div className="palette-list">
        {families.map((family) => (
          <section key={family} aria-label={family}>
            <h3>{family}</h3>
            {types.filter((type) => type.family === family).map((type) => (
              <button
                key={type.type} type="button" className="palette-item" title={type.summary} draggable={!locked} disabled={locked} data-type={type.type}
                onDragStart={(event) => {
                  event.dataTransfer.setData(DRAGGED, type.type);
                  event.dataTransfer.effectAllowed = "copy";
                }}
                onClick={() => void commands.add(type.type, selected ? { source: selected } : {})}
              >
                <Icon name={iconOf(type.type)} /> <span>{type.title}</span>{type === first && !locked && <kbd aria-label="Enter adds it">Enter</kbd>}
              </button>
            ))}
          </section>
        ))}
        {!types.length && <p className="soft">No node type has these words.</p>}
      </div>
    </nav>
  );
}
