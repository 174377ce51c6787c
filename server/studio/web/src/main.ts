// The entry: asks for the document that the address names, and loads the page meanwhile.

import { pathNamed } from "./address";
import { api } from "./api";
import { createLayout } from "./layout";
import "@xyflow/react/dist/base.css";
import "../shared/tokens.css";
import "../shared/markdown.css";
import "./style/parts.css";
import "./style/app.css";
import "./style/canvas.css";
import "./style/panels.css";
import "./style/tests.css";
import "./style/start.css";

const path = pathNamed();
const opening = path ? { path, document: api.open(path) } : null;
opening?.document.catch(() => undefined); // told once the page is there
const layout = createLayout();
if (opening) layout.warm();
void import("./page").then(({ show }) => show(layout, opening));
