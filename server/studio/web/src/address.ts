// What the address of the page names: a file; and from the run page, a run, a node and what to do with it.

const given = (): URLSearchParams => new URLSearchParams(location.hash.slice(1));

export const pathNamed = (): string | null => given().get("file");

export interface Wanted {
  run: string | null;
  node: string | null;
  /** "rerun" to run from the node again, "test" to make a test of the run. */
  then: string | null;
}

export const wanted = (): Wanted => ({ run: given().get("run"), node: given().get("node"), then: given().get("then") });
