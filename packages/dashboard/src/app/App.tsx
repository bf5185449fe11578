// The frame around every page: navigation, the state of the connection, the theme, the form for the token.

import { useSignal, useSignalEffect } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { isReachable, needsToken } from "../api/call.ts";
import { follow, liveState } from "../api/live.ts";
import { health, isReady, refreshHealth, signIn } from "../api/session.ts";
import { token } from "../api/token.ts";
import { StartDialog } from "../forms/StartDialog.tsx";
import { HealthPage } from "../pages/HealthPage.tsx";
import { QueuesPage } from "../pages/QueuesPage.tsx";
import { SchedulesPage } from "../pages/SchedulesPage.tsx";
import { WorkersPage } from "../pages/WorkersPage.tsx";
import { RunPage } from "../run/RunPage.tsx";
import { RunsPage } from "../runs/RunsPage.tsx";
import { Dialog } from "../ui/Dialog.tsx";
import { useKeys } from "../ui/keys.ts";
import { Notice } from "../ui/parts.tsx";
import { Link, navigate, view } from "../ui/router.tsx";
import { theme, toggleTheme } from "../ui/theme.ts";

export function App() {
  if (needsToken.value !== "no" && isReady.value) return <TokenForm />;
  // With a token the page loads at once, beside the first call; without one, that call says whether one is needed.
  // Another token sees other things: nothing of the one before stays.
  return isReady.value || token.value !== undefined ? <Frame key={token.value} /> : <Waiting />;
}

/** As in index.html. */
function Waiting() {
  return (
    <header class="bar">
      <span class="brand">Holdfast</span>
    </header>
  );
}

function TokenForm() {
  const given = useSignal("");
  const isRefused = needsToken.value === "refused";
  return (
    <main class="sign-in">
      <h1>Holdfast</h1>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (given.value.trim() !== "") void signIn(given.value.trim());
        }}
      >
        {isRefused && (
          <p class="problem" role="alert">
            The server refused the token.
          </p>
        )}
        <label class="field">
          <span>Token</span>
          <input
            type="text"
            autocomplete="off"
            spellcheck={false}
            value={given.value}
            onInput={({ currentTarget }) => {
              given.value = currentTarget.value;
            }}
          />
        </label>
        <p class="muted">
          <code>holdfast dev</code> and <code>holdfast dashboard</code> print an address that has it.
        </p>
        <button type="submit" class="primary">
          Open
        </button>
      </form>
    </main>
  );
}

const NAVIGATION = [
  ["runs", "Runs"],
  ["schedules", "Schedules"],
  ["queues", "Queues"],
  ["workers", "Workers"],
  ["health", "Health"],
] as const;

/** Pages of what this engine lacks are left out. */
function isThere(page: string): boolean {
  const features = health.value?.features;
  if (features === undefined) return true;
  return page === "schedules" ? features.schedules : page === "queues" ? features.queues : page === "workers" ? features.workers : true;
}

function Frame() {
  const isHelpOpen = useSignal(false);
  useKeys((event) => {
    if (event.key !== "?") return false;
    isHelpOpen.value = true;
    return true;
  });
  // After a lost connection the server may be another one.
  useEffect(() => follow([], ({ event }) => void (event === "all" && refreshHealth())), []);
  useSignalEffect(() => {
    const at = view.value;
    document.title = `${at.page === "run" ? at.id : (NAVIGATION.find(([path]) => path === at.page)?.[1] ?? "Runs")} · Holdfast`;
  });
  const { page } = view.value;
  return (
    <>
      <a class="skip" href="#main">
        Skip to content
      </a>
      <header class="bar">
        <Link to="runs" class="brand">
          Holdfast
        </Link>
        <nav aria-label="Main">
          {NAVIGATION.filter(([path]) => isThere(path)).map(([path, label]) => (
            <Link key={path} to={path} current={page === path || (path === "runs" && (page === "run" || page === "start"))}>
              {label}
            </Link>
          ))}
        </nav>
        <span class="grow" />
        <Connection />
        <button
          type="button"
          class="plain"
          aria-label="Keyboard shortcuts"
          onClick={() => {
            isHelpOpen.value = true;
          }}
        >
          ?
        </button>
        <button type="button" class="plain" aria-label={theme.value === "dark" ? "Light theme" : "Dark theme"} onClick={toggleTheme}>
          <span aria-hidden="true">{theme.value === "dark" ? "☀" : "☾"}</span>
        </button>
      </header>
      <main id="main" tabIndex={-1}>
        <Page />
      </main>
      {isHelpOpen.value && (
        <Help
          onClose={() => {
            isHelpOpen.value = false;
          }}
        />
      )}
    </>
  );
}

function Page() {
  const at = view.value;
  switch (at.page) {
    case "runs":
      return <RunsPage />;
    case "run":
      return <RunPage key={at.id} id={at.id} />;
    case "start":
      return (
        <>
          <RunsPage />
          <StartDialog onClose={() => navigate("runs")} />
        </>
      );
    case "schedules":
      return <SchedulesPage />;
    case "queues":
      return <QueuesPage />;
    case "workers":
      return <WorkersPage />;
    case "health":
      return <HealthPage />;
    case "none":
      return (
        <Notice title="Page not found">
          <p>
            <Link to="runs">All runs</Link>
          </p>
        </Notice>
      );
  }
}

const STATES = { connecting: "Connecting", live: "Live", polling: "Polling", disconnected: "Disconnected, retrying" } as const;

function Connection() {
  const state = isReachable.value ? liveState.value : "disconnected";
  return (
    <span class="connection" role="status" data-state={state}>
      {STATES[state]}
    </span>
  );
}

const KEYS = [
  ["/", "Filter runs, or the operations of a run"],
  ["j  k", "Next, previous operation"],
  ["f", "Next failure"],
  ["[  ]", "Previous, next turn"],
  ["+  −  0", "Zoom in, out, whole timeline"],
  ["← → ↑ ↓", "Scroll; in the list of operations: fold, unfold, move"],
  ["Enter", "Details of the selected operation"],
  ["Esc", "Close"],
  ["?", "This list"],
] as const;

function Help({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Keyboard shortcuts" onClose={onClose}>
      <dl class="keys">
        {KEYS.map(([keys, text]) => (
          <div key={keys}>
            <dt>
              {keys.split("  ").map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{text}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
