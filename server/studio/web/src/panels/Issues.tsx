// The issues of the static check, with a way to each node, and a fix where there is one.

import { type ReactElement, useEffect, useState } from "react";
import { focusNode } from "../canvas/keys";
import { Icon } from "../icons";
import { shownDocument } from "../state";
import { useCommands, useStudio } from "../store";

export function Issues(): ReactElement | null {
  const document = useStudio(shownDocument);
  const draft = useStudio((state) => state.overlay !== null);
  const commands = useCommands();
  const [fixes, setFixes] = useState<{ version: number; fixes: (string | null)[] } | null>(null);
  const version = document?.version;
  const count = document?.issues.length ?? 0;
  useEffect(() => {
    let gone = false;
    if (count && !draft) {
      void commands.fixes().then((found) => {
        if (!gone) setFixes(found);
      });
    }
    return () => {
      gone = true;
    };
  }, [commands, version, count, draft]);
  if (!document) return null;
  if (!document.issues.length) return <p className="all-well"><Icon name="check" /> The static check finds no issues.</p>;
  const title = (id: string): string => document.nodes.find((node) => node.id === id)?.name ?? id;
  const proposed = !draft && fixes?.version === document.version ? fixes.fixes : [];
  return (
    <ul className="issues">
      {document.issues.map((issue, at) => (
        <li key={at} className={issue.severity}>
          <Icon name="issue" />
          <div>
            {issue.node !== null
              ? (
                <button type="button" className="link" dir="auto" onClick={() => {
                  commands.select([issue.node ?? ""]);
                  commands.panel("inspector");
                  focusNode(issue.node);
                  requestAnimationFrame(() => window.document.querySelector(".inspector .fault")?.scrollIntoView({ block: "center" }));
                }}>{title(issue.node)}</button>
              )
              : <span className="soft">{issue.where || "workflow"}</span>}
            {issue.field && <code>{issue.field}</code>}
            <p>{issue.what}</p>
            {proposed[at] && (
              <button type="button" className="small" disabled={document.readonly !== null} onClick={() => void commands.fix(at)}>Fix: {proposed[at]}</button>
            )}
          </div>
        </li>
      ))}
    </ul>
  );
}
