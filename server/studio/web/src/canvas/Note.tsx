// A sticky note: Markdown on a coloured sheet, written in place.

import { type NodeProps, NodeResizer } from "@xyflow/react";
import { type ReactElement, Suspense, lazy, memo, useState } from "react";
import { Icon } from "../icons";
import { COLORS } from "../notes";
import { useCommands, useStudio } from "../store";
import type { NoteNode } from "./elements";
import { focusNode } from "./keys";

const Markdown = lazy(() => import("../values/Markdown"));

/** The smallest note: one line. */
const LEAST = { width: 90, height: 44 };

function NoteOf({ id, data: { note, locked }, selected }: NodeProps<NoteNode>): ReactElement {
  const commands = useCommands();
  const writing = useStudio((state) => state.writingNote === id);
  const alone = useStudio((state) => state.selection.nodes.length === 1);
  return (
    <div className={`note is-${note.color} ${selected ? "selected" : ""}`} onDoubleClick={() => !locked && commands.writeNote(id)}>
      {!locked && (
        <NodeResizer
          isVisible={selected && alone} minWidth={LEAST.width} minHeight={LEAST.height}
          onResizeEnd={(_, { x, y, width, height }) => void commands.setNote(id, { at: [Math.round(x), Math.round(y)], size: [Math.round(width), Math.round(height)] })}
        />
      )}
      {writing && !locked ? <Text id={id} text={note.text} /> : (
        <div className="note-text"><Suspense fallback={<p>{note.text}</p>}>{note.text ? <Markdown text={note.text} /> : <p className="soft">Double-click to write</p>}</Suspense></div>
      )}
      {selected && alone && !locked && (
        <div className="note-tools nodrag" role="toolbar" aria-label="Note">
          {COLORS.map((color) => (
            <button key={color} type="button" className={`is-${color}`} aria-label={color} title={color} aria-pressed={color === note.color} onClick={() => void commands.setNote(id, { color })} />
          ))}
          <button type="button" className="ghost small" aria-label="Write the note" title="Write  Enter" onClick={() => commands.writeNote(id)}><Icon name="text" size={14} /></button>
          <button type="button" className="ghost small" aria-label="Remove the note" title="Remove  Delete" onClick={() => commands.remove()}><Icon name="bin" size={14} /></button>
        </div>
      )}
    </div>
  );
}

/** The text that is being written, which is kept when the field is left. */
function Text({ id, text }: { id: string; text: string }): ReactElement {
  const commands = useCommands();
  const [now, setNow] = useState(text);
  const done = (): void => {
    commands.writeNote(null);
    if (now !== text) void commands.setNote(id, { text: now });
  };
  return (
    <textarea
      className="nodrag nowheel nopan" aria-label="Text of the note, in Markdown" dir="auto" autoFocus maxLength={20_000} value={now}
      onChange={(event) => setNow(event.target.value)}
      onBlur={done}
      onKeyDown={(event) => {
        if (event.key !== "Escape") return;
        event.stopPropagation();
        event.currentTarget.blur();
        focusNode(id);
      }}
    />
  );
}

export const Note = memo(NoteOf);
