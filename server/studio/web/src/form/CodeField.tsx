// Prompts, templates and code in CodeMirror. It lives in a shadow root: there its styles need no inline style element.

import { type ReactElement, useEffect, useRef } from "react";
import type { Candidate } from "../types";
import { type Editor, type EditorOptions, createEditor } from "./editor";

interface Props {
  value: string;
  label: string;
  language: string;
  locked: boolean;
  candidates: readonly Candidate[];
  names: readonly string[];
  chip(reference: string): { words: string; known: boolean } | null;
  /** True if it is to have the focus from the beginning. */
  held: { current: boolean };
  change(value: string): void;
  leave(): void;
}

export default function CodeField(props: Props): ReactElement {
  const host = useRef<HTMLDivElement>(null);
  const editor = useRef<Editor | null>(null);
  const latest = useRef(props);
  latest.current = props;
  const { value, label, language, locked } = props;
  const known = props.candidates.length > 0;

  useEffect(() => {
    const element = host.current;
    if (!element) return undefined;
    const options: EditorOptions = {
      label, language, locked,
      value: latest.current.value,
      candidates: () => latest.current.candidates,
      names: () => latest.current.names,
      chip: (reference) => latest.current.chip(reference),
      change: (text) => latest.current.change(text),
      leave: () => latest.current.leave(),
    };
    const made = createEditor(element, options);
    editor.current = made;
    if (latest.current.held.current) made.focus();
    latest.current.held.current = false;
    return () => made.destroy();
  }, [label, language, locked]);

  useEffect(() => editor.current?.show(value), [value]);

  useEffect(() => {
    if (known) editor.current?.offer();
  }, [known]);

  useEffect(() => editor.current?.rename(), [props.chip]);

  return <div className={`code-field ${language}`} ref={host} data-typing />;
}
