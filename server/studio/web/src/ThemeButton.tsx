import type { ReactElement } from "react";
import { Icon } from "./icons";
import type { Theme } from "../shared/theme";
import { useCommands, useStudio } from "./store";

const NEXT: Record<Theme, Theme> = { system: "light", light: "dark", dark: "system" };
const NAMES: Record<Theme, string> = { system: "as the system", light: "light", dark: "dark" };

export function ThemeButton({ className = "" }: { className?: string }): ReactElement {
  const theme = useStudio((state) => state.theme);
  const commands = useCommands();
  const label = `Colours: ${NAMES[theme]}`;
  return (
    <button type="button" className={`ghost ${className}`} aria-label={label} title={label} onClick={() => commands.theme(NEXT[theme])}><Icon name={theme} /></button>
  );
}
