// The entry of the run page and of the report, which is the same page with a run inside.

import { byId } from "../shared/dom";
import { keptTheme, setTheme } from "../shared/theme";
import { App } from "./app";
import { Embedded, Server } from "./source";
import "./page.css";

setTheme(keptTheme());
new App(byId("picture-data").textContent.trim() ? new Embedded() : new Server()).start();
