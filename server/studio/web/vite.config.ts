import { readFileSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import react from "@vitejs/plugin-react";
import { defineConfig, type Plugin } from "vite";

/** Write the licences of the packages in the bundle beside it, as their terms ask. */
function licences(): Plugin {
  const found = new Map<string, string>();
  const note = (file: string): void => {
    const at = file.lastIndexOf("node_modules/");
    if (at < 0) return;
    const parts = file.slice(at + "node_modules/".length).split("/");
    const name = parts[0]?.startsWith("@") ? parts.slice(0, 2).join("/") : (parts[0] ?? "");
    if (!name || found.has(name)) return;
    const folder = join(file.slice(0, at), "node_modules", name);
    const text = readdirSync(folder).find((each) => /^licen[cs]e/i.test(each));
    const about = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as { version: string; license: string };
    found.set(name, `${name} ${about.version} (${about.license})\n\n${text ? readFileSync(join(folder, text), "utf8") : ""}`);
  };
  return {
    name: "licences",
    apply: "build",
    generateBundle() {
      for (const id of this.getModuleIds()) if (!id.startsWith("\0")) note((id.split("?")[0] ?? id));
      const source = [...found.keys()].sort().map((name) => found.get(name)).join(`\n${"-".repeat(80)}\n`);
      this.emitFile({ type: "asset", fileName: "LICENSES.txt", source });
    },
  };
}

/** Load the page's script along with the entry, which asks for the document first. */
function early(): Plugin {
  return {
    name: "early",
    apply: "build",
    transformIndexHtml: {
      order: "post",
      handler(_, { bundle }) {
        const page = Object.values(bundle ?? {}).find((each) => each.type === "chunk" && each.name === "page");
        return page ? [{ tag: "link", attrs: { rel: "modulepreload", crossorigin: true, href: `./${page.fileName}` }, injectTo: "head" }] : [];
      },
    },
  };
}

export default defineConfig({
  root: dirname(new URL(import.meta.url).pathname),
  base: "./",
  plugins: [react(), licences(), early()],
  build: {
    outDir: "../bundle",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 2000,
  },
});
