// Markdown of a run's texts.

import { type ReactElement, useLayoutEffect, useRef } from "react";
import { markdown } from "../../shared/markdown";

export default function Markdown({ text }: { text: string }): ReactElement {
  const place = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => place.current?.replaceChildren(...markdown(text)), [text]);
  return <div className="markdown" dir="auto" ref={place} />;
}
