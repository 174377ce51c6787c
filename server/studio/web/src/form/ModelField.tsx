// A model by its name, with its price: those that are known are proposed, and any other can be typed.

import { type ReactElement, useEffect, useId, useState } from "react";
import { useCommands } from "../store";
import type { ModelEntry, Models } from "../types";

interface Props {
  label: string;
  value: string;
  locked?: boolean;
  /** Of a node: the models that the services name. */
  ofNode?: boolean;
  change(name: string): void;
  leave?(): void;
}

export function ModelField({ label, value, locked, ofNode, change, leave }: Props): ReactElement {
  const commands = useCommands();
  const id = useId();
  const [models, setModels] = useState<Models | null>(null);
  useEffect(() => {
    let gone = false;
    void commands.models().then((found) => {
      if (!gone && found) setModels(found);
    });
    return () => {
      gone = true;
    };
  }, [commands]);
  const selected = models?.selected;
  const known = (ofNode ? models?.named : models?.listed) ?? [];
  const chosen = value ? known.find((each) => each.name === value) : selected;
  const standard = ofNode ? "the model of the run" : (selected?.name ?? "none is set");
  return (
    <>
      <input
        type="text" list={id} aria-label={label} disabled={locked} value={value} placeholder={standard} spellCheck={false} autoComplete="off"
        onChange={(event) => change(event.target.value)} onBlur={leave}
      />
      <datalist id={id}>{known.map((each) => <option key={each.name} value={each.name}>{priceOf(each)}</option>)}</datalist>
      {models && (value || chosen) && (
        <p className="hint">
          {value && !chosen && ofNode
            ? known.length ? `No service has this name: the model of the run is used. There are: ${known.map((each) => each.name).join(", ")}` : "The services name no models: the model of the run is used."
            : chosen ? `${chosen.name}: ${priceOf(chosen)}` : "Its price is not known."}
        </p>
      )}
    </>
  );
}

const priceOf = ({ price }: ModelEntry): string =>
  price ? `${price.prompt} USD in, ${price.completion} USD out, per million tokens` : "price not known";
