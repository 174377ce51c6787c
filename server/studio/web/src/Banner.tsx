// What a person must know before going on: a studio that was restarted, a draft to accept, a comparison, a file that changed on disk.

import type { ReactElement } from "react";
import { Counts } from "./Counts";
import { Icon } from "./icons";
import { useCommands, useStudio } from "./store";

export function Banner(): ReactElement | null {
  const document = useStudio((state) => state.document);
  const overlay = useStudio((state) => state.overlay);
  const gone = useStudio((state) => state.gone);
  const commands = useCommands();
  if (gone) return <div className="banner bad" role="alert"><Icon name="issue" /><span>{gone}</span></div>;
  if (!document) return null;
  if (overlay) {
    return (
      <div className="banner" role="status">
        <strong>{overlay.title}</strong>
        <Counts changes={overlay.changes} />
        <span className="room" />
        {overlay.kind === "draft"
          ? (
            <>
              <button type="button" className="main" onClick={() => void commands.acceptChat()}><Icon name="check" size={14} /> Accept</button>
              <button type="button" onClick={() => void commands.undoChat()}>Undo</button>
            </>
          )
          : <button type="button" onClick={() => commands.closeOverlay()}>Close</button>}
      </div>
    );
  }
  if (document.disk !== "same") {
    return (
      <div className="banner bad" role="alert">
        <Icon name="issue" />
        <span>{document.disk === "gone" ? "The file is gone from the disk." : "The file on disk was changed, and cannot be read."} {document.fault}</span>
        <span className="room" />
        <button type="button" onClick={() => void commands.restore()}>Write the file again as shown here</button>
      </div>
    );
  }
  if (document.readonly) return <div className="banner" role="status"><Icon name="issue" /><span>{document.readonly}</span></div>;
  return null;
}
