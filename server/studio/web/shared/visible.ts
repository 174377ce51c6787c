// Texts of models and documents, of which nothing is hidden.

const HIDING = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b\u202a-\u202e\u2066-\u2069\ufeff]/g;

/** A text in which control characters, and those that change its direction, are shown as their numbers. */
export const visible = (text: string): string =>
  text.replaceAll("\r\n", "\n").replace(HIDING, (each) => `[U+${each.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}]`);
