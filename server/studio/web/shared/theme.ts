// Light, dark, or as the system says; kept by the browser for all pages.

export type Theme = "system" | "light" | "dark";

const KEY = "operad-theme";

export function keptTheme(): Theme {
  try {
    const kept = localStorage.getItem(KEY);
    return kept === "light" || kept === "dark" ? kept : "system";
  } catch {
    return "system"; // a file may not keep anything
  }
}

export function setTheme(theme: Theme): void {
  if (theme === "system") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = theme;
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // it holds for this page alone
  }
}

/** Change between light and dark. */
export function turnTheme(): void {
  const kept = document.documentElement.dataset["theme"];
  const dark = kept ? kept === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  setTheme(dark ? "light" : "dark");
}
