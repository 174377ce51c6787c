// Make a test of a run: its name, and what must hold.

import { type FormEvent, type ReactElement, useEffect, useState } from "react";
import { useCommands, useStore } from "../store";
import { type Holds, type TestOffer, testApi } from "../tests";
import type { Json } from "../types";
import { ValueView } from "../values/ValueView";
import { Dialog } from "./Dialog";

const textOf = (value: Json): string => (typeof value === "string" ? value : "");

export function MakeTest({ run }: { run: string }): ReactElement {
  const { dispatch } = useStore();
  const commands = useCommands();
  const [offer, setOffer] = useState<TestOffer | null>(null);
  const [fault, setFault] = useState("");
  const [name, setName] = useState("");
  const [holds, setHolds] = useState<Holds>("equals");
  const [of, setOf] = useState("");
  const [text, setText] = useState("");
  useEffect(() => {
    let gone = false;
    testApi.offer(run).then((told) => {
      if (gone) return;
      setOffer(told);
      setName(told.name);
      setHolds(told.holds);
    }).catch((error: Error) => gone || setFault(error.message));
    return () => {
      gone = true;
    };
  }, [run]);
  const place = offer?.places.find((each) => each.of === of);
  const make = async (event: FormEvent): Promise<void> => {
    event.preventDefault();
    try {
      const { file } = await testApi.make(run, { name: name.trim(), holds, of: holds === "accepted" ? "" : of, text });
      dispatch({ type: "dialog", dialog: null });
      dispatch({ type: "tests" });
      commands.panel("tests");
      commands.say(`The test is in ${file}.`);
    } catch (error) {
      setFault((error as Error).message);
    }
  };
  const choice = (which: Holds, label: string): ReactElement => (
    <label><input type="radio" name="holds" checked={holds === which} onChange={() => setHolds(which)} /> {label}</label>
  );
  return (
    <Dialog title="Make a test of this run" className="operator make-test">
      {offer
        ? (
          <form className="fields" onSubmit={(event) => void make(event)}>
            <label className="part"><span className="part-name">Name</span>
              <input type="text" dir="auto" required data-field autoComplete="off" value={name} onFocus={(event) => event.target.select()} onChange={(event) => setName(event.target.value)} />
            </label>
            <fieldset className="holds">
              <legend className="part-name">What must hold</legend>
              {choice("accepted", offer.judged ? "The evaluator accepts the result" : "The run succeeds")}
              {choice("equals", "An output is the same")}
              {choice("contains", "An output contains a text")}
            </fieldset>
            {holds !== "accepted" && (
              <label className="part"><span className="part-name">Output</span>
                <select value={of} onChange={(event) => setOf(event.target.value)}>
                  {offer.places.map((each) => <option key={each.of} value={each.of}>{each.title}</option>)}
                </select>
              </label>
            )}
            {holds === "equals" && place && <div className="expected" tabIndex={0} aria-label="Expected output"><ValueView value={place.value} /></div>}
            {holds === "contains" && (
              <label className="part"><span className="part-name">Text</span>
                <textarea dir="auto" rows={2} required value={text} placeholder={textOf(place?.value ?? null).slice(0, 80)} onChange={(event) => setText(event.target.value)} />
              </label>
            )}
            {offer.pinned.length > 0 && <p className="notice">{`The test keeps the pinned ${offer.pinned.length === 1 ? "value" : "values"} of ${offer.pinned.join(", ")}: in it, ${offer.pinned.length === 1 ? "this node gives it" : "these nodes give them"} in place of running.`}</p>}
            {!offer.accepted && <p className="notice">The evaluator rejected this run. The test fails until a version of the expert is accepted.</p>}
            {fault && <p className="fault error" role="alert">{fault}</p>}
            <footer>
              <span className="soft place">{`Written to ${offer.file}${offer.answers ? ` with ${offer.answers === 1 ? "the answer" : `${offer.answers} answers`} of the model, so that the test needs no model` : ""}.`}</span>
              <span className="room" />
              <button type="submit" className="main">Make test</button>
            </footer>
          </form>
        )
        : <p className={fault ? "fault error alone" : "soft alone"}>{fault || "Reading the run…"}</p>}
    </Dialog>
  );
}
