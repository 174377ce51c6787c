// The file that the address of the page names.

export function pathNamed(): string | null {
  const named = /^#file=(.+)$/.exec(location.hash)?.[1];
  try {
    return named ? decodeURIComponent(named) : null;
  } catch {
    return null; // an address with a broken %
  }
}
