import { readFileSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import react from "@vitejs/plugin-react";
import { type Plugin, type UserConfig, defineConfig } from "vite";

const WEB = dirname(fileURLToPath(import.meta.url));

/** Pages that are one file each, with their script and style inside: their entry and template, and the folder they are written to. */
const PAGES: Record<string, { entry: string; template: string; folder: string }> = {
  run: { entry: "view/main.ts", template: "view/run.html", folder: "../../view/bundle" },
  runs: { entry: "view/runs.ts", template: "view/runs.html", folder: "../../view/bundle" },
  evaluation: { entry: "view/evaluation.ts", template: "view/evaluation.html", folder: "../../view/bundle" },
  chat: { entry: "chat/main.ts", template: "chat/chat.html", folder: "../../api/bundle" },
  inbox: { entry: "inbox/main.ts", template: "inbox/inbox.html", folder: "../../api/bundle" },
};

/** The licences of the packages in a bundle, as their terms ask. */
function licencesOf(ids: Iterable<string>): string {
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
  for (const id of ids) if (!id.startsWith("\0")) note(id.split("?")[0] ?? id);
  return [...found.keys()].sort().map((name) => found.get(name)).join(`\n${"-".repeat(80)}\n`);
}

/** Write the licences beside the bundle. */
function licences(): Plugin {
  return {
    name: "licences",
    apply: "build",
    generateBundle() {
      this.emitFile({ type: "asset", fileName: "LICENSES.txt", source: licencesOf(this.getModuleIds()) });
    },
  };
}

/** Write a page as one file: its template with style and script inside, and the licences of what it contains behind them. */
function oneFile(name: string, template: string): Plugin {
  return {
    name: "one-file",
    apply: "build",
    enforce: "post",
    generateBundle(_, bundle) {
      let [style, script] = ["", ""];
      for (const [file, part] of Object.entries(bundle)) {
        if (part.type === "chunk") script += part.code;
        else if (file.endsWith(".css")) style += String(part.source);
        delete bundle[file];
      }
      const modules = licencesOf(this.getModuleIds());
      if (modules) script += `/*\n${modules.replaceAll("*/", "* /")}*/\n`;
      if (/<\/?script/i.test(script) || style.includes("</")) throw new Error(`${name}: its code would end the element that it stands in`);
      const html = readFileSync(join(WEB, template), "utf8");
      this.emitFile({ type: "asset", fileName: `${name}.html`, source: html.replace("<!-- style -->", () => style).replace("<!-- script -->", () => script) });
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

const studio: UserConfig = {
  root: WEB,
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
};

/** A page in one file. The names of its functions, and its lines, are kept, so that the stack of an error can be read. */
const page = (name: string, { entry, template, folder }: { entry: string; template: string; folder: string }): UserConfig => ({
  root: WEB,
  plugins: [oneFile(name, template)],
  build: {
    outDir: folder,
    emptyOutDir: false,
    target: "es2022",
    rolldownOptions: { output: { minify: { compress: true, mangle: { keepNames: true }, codegen: { removeWhitespace: false } } } },
    lib: { entry: join(WEB, entry), name: "page", formats: ["iife"], fileName: name, cssFileName: name },
  },
});

export default defineConfig(({ mode }) => {
  const chosen = PAGES[mode];
  return chosen ? page(mode, chosen) : studio;
});
