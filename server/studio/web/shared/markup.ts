// Whether a text is Markdown; apart from its reader, which is large.

const MARKUP = /(^|\n)\s{0,3}(#{1,6} |[-*+] |\d+[.)] |> |```|~~~|\|.+\|)|\*\*\S|`[^`\n]+`|\[[^\]\n]+\]\(/;
const MOST_LOOKED_AT = 20_000;

/** Whether a text is worth formatting. */
export const isMarkdown = (text: string): boolean => MARKUP.test(text.slice(0, MOST_LOOKED_AT));
