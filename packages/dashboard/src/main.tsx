// The page begins here: token, theme, live updates, the first view.

import "./styles/base.css";
import "./styles/parts.css";
import "./styles/pages.css";
import { render } from "preact";
import { goLive } from "./api/live.ts";
import { beginSession } from "./api/session.ts";
import { readToken } from "./api/token.ts";
import { App } from "./app/App.tsx";
import { applyTheme } from "./ui/theme.ts";

readToken();
applyTheme();
const root = document.getElementById("app");
if (root !== null) render(<App />, root);
void beginSession().then(goLive);
