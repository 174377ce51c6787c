// Tables as texts: values separated by commas or tabs, quoted where they hold one.

export function separated(text: string, separator: string): string[][] {
  const rows: string[][] = [];
  let [row, value, quoted] = [[] as string[], "", false];
  const end = (): void => {
    row.push(value);
    value = "";
  };
  const signs = text.replace(/^\uFEFF/, "").replace(/\r\n?/g, "\n");
  for (let at = 0; at < signs.length; at++) {
    const sign = signs[at] ?? "";
    if (quoted) {
      if (sign !== "\"") value += sign;
      else if (signs[at + 1] === "\"") value += signs[++at];
      else quoted = false;
    } else if (sign === "\"" && !value) quoted = true;
    else if (sign === separator) end();
    else if (sign === "\n") {
      end();
      rows.push(row);
      row = [];
    } else value += sign;
  }
  if (value || row.length) {
    end();
    rows.push(row);
  }
  return rows.filter((each) => each.length > 1 || each[0]);
}
