// An editor of CodeMirror with completion of the variables that may be read.

import { type CompletionContext, type CompletionResult, autocompletion, completionKeymap, closeBrackets, closeBracketsKeymap, startCompletion } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { javascript } from "@codemirror/lang-javascript";
import { json } from "@codemirror/lang-json";
import { python } from "@codemirror/lang-python";
import { HighlightStyle, bracketMatching, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { EditorState, type Extension, StateEffect } from "@codemirror/state";
import { Decoration, type DecorationSet, EditorView, MatchDecorator, ViewPlugin, type ViewUpdate, WidgetType, keymap } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import type { Candidate } from "../types";

export interface EditorOptions {
  value: string;
  label: string;
  language: string;
  locked: boolean;
  candidates(): readonly Candidate[];
  names(): readonly string[];
  /** A variable in words, and whether it may be read here; null to show its text. */
  chip(reference: string): { words: string; known: boolean } | null;
  change(text: string): void;
  leave(): void;
}

export interface Editor {
  show(text: string): void;
  /** Offer the variables, which were not known before, if one is being typed. */
  offer(): void;
  /** Show the names of variables, which are others now. */
  rename(): void;
  focus(): void;
  destroy(): void;
}

const colours = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword, tags.controlKeyword], color: "var(--code-keyword)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--code-string)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--code-number)" },
  { tag: [tags.comment], color: "var(--soft)", fontStyle: "italic" },
  { tag: [tags.function(tags.variableName), tags.propertyName], color: "var(--code-name)" },
]);

const look = EditorView.theme({
  "&": { color: "var(--ink)", backgroundColor: "transparent", fontSize: "13px" },
  "&.cm-focused": { outline: "none" },
  ".cm-content": { padding: "7px 9px", caretColor: "var(--accent)", fontFamily: "var(--text-font)", lineHeight: "1.5" },
  "&.mono .cm-content": { fontFamily: "var(--mono)", fontSize: "12.5px" },
  ".cm-line": { padding: "0" },
  ".cm-scroller": { maxHeight: "340px", overflow: "auto" },
  ".cm-selectionBackground, ::selection": { backgroundColor: "var(--tint) !important" },
  ".cm-variable": { color: "var(--accent-ink)", backgroundColor: "var(--tint)", borderRadius: "4px", padding: "1px 2px" },
  ".cm-unknown": { color: "var(--failed)", backgroundColor: "transparent", border: "1px dashed var(--failed)", textDecoration: "line-through" },
  ".cm-tooltip": { backgroundColor: "var(--raised)", border: "1px solid var(--line)", borderRadius: "8px", overflow: "hidden", boxShadow: "var(--float)", zIndex: "60" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul": { fontFamily: "var(--text-font)", maxHeight: "220px" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li": { padding: "6px 10px", lineHeight: "1.3" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li[aria-selected]": { backgroundColor: "var(--tint)", color: "var(--ink)" },
  ".cm-completionDetail": { color: "var(--soft)", fontStyle: "normal", marginLeft: "10px" },
  ".cm-completionIcon": { display: "none" },
});

/** The names of variables are known, or are others, from now on. */
const renamed = StateEffect.define<null>();

/** A variable by its name and that of its node; the text underneath, which is copied, is `{{#id.name#}}`. */
class Chip extends WidgetType {
  constructor(readonly words: string, readonly text: string, readonly known: boolean) {
    super();
  }
  override eq(other: Chip): boolean {
    return other.words === this.words && other.text === this.text && other.known === this.known;
  }
  override toDOM(): HTMLElement {
    const chip = document.createElement("span");
    chip.className = this.known ? "cm-variable" : "cm-variable cm-unknown";
    chip.textContent = this.words;
    chip.title = this.known ? this.text : `${this.text}: nothing here has this name`;
    return chip;
  }
  override ignoreEvent(): boolean {
    return false;
  }
}

/** Variables as chips, which the cursor passes in one step; in templates and programs, marked texts. */
function chips(options: EditorOptions): Extension {
  const chip = (found: RegExpExecArray): Decoration | null => {
    const [text, reference] = [found[0], found[1] ?? ""];
    const told = reference ? options.chip(reference) : null;
    if (told) return Decoration.replace({ widget: new Chip(told.words, text, told.known) });
    return reference || options.language === "template" || text.startsWith("{{secret.") ? Decoration.mark({ class: "cm-variable" }) : null; // other braces of a prompt are text
  };
  const variables = new MatchDecorator({
    regexp: /\{\{(?:#([^#{}]{1,200})#|.{0,200}?)\}\}/g,
    decorate: (add, from, to, match) => {
      const shown = chip(match);
      if (shown) add(from, to, shown);
    },
  });
  return ViewPlugin.fromClass(
    class {
      decorations: DecorationSet;
      constructor(view: EditorView) {
        this.decorations = variables.createDeco(view);
      }
      update(update: ViewUpdate): void {
        const anew = update.transactions.some((each) => each.effects.some((effect) => effect.is(renamed)));
        this.decorations = anew ? variables.createDeco(update.view) : variables.updateDeco(update, this.decorations);
      }
    },
    {
      decorations: (plugin) => plugin.decorations,
      provide: (plugin) => EditorView.atomicRanges.of((view) => {
        const all = view.plugin(plugin)?.decorations ?? Decoration.none;
        return all.update({ filter: (_from, _to, each) => each.spec.widget !== undefined });
      }),
    },
  );
}

const plain = (text: string): string => text.replace(/[^\p{L}\p{N}_]/gu, "").toLowerCase();

function completing(options: EditorOptions) {
  const complete = (context: CompletionContext): CompletionResult | null => {
    const begun = context.matchBefore(/\{\{\s*#?[\w.\- ]*/) ?? context.matchBefore(/(?<![\w/:.])\/[\w.\-]*/);
    if (!begun) return null;
    const template = options.language === "template";
    const close = (from: number, to: number, text: string, view: EditorView): void => {
      const after = view.state.sliceDoc(to, to + 3);
      const end = to + (after.startsWith("#}}") ? 3 : after.startsWith("}}") ? 2 : 0);
      view.dispatch({ changes: { from, to: end, insert: text }, selection: { anchor: from + text.length } });
    };
    const found = template
      ? options.names().map((name) => ({ label: `{{ ${name} }}`, detail: "", text: `{{ ${name} }}` }))
      : options.candidates().map((each) => ({ label: each.title ? `${each.name} · ${each.title}` : each.reference, detail: each.type, text: `{{#${each.reference}#}}` }));
    return {
      from: begun.from,
      filter: false,
      update: (_result, _from, _to, typed) => complete(typed), // a choice has no effect while completions are asked for anew
      options: found
        .filter(({ label, detail, text }) => [`${text} ${label} ${detail}`, label].some((words) => plain(words).includes(plain(begun.text))))
        .map(({ label, detail, text }) => ({ label, detail, apply: (view: EditorView, _: unknown, from: number, to: number) => close(from, to, text, view) })),
    };
  };
  return complete;
}

const LANGUAGES: Record<string, () => Extension> = { python, javascript, json };

export function createEditor(host: HTMLElement, options: EditorOptions): Editor {
  const shadow = host.shadowRoot ?? host.attachShadow({ mode: "open", delegatesFocus: true });
  const place = document.createElement("div");
  shadow.replaceChildren(place);
  const programming = options.language in LANGUAGES;
  let showing = false;
  const view = new EditorView({
    root: shadow,
    parent: place,
    state: EditorState.create({
      doc: options.value,
      extensions: [
        history(), closeBrackets(), programming ? bracketMatching() : [], syntaxHighlighting(colours), look, programming ? [] : chips(options),
        EditorView.lineWrapping,
        EditorView.contentAttributes.of({ "aria-label": options.label, "aria-multiline": "true", spellcheck: programming ? "false" : "true" }),
        EditorView.editorAttributes.of({ class: programming || options.language === "template" ? "mono" : "" }),
        EditorState.readOnly.of(options.locked),
        indentUnit.of("    "),
        LANGUAGES[options.language]?.() ?? [],
        autocompletion({ override: [completing(options)], icons: false }),
        keymap.of([...closeBracketsKeymap, ...completionKeymap, ...(programming ? [indentWithTab] : []), ...historyKeymap, ...defaultKeymap.filter((each) => each.key !== "Mod-Enter")]),
        EditorView.updateListener.of((update) => {
          if (update.docChanged && !showing) options.change(update.state.doc.toString());
          if (update.focusChanged && !update.view.hasFocus) options.leave();
        }),
      ],
    }),
  });
  return {
    show(text) {
      if (text === view.state.doc.toString()) return;
      showing = true;
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
      showing = false;
    },
    offer() {
      if (view.hasFocus) startCompletion(view);
    },
    rename: () => view.dispatch({ effects: renamed.of(null) }),
    focus: () => view.focus(),
    destroy: () => view.destroy(),
  };
}
