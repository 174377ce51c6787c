// A file of a run: a picture, sound, a film, a table of values separated by commas, a text, or a link to fetch it.

import { type ReactElement, Suspense, lazy, useEffect, useState } from "react";
import { bytes } from "../../shared/numbers";
import { Icon } from "../icons";
import type { FileValue } from "../types";
import { Table } from "./Table";
import { separated } from "./separated";

const Markdown = lazy(() => import("./Markdown"));

/** Bytes of a text file that is shown; of a larger one, there is the link alone. */
const MOST_SHOWN = 300_000;

const SEPARATORS: Record<string, string> = { "text/csv": ",", "text/tab-separated-values": "\t" };

export function FileView({ file }: { file: FileValue["file"] }): ReactElement {
  // A file is fetched from this server only, whatever a value says.
  const url = file.url !== null && /^data\/runs\/[\w-]+\/files\/\d+$/.test(file.url) ? file.url : null;
  const kind = url ? file.type.split("/")[0] : "";
  const [broken, setBroken] = useState(false);
  return (
    <figure className="file">
      {url && !broken && (
        <>
          {kind === "image" && <img src={url} alt={file.name} onError={() => setBroken(true)} />}
          {kind === "audio" && <audio controls src={url} aria-label={file.name} onError={() => setBroken(true)} />}
          {kind === "video" && <video controls src={url} aria-label={file.name} onError={() => setBroken(true)} />}
          {kind === "text" && file.type !== "text/html" && file.size <= MOST_SHOWN && <TextFile url={url} type={file.type} name={file.name} />}
        </>
      )}
      {broken && <p className="fault">This {kind} cannot be shown; save it to look at it.</p>}
      <figcaption>
        <Icon name="file" />
        {url ? <a href={url} download={file.name}>{file.name}</a> : <span>{file.name}</span>}
        <span className="soft">{bytes(file.size)}</span>
      </figcaption>
    </figure>
  );
}

function TextFile({ url, type, name }: { url: string; type: string; name: string }): ReactElement | null {
  const [text, setText] = useState<string | null>(null);
  useEffect(() => {
    const leaving = new AbortController();
    fetch(url, { signal: leaving.signal })
      .then((answer) => (answer.ok ? answer.text() : null))
      .then(setText, () => undefined); // the link is there still
    return () => leaving.abort();
  }, [url]);
  if (text === null) return null;
  const separator = SEPARATORS[type];
  if (separator) {
    const [head = [], ...rows] = separated(text, separator);
    return <Table columns={head} rows={rows} cell={() => <></>} />;
  }
  const plain = <pre className="plain" dir="auto" tabIndex={0} aria-label={name}>{text}</pre>;
  return type === "text/markdown" ? <Suspense fallback={plain}><Markdown text={text} /></Suspense> : plain;
}
