// A modal dialog: the browser's own, which keeps the focus inside and closes by Escape.

import { type ReactElement, type ReactNode, useEffect, useRef } from "react";
import { Icon } from "../icons";
import { focusNode } from "../canvas/keys";
import { inspected } from "../state";
import { useStore } from "../store";

interface Props {
  title: string;
  className?: string;
  /** Without a head, the title is for screen readers alone. */
  bare?: boolean;
  children: ReactNode;
}

export function Dialog({ title, className = "", bare = false, children }: Props): ReactElement {
  const { dispatch, get } = useStore();
  const dialog = useRef<HTMLDialogElement>(null);
  const close = (): void => dispatch({ type: "dialog", dialog: null });
  useEffect(() => {
    const element = dialog.current;
    if (element && !element.open) {
      element.showModal();
      element.querySelector<HTMLElement>("[data-field]")?.focus(); // not the button that closes it
    }
    return () => {
      element?.close();
      requestAnimationFrame(() => {
        if (document.activeElement === document.body || document.activeElement === null) focusNode(inspected(get()));
      });
    };
  }, [get]);
  return (
    <dialog
      ref={dialog} className={className} aria-label={title}
      onCancel={(event) => {
        event.preventDefault();
        close();
      }}
      onPointerDown={(event) => {
        if (event.target === event.currentTarget) close();
      }}
    >
      <div className="dialog-body">
        {!bare && (
          <header>
            <h2>{title}</h2>
            <button type="button" className="ghost" aria-label="Close" onClick={close}><Icon name="close" /></button>
          </header>
        )}
        {children}
      </div>
    </dialog>
  );
}
