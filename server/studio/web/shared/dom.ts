// Elements. Texts of models and documents are set as text, and never become markup.

import { lookOf } from "./states";
import { visible } from "./visible";

export type Child = Node | string | null | undefined | false | 0 | readonly Child[];
type Handlers = { [Name in keyof GlobalEventHandlersEventMap as `on${Name}`]?: (event: GlobalEventHandlersEventMap[Name]) => unknown };
type Properties = Handlers & { [name: string]: unknown };
type NameOf<Tag extends string> = Tag extends `${infer Name}.${string}` ? Name : Tag;
type ElementOf<Tag extends string> = NameOf<Tag> extends keyof HTMLElementTagNameMap ? HTMLElementTagNameMap[NameOf<Tag>] : HTMLElement;

const TEXTS = new Set(["textContent", "title", "aria-label"]);

/** The element of the page with an id. */
export const byId = <Found extends HTMLElement = HTMLElement>(id: string): Found => document.getElementById(id) as Found;

/** An element: its tag, with classes after dots; its properties; what is in it, elements or texts. */
export function make<Tag extends string>(tag: Tag, properties: Properties = {}, ...children: Child[]): ElementOf<Tag> {
  const [name = "", ...classes] = tag.split(".");
  const element = document.createElement(name);
  if (classes.length) element.className = classes.join(" ");
  for (const [key, given] of Object.entries(properties)) {
    if (given === undefined || given === null || given === false) continue;
    const value = TEXTS.has(key) ? visible(String(given)) : given;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value as EventListener);
    else if (key.includes("-") || key === "role") element.setAttribute(key, String(value));
    else Object.assign(element, { [key]: value });
  }
  const inside = children.flat(Infinity as 1) as Child[];
  element.append(...inside.filter((each) => each || each === "").map((each) => (typeof each === "string" ? visible(each) : each as Node)));
  return element as ElementOf<Tag>;
}

export function makeSvg<Name extends keyof SVGElementTagNameMap>(name: Name, attributes: Record<string, string> = {}, ...children: Node[]): SVGElementTagNameMap[Name] {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

/** The mark of a state. */
export function icon(state: string): SVGSVGElement {
  const { shape, hollow } = lookOf(state);
  return makeSvg("svg", { viewBox: "0 0 16 16", class: `icon ${hollow ? "hollow" : ""} s-${state}`, "aria-hidden": "true" }, makeSvg("path", { d: shape }));
}

export const sign = (shape: string): SVGSVGElement =>
  makeSvg("svg", { viewBox: "0 0 16 16", class: "icon hollow", "aria-hidden": "true" }, makeSvg("path", { d: shape }));
