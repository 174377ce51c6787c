// Export: the losses first, then the file.

import { type ReactElement, useEffect, useState } from "react";
import { pngOf, svgOf } from "../drawing";
import { Icon } from "../icons";
import { Losses, lossesInWords } from "../Losses";
import { shownDocument } from "../state";
import { useCommands, useStudio } from "../store";
import type { Exported } from "../types";
import { Dialog } from "./Dialog";

const PICTURES: { name: string; title: string }[] = [
  { name: "svg", title: "Picture (SVG)" },
  { name: "png", title: "Picture (PNG)" },
];

export function Export(): ReactElement {
  const commands = useCommands();
  const document_ = useStudio(shownDocument);
  const positions = useStudio((state) => state.positions);
  const [formats, setFormats] = useState<typeof PICTURES | null>(null);
  const [chosen, setChosen] = useState<string | null>(null);
  const [made, setMade] = useState<Exported | null>(null);
  const [failed, setFailed] = useState(false);
  useEffect(() => {
    void commands.formats().then((found) => {
      const files = (found ?? []).filter(({ name }) => name !== "svg" && name !== "png");
      setFormats([...PICTURES, ...files]);
    });
  }, [commands]);
  // Nothing is offered before all formats are there: a click on what is chosen already would not be heard, and lost.
  const own = formats?.find(({ name }) => name === document_?.format) ?? formats?.[PICTURES.length];
  const format = chosen ?? own?.name ?? "svg";
  const picture = format === "svg" || format === "png";
  useEffect(() => {
    let gone = false;
    setMade(null);
    setFailed(false);
    if (picture || !formats) return undefined;
    void commands.exported(format).then((found) => {
      if (gone) return;
      if (found) setMade(found);
      else setFailed(true);
    });
    return () => {
      gone = true;
    };
  }, [commands, format, formats, picture]);
  const save = async (): Promise<void> => {
    if (picture && document_) {
      const svg = svgOf(document_, positions);
      const name = document_.path.replace(/^.*\//, "").replace(/\.[^.]*$/, "") || "workflow";
      download(`${name}.${format}`, format === "svg" ? new Blob([svg], { type: "image/svg+xml" }) : await pngOf(svg));
    } else if (made) {
      const bytes = made.base64 === undefined ? (made.text ?? "") : Uint8Array.from(atob(made.base64), (each) => each.charCodeAt(0));
      download(made.name, new Blob([bytes]));
    }
  };
  return (
    <Dialog title="Export" className="export">
      <div className="export-formats" role="radiogroup" aria-label="Format">
        {!formats && <p className="soft">Looking up formats…</p>}
        {formats?.map(({ name: key, title }) => (
          <label key={key} className={key === format ? "on" : ""}>
            <input type="radio" name="format" checked={key === format} onChange={() => setChosen(key)} /> {title}
          </label>
        ))}
      </div>
      <div className="export-what" aria-live="polite">
        {formats && picture && <p>The graph as it is laid out on the canvas.</p>}
        {formats && !picture && !made && !failed && <p className="soft">Converting…</p>}
        {failed && <p className="fault">This workflow cannot be written in that format.</p>}
        {made && (made.losses.length
          ? (
            <>
              <h3>{lossesInWords(made.losses)}</h3>
              <Losses losses={made.losses} />
            </>
          )
          : <p className="all-well"><Icon name="check" /> Nothing is lost.</p>)}
        {made?.models?.length ? (
          <section aria-label="Models of the file">
            <h3>Models that nobody chose</h3>
            <ul className="losses">{made.models.map(({ where, what }) => <li key={where} dir="auto"><strong>{where}</strong> {what}</li>)}</ul>
            <p className="soft">Choose a model in the inspector of the node to name it in the file.</p>
          </section>
        ) : null}
        {made?.text !== undefined && <pre className="mono" tabIndex={0} aria-label="Preview">{made.text.slice(0, 6000)}</pre>}
      </div>
      <footer>
        <span className="room" />
        {made?.text !== undefined && <button type="button" onClick={() => void navigator.clipboard.writeText(made.text ?? "")}><Icon name="copy" size={14} /> Copy</button>}
        <button type="button" className="main" disabled={!formats || (!picture && !made)} onClick={() => void save()}><Icon name="export" size={14} /> Save {made?.name ?? ""}</button>
      </footer>
    </Dialog>
  );
}

function download(name: string, blob: Blob): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
