// What a format cannot hold: what changes the workflow first; settings of another platform alone are folded away.

import type { ReactElement } from "react";
import type { Loss } from "./types";

export function Losses({ losses }: { losses: readonly Loss[] }): ReactElement {
  const own = losses.filter((loss) => !loss.foreign);
  const foreign = losses.filter((loss) => loss.foreign);
  return (
    <>
      {own.length > 0 && <List losses={own} />}
      {foreign.length > 0 && (
        <details className="more" open={!own.length || undefined}>
          <summary>{foreign.length === 1 ? "1 setting" : `${foreign.length} settings`} of the platform that it comes from</summary>
          <List losses={foreign} />
        </details>
      )}
    </>
  );
}

function List({ losses }: { losses: readonly Loss[] }): ReactElement {
  return (
    <ul className="losses" tabIndex={0} aria-label="Losses">
      {losses.map((loss, at) => <li key={at} dir="auto">{loss.where && <strong>{loss.where}</strong>} {loss.what}</li>)}
    </ul>
  );
}

/** A heading that counts what changes the workflow. */
export function lossesInWords(losses: readonly Loss[]): string {
  const own = losses.filter((loss) => !loss.foreign).length;
  return own === 0 ? "The nodes are kept whole" : own === 1 ? "1 loss" : `${own} losses`;
}
